//! One command: its start, its input and output, its end.
use std::{
    fs::File,
    io::Read as _,
    os::unix::process::{CommandExt as _, ExitStatusExt as _},
    path::Path,
    process::{Command, ExitStatus},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use rustix::process::Signal;
use sid_policy::{Bounds, Network, Permit};
use sid_proxy::{Contact, Contacts, Service};
use tokio::sync::watch;

use crate::{
    capture::{Capture, More, Taken},
    docker::{Docker, Execution, SOCKETS, Sockets},
    environment::Environment,
    guard::{Guard, SetAside, Told},
    host::Host,
    network::{Bridge, Gate},
    placeholder::Placeholder,
    scratch::{SCRATCH, Scratch},
    signals::{children_of, kill_session, signal_group, signal_group_of, signal_one},
    spare::Spare,
    stdio::{Ends, Input, drain},
    streams::{Kept, Sink, Sinks},
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

/// How long the reserved path of the project's configuration stays after a command.
const LINGERING: Duration = Duration::from_millis(30);

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

/// What a command's streams are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Io {
    /// Nothing to read; output through a pipe.
    NoInput,
    /// Nothing to read; each stream through a pipe of its own.
    Apart,
    /// Pipes both ways.
    Pipes,
    /// A terminal of 80 columns and 24 rows.
    Terminal,
}

/// What else came of a command, since it was last asked.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Aftermath {
    /// Sentences for the model.
    pub notes: Vec<String>,
    /// What it reached and what it was refused.
    pub contacts: Vec<Contact>,
}

/// A foreground command that is over.
#[derive(Debug)]
pub struct Ran {
    /// How it ended.
    pub exit: Exit,
    /// It was stopped because its time was up.
    pub timed_out: bool,
    /// What it printed: both streams as they came, or standard output alone.
    pub output: Taken,
    /// What came on standard error, if that was apart.
    pub errors: Taken,
    /// What else came of it.
    pub aftermath: Aftermath,
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
    bounds: Bounds,
    /// Nobody waits for it, so it may be held back.
    behind: Arc<AtomicBool>,
    /// Bubblewrap's word on its inner pid; `None` without a sandbox.
    info: Option<Mutex<Info>>,
    output: Sink,
    errors: Option<Sink>,
    input: Mutex<Option<Input>>,
    over: watch::Receiver<Option<Exit>>,
    bridge: Option<Arc<Bridge>>,
    guard: Option<Guard>,
    remote: Option<(Arc<Docker>, String)>,
}

/// A child about to be started, and what belongs to it.
pub(crate) struct Launch {
    pub(crate) child: Command,
    pub(crate) bounds: Bounds,
    pub(crate) environment: Arc<Environment>,
    pub(crate) ends: Ends,
    pub(crate) info: Option<InfoPipe>,
    /// Opened once the child is there.
    pub(crate) gate: Option<(Gate, Arc<Service>, Arc<Network>)>,
    pub(crate) guard: Option<Guard>,
    /// Let go when the child is over.
    pub(crate) held: (Option<Arc<Placeholder>>, Option<Sockets>),
    /// Doors that are open already.
    pub(crate) bridge: Option<Arc<Bridge>>,
    /// As long as it runs.
    pub(crate) told: Option<Told>,
    /// The container it runs in, and what it is found by there.
    pub(crate) remote: Option<(Arc<Docker>, String)>,
}

impl Process {
    /// Starts `command` within the permit's bounds; in a sandbox that waits for it already, if there is a fitting one.
    pub(crate) fn start(
        host: &Host,
        permit: &Permit,
        (cwd, command): (&Path, &str),
        scratch: Option<(&Scratch, Kept)>,
        cap: usize,
        io: Io,
    ) -> Result<Self, String> {
        let sinks = match io {
            Io::Apart => Sinks::apart(cap, scratch.and_then(|(it, kept)| Some((host.tee.clone()?, it.number(), kept)))),
            _ => Capture::new(cap).into(),
        };
        let scratch = scratch.map(|it| it.0.dir());
        if let Some(docker) = &host.docker {
            return Self::contained(host, docker, permit, (cwd, command), cap, io);
        }
        if permit.bounds() == Bounds::Unbounded {
            let shell = permit.access().exec.as_ref().and_then(|it| it.shell.as_deref());
            let child = bare(shell.unwrap_or(Path::new("/bin/sh")), command, cwd);
            return Self::unwalled(host, child, scratch, Ends::new(io)?, sinks);
        }
        let wall = Wall::of(host, permit.fence(), permit.bounds(), scratch)?;
        let cold = || {
            let words: (_, &[&str]) = (Some(cwd), &["-c", command]);
            Self::walled(host, permit.fence(), permit.bounds(), &wall, words, Ends::new(io)?, sinks)
        };
        if io != Io::NoInput {
            return cold();
        }
        let spare = host.spare.borrow_mut().take();
        let hurried = spare.as_ref().is_none_or(Spare::is_new);
        let it = spare.and_then(|it| it.release(&wall, command, cwd, cap)).map_or_else(cold, Ok)?;
        host.sandbox_used.set(true);
        if hurried && scratch.is_none() {
            *host.spare.borrow_mut() = Spare::beside(wall, host, permit.fence(), permit.bounds()).ok();
        }
        Ok(it)
    }

    /// Starts `sh` for a shell that stays; with the wall it is behind, if it is.
    pub(crate) fn shell(
        host: &Host,
        permit: &Permit,
        (cwd, script): (&Path, &str),
        scratch: &Path,
        ends: Ends,
        output: Capture,
    ) -> Result<(Self, Option<Wall>), String> {
        if permit.bounds() == Bounds::Unbounded {
            let child = bare(Path::new("/bin/sh"), script, cwd);
            return Ok((Self::unwalled(host, child, Some(scratch), ends, output)?, None));
        }
        let wall = Wall::lasting(host, permit.fence(), permit.bounds(), scratch)?;
        let words = (Some(cwd), &["-c", script][..]);
        Ok((Self::walled(host, permit.fence(), permit.bounds(), &wall, words, ends, output)?, Some(wall)))
    }

    /// Starts a child without a sandbox.
    fn unwalled(host: &Host, child: Command, scratch: Option<&Path>, ends: Ends, sinks: impl Into<Sinks>) -> Result<Self, String> {
        let mut environment = host.environment.clone();
        if let Some(dir) = scratch {
            environment.set(SCRATCH, dir);
        }
        let it = Launch {
            child,
            bounds: Bounds::Unbounded,
            environment: Arc::new(environment),
            ends,
            info: None,
            gate: None,
            guard: None,
            held: (None, None),
            bridge: None,
            told: None,
            remote: None,
        };
        Self::launch(it, sinks.into())
    }

    /// Starts `sh` with these words behind a wall.
    pub(crate) fn walled(
        host: &Host,
        fence: &sid_policy::Fence,
        bounds: Bounds,
        wall: &Wall,
        (cwd, words): (Option<&Path>, &[&str]),
        ends: Ends,
        sinks: impl Into<Sinks>,
    ) -> Result<Self, String> {
        let service = wall.network.as_ref().map(|it| Ok::<_, String>((host.service()?, Arc::clone(it)))).transpose()?;
        let (child, info, gate) = wall.command(cwd, words)?;
        let (guard, told) = host.guard(fence, bounds).unzip();
        let it = Launch {
            child,
            bounds,
            environment: Arc::clone(&wall.environment),
            ends,
            info: Some(info),
            gate: gate.zip(service).map(|(gate, (service, network))| (gate, service, network)),
            guard,
            held: (wall.placeholder.clone(), None),
            bridge: None,
            told: told.flatten(),
            remote: None,
        };
        Self::launch(it, sinks.into())
    }

    /// Starts `command` in the container of the session.
    fn contained(
        host: &Host,
        docker: &Arc<Docker>,
        permit: &Permit,
        (cwd, script): (&Path, &str),
        cap: usize,
        io: Io,
    ) -> Result<Self, String> {
        let (fence, bounds, token) = (permit.fence(), permit.bounds(), docker.token());
        let placeholder = host.placeholder(fence, bounds);
        let network = Some(&fence.network).filter(|it| bounds == Bounds::Workspace && !it.is_closed());
        let root = fence.roots.first().map_or(Path::new("/"), |it| it.as_path());
        let open = |network: &Arc<Network>| {
            host.grant(root.join(SOCKETS));
            let service = host.service()?;
            Sockets::open(root, &token, &service, network)
                .map_err(|err| format!("The network of the container can't be set up in {}: {err}.", root.display()))
        };
        let (sockets, serving) = network.map(open).transpose()?.unzip();
        let what = Execution { fence, bounds, cwd, script, token: &token, io, sockets: sockets.as_ref() };
        let (guard, told) = host.guard(fence, bounds).unzip();
        let it = Launch {
            child: docker.command(&what)?,
            bounds,
            environment: Arc::new(host.environment.clone()),
            // The input is held open for as long as the command may run: its end ends it.
            ends: Ends::new(Io::Pipes)?,
            info: None,
            bridge: serving.map(Bridge::ready),
            gate: None,
            guard,
            held: (placeholder, sockets),
            told: told.flatten(),
            remote: Some((Arc::clone(docker), token.clone())),
        };
        Self::launch(it, Capture::new(cap).into())
    }

    /// Starts a child whose output is captured.
    fn launch(it: Launch, sinks: Sinks) -> Result<Self, String> {
        let failed = |err: std::io::Error| format!("The command could not be started: {err}.");
        let Launch { mut child, bounds, environment, ends, info, gate, guard, held, bridge, remote, told } = it;
        let Ends { stdin, stdout, stderr, input, output: stream, errors: second, variables } = ends;
        child.stdin(stdin).stdout(stdout).stderr(stderr);
        child.env_clear().envs(environment.vars()).envs(variables.iter().copied());
        let mut child = tokio::process::Command::from(child).kill_on_drop(true).spawn().map_err(failed)?;
        let bridge = bridge.or_else(|| gate.map(|(gate, service, network)| gate.open(service, network)));
        let info = info.map(|it| Mutex::new(Info { pipe: File::from(it.read), said: String::new() }));
        let late = Duration::from_millis(if info.is_some() { 2000 } else { 200 });
        let (tell, done) = watch::channel(None);
        let behind = Arc::new(AtomicBool::new(false));
        let shared = Shared {
            pid: child.id().unwrap_or(0),
            bounds,
            behind: Arc::clone(&behind),
            info,
            output: sinks.output.clone(),
            errors: sinks.errors.clone(),
            input: Mutex::new(input),
            over: done.clone(),
            bridge: bridge.clone(),
            guard: guard.clone(),
            remote,
        };
        let other = second.zip(sinks.errors).map(|(stream, sink)| drain(stream, sink, Arc::clone(&behind)));
        let reader = tokio::spawn(async move {
            tokio::join!(drain(stream, sinks.output, behind), async {
                if let Some(it) = other {
                    it.await;
                }
            })
        });
        tokio::spawn(async move {
            let status = child.wait().await;
            // What is in the pipe already is read; whoever inherited it can't hold the result up.
            let _late = tokio::time::timeout(late, reader).await;
            if let Some(it) = bridge {
                it.close();
            }
            if let Some(it) = guard {
                it.look();
            }
            let (placeholder, sockets) = held;
            drop((told, sockets));
            tell.send_replace(Some(status.map_or(Exit::Signal(0), exit)));
            // Letting go costs writes to the disk, and the next command may want it again.
            if placeholder.is_some() {
                tokio::time::sleep(LINGERING).await;
            }
            drop(placeholder);
        });
        Ok(Self { shared: Arc::new(shared), done })
    }

    /// How far it reaches.
    pub(crate) fn bounds(&self) -> Bounds {
        self.shared.bounds
    }

    /// Whether both are the same command.
    pub(crate) fn is(&self, it: &Self) -> bool {
        Arc::ptr_eq(&self.shared, &it.shared)
    }

    /// From now on nobody waits for it: what it prints must not slow the turn.
    pub(crate) fn goes_behind(&self) {
        self.shared.behind.store(true, Ordering::Relaxed);
    }

    /// It waits for its command.
    pub(crate) fn rest(&self) {
        self.shared.guard.iter().for_each(Guard::sleep);
    }

    /// Its command begins, and that much of the output is kept.
    pub(crate) fn begin(&self, cap: usize) {
        self.shared.output.keep(cap);
        self.shared.guard.iter().for_each(Guard::wake);
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
        self.shared.info.is_none() && self.shared.remote.is_none()
    }

    /// Output since the last time.
    pub(crate) fn take(&self) -> Taken {
        self.shared.output.take(if self.exit().is_some() { More::Never } else { More::MayCome })
    }

    /// What it complained about, if that came apart; once it has ended.
    pub(crate) fn take_errors(&self) -> Taken {
        self.shared.errors.as_ref().map(|it| it.take(More::Never)).unwrap_or_default()
    }

    /// What else came of one of several commands, and whether it made a protected name.
    pub(crate) fn look(&self) -> (Aftermath, bool) {
        let guard = self.shared.guard.as_ref();
        guard.iter().for_each(|it| it.look());
        let made = guard.map(Guard::take).unwrap_or_default();
        let mut out = self.aftermath();
        out.notes.extend(made.iter().map(set_aside));
        (out, !made.is_empty())
    }

    /// What else came of it since the last time.
    pub(crate) fn aftermath(&self) -> Aftermath {
        let mut out = Aftermath::default();
        if let Some(it) = &self.shared.bridge {
            let Contacts { all, more } = it.take();
            out.notes.extend(it.fault().map(|it| format!("[{it}]")));
            out.notes.extend(refusals(&all, more));
            out.contacts = all;
        }
        if let Some(it) = &self.shared.guard {
            out.notes.extend(it.take().iter().map(set_aside));
        }
        out
    }

    /// Writes to its input.
    pub(crate) fn input(&self) -> Result<Input, String> {
        let input = self.shared.input.lock().unwrap_or_else(PoisonError::into_inner);
        match &*input {
            Some(it) => it.again(),
            None => Err("this command was started without input".to_owned()),
        }
    }

    /// SIGINT to everything that a shell has started, and not to the shell.
    pub(crate) fn interrupt_inside(&self) {
        let shells = match self.shared.info.as_ref().and_then(inner_pid) {
            Some(init) => children_of(init),
            None => vec![self.shared.pid],
        };
        let mut todo: Vec<u32> = shells.into_iter().flat_map(children_of).collect();
        while let Some(pid) = todo.pop() {
            signal_one(pid, Signal::INT);
            todo.extend(children_of(pid));
        }
    }

    /// SIGINT to the command, as Ctrl-C would be.
    pub(crate) fn interrupt(&self) {
        self.shared.signal(Signal::INT);
    }

    /// Asks it to end, waits, then kills everything it started.
    pub(crate) async fn stop(&mut self, grace: Duration) -> Exit {
        if self.exit().is_none() {
            self.shared.signal(Signal::TERM);
            let _late = tokio::time::timeout(grace, self.wait()).await;
        }
        self.shared.kill();
        self.wait().await
    }
}

/// Why destinations were not reached, for the model.
fn refusals(all: &[Contact], more: u64) -> Vec<String> {
    let mut out: Vec<String> = all
        .iter()
        .filter_map(|it| {
            let why = it.blocked?;
            let times = if it.times > 1 { format!(" ({} times)", it.times) } else { String::new() };
            Some(format!("[network: {}:{} was not reached{times}: it {}]", it.host, it.port, why.why()))
        })
        .collect();
    if more > 0 {
        out.push(format!("[network: {more} more connections, not listed]"));
    }
    if !out.is_empty() {
        out.push(
            "[network: sid owns the proxy variables, and there is no other way out. Only the user can change what is allowed, in \
             sid.toml or settings.toml.]"
                .to_owned(),
        );
    }
    out
}

fn set_aside(it: &SetAside) -> String {
    let made = it.made.display();
    match &it.moved {
        Some(to) => format!("[{made} is a protected name that commands may not make; what was made was moved to {}]", to.display()),
        None => format!("[{made} is a protected name that commands may not make; it could not be moved away]"),
    }
}

impl Shared {
    /// Tells a sandbox that never got to the command from a command that failed; one that made a protected name has failed.
    fn judged(&self, exit: Exit) -> Exit {
        match (&self.info, exit) {
            (Some(info), Exit::Code(1)) if !was_reached(info) => Exit::NoSandbox,
            // The client's own word for a container that can't be reached.
            (None, Exit::Code(125)) if self.remote.is_some() => Exit::NoSandbox,
            (_, Exit::Code(0)) if self.guard.as_ref().is_some_and(Guard::was_needed) => Exit::Code(1),
            _ => exit,
        }
    }

    /// A signal to the command itself: one to Bubblewrap would skip the command's traps.
    fn signal(&self, signal: Signal) {
        if let Some((docker, token)) = &self.remote {
            return docker.signal(token, if signal == Signal::INT { "INT" } else { "TERM" });
        }
        match self.info.as_ref().and_then(inner_pid) {
            Some(init) => children_of(init).into_iter().for_each(|pid| signal_group_of(pid, signal)),
            None => signal_group(self.pid, signal),
        }
    }

    /// SIGKILL to everything. In the sandbox the namespace dies with its first process; without one, all processes of
    /// the command's session are found.
    fn kill(&self) {
        if self.over.borrow().is_none() {
            signal_group(self.pid, Signal::KILL);
        }
        if self.info.is_none() && self.remote.is_none() {
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

/// `SHELL -c` in a session of its own, without the terminal, dying with sid.
fn bare(shell: &Path, command: &str, cwd: &Path) -> Command {
    let mut it = Command::new(shell);
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
