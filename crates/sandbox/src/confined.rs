use std::{
    os::unix::process::CommandExt as _,
    path::{Path, PathBuf},
    time::Duration,
};

use sid_policy::{Hidden, Kind, Permit};

use crate::{
    host::Host,
    jobs::{Job, JobId, JobState},
    placeholder::CONFIG,
    process::{Exit, Io, Limits, Process, Ran},
    scratch::Scratch,
    streams::Kept,
    wall::Wall,
};

/// A place to act in, bounded by a permit. No permit, no `Confined`; and it reaches only what was judged.
#[derive(Debug)]
pub struct Confined<'a> {
    pub(crate) permit: Permit,
    pub(crate) host: &'a Host,
}

/// How often a sandbox is set up anew that could not be: a socket or file that it covers may have gone in between. Nothing
/// has run then.
pub(crate) const TRIES: u32 = 8;
/// Between input and an interrupt that follows it.
const SETTLING: Duration = Duration::from_millis(20);
/// How long setting up takes at most, as a rule.
const SETTING_UP: Duration = Duration::from_millis(20);

impl<'a> Confined<'a> {
    /// Enters.
    #[must_use]
    pub fn enter(host: &'a Host, permit: Permit) -> Self {
        Self { permit, host }
    }

    /// The canonical path of the n-th declared path, and what was there when it was judged.
    ///
    /// # Errors
    /// The permit covers no such path.
    pub fn path(&self, n: usize) -> Result<(PathBuf, Kind), String> {
        let found = self.permit.paths().get(n);
        let path = found.and_then(|it| Some((it.canonical.clone()?, it.kind)));
        path.ok_or_else(|| "The permit covers no such path.".to_owned())
    }

    /// Why a tool can't walk below the n-th path: it is the container's.
    #[must_use]
    pub fn unwalkable(&self, n: usize) -> Option<String> {
        let (path, _) = self.path(n).ok()?;
        self.host.elsewhere(&path, self.permit.fence())?;
        Some(format!("{} is in the container, outside the workspace; search there with a command (find, grep).", path.display()))
    }

    /// What this permit lets be made is not set aside, even if it has a protected name.
    pub(crate) fn granted(&self, n: usize) {
        if let Ok((path, Kind::Missing)) = self.path(n) {
            self.host.grant(path);
        }
    }

    /// What is hidden from the model, to take along into a walk.
    #[must_use]
    pub fn hider(&self) -> Hider {
        let fence = self.permit.fence();
        let mut hider = Hider::new(fence.hidden.clone(), fence.secret.clone());
        hider.secret.extend(Some(self.root().join(CONFIG)).filter(|it| self.host.reserves(it)));
        hider
    }

    /// The primary root.
    #[must_use]
    pub fn root(&self) -> &Path {
        self.permit.fence().roots.first().map_or(Path::new("/"), PathBuf::as_path)
    }

    /// Runs the judged command and waits for it.
    ///
    /// # Errors
    /// It could not be started, in a sentence for the model.
    pub async fn run(&self, limits: Limits) -> Result<Ran, String> {
        self.run_with(Io::NoInput, None, limits).await
    }

    /// The same, with its streams apart.
    ///
    /// # Errors
    /// It could not be started, in a sentence for the model.
    pub async fn run_apart(&self, limits: Limits) -> Result<Ran, String> {
        self.run_with(Io::Apart, None, limits).await
    }

    /// The same, with a folder of the call's own, and its streams kept.
    ///
    /// # Errors
    /// It could not be started, in a sentence for the model.
    pub async fn run_in(&self, scratch: &Scratch, kept: Kept, limits: Limits) -> Result<Ran, String> {
        self.run_with(Io::Apart, Some((scratch, kept)), limits).await
    }

    /// The place of the command that is to be run before this one, and only looks. `None`: there is none.
    #[must_use]
    pub fn before(&self) -> Option<Confined<'_>> {
        Some(Confined { permit: self.permit.before()?, host: self.host })
    }

    async fn run_with(&self, io: Io, scratch: Option<(&Scratch, Kept)>, limits: Limits) -> Result<Ran, String> {
        self.run_as(None, io, scratch, limits).await
    }

    /// Runs the judged command to its end; `script` has it run in another shell.
    pub(crate) async fn run_as(
        &self,
        script: Option<&str>,
        io: Io,
        scratch: Option<(&Scratch, Kept)>,
        limits: Limits,
    ) -> Result<Ran, String> {
        let mut tries = 0;
        loop {
            tries += 1;
            let mut process = self.start(script, limits.output, io, scratch)?;
            self.host.jobs.borrow_mut().wait_for(&process);
            let in_time = tokio::time::timeout(limits.time, process.wait()).await;
            let timed_out = in_time.is_err();
            let exit = match in_time {
                Ok(exit) => exit,
                Err(_) => process.stop(limits.grace).await,
            };
            self.host.jobs.borrow_mut().settle();
            if exit != Exit::NoSandbox || tries == TRIES {
                let (output, errors) = (process.take(), process.take_errors());
                return Ok(Ran { exit, timed_out, output, errors, aftermath: process.aftermath() });
            }
        }
    }

    /// Replaces this process by a command in the sandbox, with its streams as they are. Returns only if that fails, with the
    /// reason.
    #[must_use]
    pub fn become_command(&self, words: &[std::ffi::OsString]) -> String {
        let Some(exec) = &self.permit.access().exec else { return "The permit covers no command.".to_owned() };
        match Wall::of(self.host, self.permit.fence(), self.permit.bounds(), None) {
            Ok(wall) => {
                let mut it = wall.whole(&exec.cwd, words);
                it.env_clear().envs(wall.environment.vars()).exec().to_string()
            }
            Err(why) => why,
        }
    }

    /// Starts the judged command in the background.
    ///
    /// # Errors
    /// It could not be started, in a sentence for the model.
    pub async fn spawn(&self, output: usize) -> Result<JobId, String> {
        Ok(self.background(output, Io::NoInput, SETTING_UP).await?.0)
    }

    /// Starts the judged command and waits up to `wait` for it. When that is over the command goes on, in the background. The
    /// id is good in both cases, for what it printed and for what it still may.
    ///
    /// # Errors
    /// It could not be started, in a sentence for the model.
    pub async fn begin(&self, output: usize, io: Io, wait: Duration) -> Result<(JobId, Job), String> {
        let (id, _) = self.background(output, io, wait).await?;
        let job = self.host.jobs.borrow_mut().look(id);
        Ok((id, job.ok_or("The command was forgotten.")?))
    }

    /// While it is waited for, giving the call up ends it; afterwards it stays.
    async fn background(&self, output: usize, io: Io, wait: Duration) -> Result<(JobId, Process), String> {
        let until = tokio::time::Instant::now() + wait;
        let mut tries = 1;
        let process = loop {
            let mut process = self.start(None, output, io, None)?;
            self.host.jobs.borrow_mut().wait_for(&process);
            let early = tokio::time::timeout_at(until, process.wait()).await;
            self.host.jobs.borrow_mut().let_go(&process);
            if early != Ok(Exit::NoSandbox) || tries == TRIES {
                break process;
            }
            tries += 1;
        };
        let command = self.permit.access().exec.as_ref().map_or("", |it| it.command.as_str());
        let id = self.host.jobs.borrow_mut().add(command, process.clone());
        Ok((id, process))
    }

    fn start(&self, script: Option<&str>, output: usize, io: Io, scratch: Option<(&Scratch, Kept)>) -> Result<Process, String> {
        let exec = self.permit.access().exec.as_ref().ok_or("The permit covers no command.")?;
        if !exec.cwd.is_dir() {
            return Err(format!("The working directory {} does not exist (any more).", exec.cwd.display()));
        }
        Process::start(self.host, &self.permit, (&exec.cwd, script.unwrap_or(&exec.command)), scratch, output, io)
    }

    /// Writes to a background command, then waits up to `time` and tells what is new. Each ETX (Ctrl-C) in `text` is an
    /// interrupt at that place. `None`: there is no such command.
    ///
    /// # Errors
    /// It can't be written to, in half a sentence for the model.
    pub async fn send(&self, id: JobId, text: &str, time: Duration) -> Option<Result<Job, String>> {
        let process = self.host.jobs.borrow().process(id)?;
        let written = async {
            if !text.is_empty() && process.exit().is_some() {
                return Err("the command has ended; what it printed can still be read with empty input".to_owned());
            }
            let mut parts = text.split('\u{3}').peekable();
            while let Some(part) = parts.next() {
                if !part.is_empty() {
                    process.input()?.write(part).await?;
                }
                if parts.peek().is_some() {
                    // What was written before is to be read before.
                    tokio::time::sleep(SETTLING).await;
                    process.interrupt();
                }
            }
            Ok(())
        };
        match written.await {
            Ok(()) => Some(Ok(self.watch(id, time).await?)),
            Err(why) => Some(Err(why)),
        }
    }

    /// Waits up to `time` for a background command to end, then tells what is new.
    pub async fn watch(&self, id: JobId, time: Duration) -> Option<Job> {
        let mut process = self.host.jobs.borrow().process(id)?;
        let _still_running = tokio::time::timeout(time, process.wait()).await;
        self.host.jobs.borrow_mut().look(id)
    }

    /// Stops a background command, and leaves what it printed to be read. `None`: there is none; `Some(None)`: it does not run.
    pub async fn stop(&self, id: JobId, grace: Duration) -> Option<Option<String>> {
        let mut process = self.host.jobs.borrow().process(id)?;
        if process.exit().is_some() {
            return Some(None);
        }
        let command = self.host.jobs.borrow_mut().mark_killed(id);
        process.stop(grace).await;
        Some(command)
    }

    /// Stops a background command; one that ended already is only looked at.
    pub async fn kill(&self, id: JobId, grace: Duration) -> Option<Job> {
        let mut process = self.host.jobs.borrow().process(id)?;
        if process.exit().is_none() {
            self.host.jobs.borrow_mut().mark_killed(id);
            process.stop(grace).await;
        }
        self.host.jobs.borrow_mut().look(id)
    }
}

/// Files that are hidden by an ignore file or by sid itself.
#[derive(Debug, Clone)]
pub struct Hider {
    hidden: Hidden,
    secret: Vec<PathBuf>,
}

impl Hider {
    /// Hides these.
    #[must_use]
    pub fn new(hidden: Hidden, secret: Vec<PathBuf>) -> Self {
        Self { hidden, secret }
    }

    /// What of it can matter below `root`.
    #[must_use]
    pub fn below(mut self, root: &Path) -> Self {
        self.secret.retain(|it| it.starts_with(root) || root.starts_with(it));
        self
    }

    /// Whether `path` is one.
    #[must_use]
    pub fn hides(&self, path: &Path, kind: Kind) -> bool {
        self.hidden.hides(path, kind) || self.secret.iter().any(|it| path.starts_with(it))
    }
}

impl Job {
    /// Whether it still runs.
    #[must_use]
    pub fn is_running(&self) -> bool {
        self.state == JobState::Running
    }
}
