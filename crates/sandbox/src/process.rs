//! One command: its start, its output, its end.
use std::{
    fs::File,
    io::Read as _,
    os::unix::process::{CommandExt as _, ExitStatusExt as _},
    path::Path,
    process::{Command, ExitStatus, Stdio},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use rustix::{
    pipe::{PipeFlags, pipe_with},
    process::Signal,
};
use sid_policy::{Bounds, Permit};
use tokio::{io::AsyncReadExt as _, net::unix::pipe::Receiver, sync::watch};

use crate::{
    capture::{Capture, More, Taken},
    host::Host,
    signals::{children_of, kill_session, signal_group, signal_group_of},
    wall::{InfoPipe, Wall},
};

/// How long a command may take, and how much of its output is kept.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Wall time of a foreground command.
    pub time: Duration,
    /// Between asking it to stop and killing it.
    pub grace: Duration,
    /// Bytes of output.
    pub output: usize,
}

/// How a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// By itself, with this code (128 + n for a signal inside the sandbox).
    Code(i32),
    /// By a signal.
    Signal(i32),
    /// The sandbox itself could not be set up; its words are in the output.
    NoSandbox,
}

/// A foreground command that is over.
#[derive(Debug)]
pub struct Ran {
    /// How it ended.
    pub exit: Exit,
    /// It was stopped because its time was up.
    pub timed_out: bool,
    /// What it printed, both streams as they came.
    pub output: Taken,
}

/// A running command. When the last handle is dropped it is killed.
#[derive(Debug, Clone)]
pub(crate) struct Process {
    shared: Arc<Shared>,
    done: watch::Receiver<Option<Exit>>,
}

#[derive(Debug)]
struct Shared {
    pid: u32,
    /// Bubblewrap's word on its inner pid; `None` without a sandbox.
    info: Option<Mutex<Info>>,
    output: Arc<Mutex<Capture>>,
    over: watch::Receiver<Option<Exit>>,
}

impl Process {
    /// Starts `command` within the permit's bounds; in a sandbox that waits for it already, if there is a fitting one.
    pub(crate) fn start(host: &Host, permit: &Permit, command: &str, cwd: &Path, cap: usize) -> Result<Self, String> {
        if permit.bounds() == Bounds::Unbounded {
            return Self::launch(host, bare(command, cwd), Stdio::null(), None, cap);
        }
        let wall = Wall::of(host, permit.fence(), permit.bounds())?;
        if let Some(it) = host.spare.borrow_mut().take().and_then(|it| it.release(&wall, command, cwd, cap)) {
            return Ok(it);
        }
        host.sandbox_used.set(true);
        let (child, info) = wall.command(Some(cwd), &[command])?;
        Self::launch(host, child, Stdio::null(), Some(info), cap)
    }

    /// Starts a child whose output is captured.
    pub(crate) fn launch(
        host: &Host,
        mut child: Command,
        stdin: Stdio,
        info: Option<InfoPipe>,
        cap: usize,
    ) -> Result<Self, String> {
        let failed = |err: std::io::Error| format!("The command could not be started: {err}.");
        let (out, end) = pipe_with(PipeFlags::CLOEXEC).map_err(|err| failed(err.into()))?;
        let both = end.try_clone().map_err(failed)?;
        child.stdin(stdin).stdout(Stdio::from(end)).stderr(Stdio::from(both));
        child.env_clear().envs(host.environment.vars());
        let mut child = tokio::process::Command::from(child).kill_on_drop(true).spawn().map_err(failed)?;
        let info = info.map(|it| Mutex::new(Info { pipe: File::from(it.read), said: String::new() }));
        let late = Duration::from_millis(if info.is_some() { 2000 } else { 200 });
        let output = Arc::new(Mutex::new(Capture::new(cap)));
        let (tell, done) = watch::channel(None);
        let shared = Shared { pid: child.id().unwrap_or(0), info, output: Arc::clone(&output), over: done.clone() };
        let pipe = Receiver::from_owned_fd(out).map_err(failed)?;
        let reader = tokio::spawn(drain(pipe, output));
        tokio::spawn(async move {
            let status = child.wait().await;
            // What is in the pipe already is read; whoever inherited it can't hold the result up.
            let _late = tokio::time::timeout(late, reader).await;
            tell.send_replace(Some(status.map_or(Exit::Signal(0), exit)));
        });
        Ok(Self { shared: Arc::new(shared), done })
    }

    /// From now on that much of the output is kept.
    pub(crate) fn keep(&self, cap: usize) {
        *self.shared.output.lock().unwrap_or_else(PoisonError::into_inner) = Capture::new(cap);
    }

    /// How it ended, if it did.
    pub(crate) fn exit(&self) -> Option<Exit> {
        let exit = *self.done.borrow();
        exit.map(|it| self.shared.judged(it))
    }

    /// Waits for its end.
    pub(crate) async fn wait(&mut self) -> Exit {
        let exit = match self.done.wait_for(Option::is_some).await {
            Ok(it) => it.unwrap_or(Exit::Signal(0)),
            Err(_) => Exit::Signal(0),
        };
        self.shared.judged(exit)
    }

    /// Whether it may have left processes behind: without a sandbox, nothing ends them.
    pub(crate) fn leaves_traces(&self) -> bool {
        self.shared.info.is_none()
    }

    /// Output since the last time.
    pub(crate) fn take(&self) -> Taken {
        let more = if self.exit().is_some() { More::Never } else { More::MayCome };
        self.shared.output.lock().unwrap_or_else(PoisonError::into_inner).take(more)
    }

    /// Asks it to end, waits, then kills everything it started.
    pub(crate) async fn stop(&mut self, grace: Duration) -> Exit {
        if self.exit().is_none() {
            self.shared.ask();
            let _late = tokio::time::timeout(grace, self.wait()).await;
        }
        self.shared.kill();
        self.wait().await
    }
}

impl Shared {
    /// Tells a sandbox that never got to the command from a command that failed.
    fn judged(&self, exit: Exit) -> Exit {
        match (&self.info, exit) {
            (Some(info), Exit::Code(1)) if !was_reached(info) => Exit::NoSandbox,
            _ => exit,
        }
    }

    /// SIGTERM to the command itself: a signal to Bubblewrap would skip the command's traps.
    fn ask(&self) {
        match self.info.as_ref().and_then(inner_pid) {
            Some(init) => children_of(init).into_iter().for_each(|pid| signal_group_of(pid, Signal::TERM)),
            None => signal_group(self.pid, Signal::TERM),
        }
    }

    /// SIGKILL to everything. In the sandbox the namespace dies with its first process; without one, all processes of
    /// the command's session are found.
    fn kill(&self) {
        if self.over.borrow().is_none() {
            signal_group(self.pid, Signal::KILL);
        }
        if self.info.is_none() {
            kill_session(self.pid);
        }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        if self.over.borrow().is_none() {
            self.kill();
        }
    }
}

#[derive(Debug)]
struct Info {
    pipe: File,
    said: String,
}

/// `sh -c` in a session of its own, without the terminal, dying with sid.
fn bare(command: &str, cwd: &Path) -> Command {
    let mut it = Command::new("/bin/sh");
    it.args(["-c", command]).current_dir(cwd);
    // SAFETY: both are plain system calls, which are safe between fork and exec.
    unsafe {
        it.pre_exec(|| {
            rustix::process::setsid()?;
            rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
            Ok(())
        });
    }
    it
}

fn exit(status: ExitStatus) -> Exit {
    match (status.code(), status.signal()) {
        (Some(code), _) => Exit::Code(code),
        (None, signal) => Exit::Signal(signal.unwrap_or(0)),
    }
}

impl Info {
    /// What Bubblewrap has said so far: a line with its child's pid, and one with the exit code if the command was reached.
    fn said(&mut self) -> &str {
        let mut buffer = [0; 512];
        if rustix::io::ioctl_fionbio(&self.pipe, true).is_ok() {
            while let Ok(n @ 1..) = self.pipe.read(&mut buffer) {
                self.said.push_str(&String::from_utf8_lossy(&buffer[..n]));
            }
        }
        &self.said
    }
}

/// The pid of Bubblewrap's own init.
fn inner_pid(info: &Mutex<Info>) -> Option<u32> {
    let mut info = info.lock().unwrap_or_else(PoisonError::into_inner);
    let json: serde_json::Value = serde_json::from_str(info.said().lines().next()?).ok()?;
    u32::try_from(json.get("child-pid")?.as_u64()?).ok()
}

/// Whether the command was reached: only then is its exit code said.
fn was_reached(info: &Mutex<Info>) -> bool {
    info.lock().unwrap_or_else(PoisonError::into_inner).said().contains("exit-code")
}

async fn drain(mut pipe: Receiver, output: Arc<Mutex<Capture>>) {
    let mut buffer = vec![0; 1 << 16];
    while let Ok(n @ 1..) = pipe.read(&mut buffer).await {
        output.lock().unwrap_or_else(PoisonError::into_inner).feed(&buffer[..n]);
    }
}
