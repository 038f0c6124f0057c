//! A shell that stays: the commands of a session, one after another, in one `bash` behind one wall. It reads them from a pipe of
//! its own, so nothing is echoed, and no command can be read by another; what they print comes through a terminal.
use std::{
    fs,
    io::{self, Write as _},
    os::{fd::OwnedFd, unix::fs::OpenOptionsExt as _},
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use sid_policy::{Bounds, Permit};
use tokio::{
    io::Interest,
    sync::{Mutex, watch},
    time::timeout,
};

use crate::{
    Aftermath, Confined,
    capture::{Capture, Taken},
    confined::TRIES,
    frames::{Frames, Progress, unguessable},
    host::Host,
    process::{Exit, Io, Limits, Process},
    scratch::Scratch,
    state::{pieces, script},
    stdio::{Ends, registered},
    wall::Wall,
};

/// What runs in the shell, on one line so that its complaints count the lines of commands from 1.
///
/// A command is read whole and evaluated where nothing of this can be reached: a syntax error, an unclosed quote or a stray `}`
/// ends the command and nothing else; `break` leaves the inner loop, which begins anew. Its end is printed as a mark, then the
/// state is written, without starting any process, then that is printed too.
const DRIVER: &str = concat!(
    r#"exec 10<&0 12>&1 </dev/null; shopt -s expand_aliases; "#,
    r#"__sid_d=$SID_SCRATCH_DIR __sid_p= __sid_s=0 __sid_e= __sid_x= __sid_n= __sid_l= __sid_c=; unset SID_SCRATCH_DIR; "#,
    r#"until [[ $__sid_e ]]; do while { :; } 2>/dev/null; do { "#,
    r#"if [[ $__sid_p ]]; then builtin printf '\036%s %s\036' "$__sid_n" "$__sid_s" >&12; { "#,
    r#"builtin printf 'builtin cd -- %q\0' "$PWD"; builtin declare -p; builtin printf '\0'; builtin declare -f; builtin printf '\0'; "#,
    r#"builtin alias -p; builtin printf '\0'; [[ ${BASHOPTS-} ]] || builtin shopt -p; } >|"$__sid_d/state" || :; "#,
    r#"builtin printf '\036%s saved\036' "$__sid_n" >&12; __sid_p=; fi; "#,
    r#"IFS=' ' builtin read -r __sid_n __sid_l <&10 || { __sid_e=1; builtin break; }; "#,
    r#"if ((BASH_VERSINFO[0] > 3)); then LC_ALL=C IFS= builtin read -r -N "$__sid_l" __sid_c <&10; "#,
    r#"else IFS= builtin read -r -d '' __sid_c <&10; fi; "#,
    r#"case $- in *x*) __sid_x=1; builtin set +x;; *) __sid_x=;; esac; __sid_p=1 __sid_s=0; } >/dev/null 2>&1; "#,
    r#"builtin eval "${__sid_x:+set -x;}$__sid_c" 10<&- 12>&-; { __sid_s=$?; } 2>/dev/null; "#,
    r#"done; done"#
);
/// Where the state is kept, in the session's folder.
pub const STATE: &str = "bash-state.sh";
/// Bytes of state that are kept at most.
const MOST: u64 = 1 << 20;
/// How long the shell may take to begin, and to write its state.
const SOON: Duration = Duration::from_secs(10);
/// Between interrupting what a command started and giving the shell up.
const SETTLING: Duration = Duration::from_secs(2);

/// A command that ran in the shell.
#[derive(Debug)]
pub struct InShell {
    /// How it ended; `None`: its time was up.
    pub exit: Option<i32>,
    /// What it printed.
    pub output: Taken,
    /// What else came of it.
    pub aftermath: Aftermath,
    /// What became of the shell itself, in sentences for the model.
    pub notes: Vec<&'static str>,
}

const ENDED: &str = "The shell has ended; the next command gets a new one, with the state from before this command.";
const STOPPED: &str =
    "Interrupting it was not enough, so the shell was ended; the next command gets a new one, with the state from before.";
const RENEWED: &str =
    "The shell was started anew, since what has to be protected from it changed. It has its state; its background processes ended.";
const ALONE: &str = "In a container each command has a shell of its own: folder and variables do not carry over.";
const BROKEN: &str = "The state of the shell could not be restored; it began afresh.";

/// Who a shell is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Whose {
    /// All calls of the session.
    Session,
    /// One call, which may go further than the others.
    Call,
}

/// The shell, waiting or working.
#[derive(Debug)]
pub(crate) struct Shell {
    process: Process,
    control: OwnedFd,
    progress: watch::Receiver<Progress>,
    /// What the marks are named.
    name: String,
    /// The number of the last command.
    last: AtomicU64,
    /// A command was begun and its end not seen.
    busy: AtomicBool,
    bounds: Bounds,
    /// What it was made behind; `None`: nothing.
    wall: Option<Wall>,
    scratch: Scratch,
    /// The state of a fresh shell: what is in it is not the user's.
    fresh: Vec<Vec<u8>>,
    /// Where its state is kept; a shell for one command keeps none.
    kept: Option<PathBuf>,
    /// The last command after which it was; held while it is being kept.
    kept_after: Mutex<u64>,
}

impl Shell {
    /// Starts one, anew if its sandbox could not be set up, as for every command.
    async fn start(place: &Confined<'_>, limits: Limits, kept: Option<PathBuf>) -> Result<Self, String> {
        let mut tries = 1;
        loop {
            match Self::once(place, limits, kept.clone()).await? {
                Ok(it) => return Ok(it),
                Err((Exit::NoSandbox, _)) if tries < TRIES => tries += 1,
                Err((_, why)) => return Err(why),
            }
        }
    }

    /// The inner error is how a shell that began has ended, and why.
    async fn once(place: &Confined<'_>, limits: Limits, kept: Option<PathBuf>) -> Result<Result<Self, (Exit, String)>, String> {
        let (host, permit) = (place.host, &place.permit);
        let exec = permit.access().exec.as_ref().ok_or("The permit covers no command.")?;
        let scratch = place.scratch()?;
        let (ends, control) = Ends::shell()?;
        let name = unguessable();
        let (frames, progress) = Frames::new(&name);
        let script = format!("exec bash --noprofile --norc -c {} bash", quoted(DRIVER));
        let output = Capture::framed(limits.output, frames);
        let (process, wall) = Process::shell(host, permit, (&exec.cwd, &script), scratch.dir(), ends, output)?;
        let (last, busy) = (AtomicU64::new(0), AtomicBool::new(false));
        let bounds = permit.bounds();
        let mut it = Self {
            process,
            control,
            progress,
            name,
            last,
            busy,
            bounds,
            wall,
            scratch,
            fresh: Vec::new(),
            kept,
            kept_after: Mutex::new(0),
        };
        // Nothing is run, to see what a fresh shell's state is.
        if it.run(":", SOON).await != Some(0) {
            let exit = it.process.stop(Duration::ZERO).await;
            return Ok(Err((exit, format!("The shell does not start: {}", it.process.take().text.trim()))));
        }
        it.fresh = it.state().await.unwrap_or_default();
        Ok(Ok(it))
    }

    /// Gives it a command and waits for its end. `None`: the time was up, or the shell is gone.
    async fn run(&self, command: &str, time: Duration) -> Option<i32> {
        let number = self.last.fetch_add(1, Ordering::Relaxed) + 1;
        self.busy.store(true, Ordering::Relaxed);
        let head = format!("{}.{number} {}\n", self.name, command.len());
        // Older shells read up to the NUL, newer ones by the length and then over it.
        let whole = [head.as_bytes(), command.as_bytes(), b"\0"].concat();
        let sent = self.send(&whole);
        let mut progress = self.progress.clone();
        let mut process = self.process.clone();
        let ended = async {
            tokio::select! {
                biased;
                seen = progress.wait_for(|it| it.ended.is_some_and(|it| it.0 == number)) => seen.ok().and_then(|it| it.ended).map(|it| it.1),
                _gone = process.wait() => None,
            }
        };
        let (_, code) = timeout(time, async { tokio::join!(sent, ended) }).await.ok()?;
        if code.is_some() {
            self.busy.store(false, Ordering::Relaxed);
        }
        code
    }

    async fn send(&self, bytes: &[u8]) -> io::Result<()> {
        let fd = registered(self.control.try_clone()?, Interest::WRITABLE)?;
        let mut rest = bytes;
        while !rest.is_empty() {
            let mut ready = fd.writable().await?;
            if let Ok(done) = ready.try_io(|it| it.get_ref().write(rest)) {
                rest = &rest[done?..];
            }
        }
        Ok(())
    }

    /// The state after the last command, as pieces of script.
    async fn state(&self) -> Option<Vec<Vec<u8>>> {
        let (number, mut progress) = (self.last.load(Ordering::Relaxed), self.progress.clone());
        timeout(SOON, progress.wait_for(|it| it.saved >= number)).await.ok()?.ok()?;
        let bytes = self.scratch.read("state", MOST).ok()?;
        Some(pieces(&bytes))
    }

    /// Writes down what was made of the shell, if that has not been done since its last command.
    async fn keep(&self) {
        let Some(path) = &self.kept else { return };
        let mut after = self.kept_after.lock().await;
        let last = self.last.load(Ordering::Relaxed);
        if *after == last {
            return;
        }
        let Some(state) = self.state().await else { return };
        let text = script(&state, &self.fresh);
        let fresh = path.with_extension("new");
        let written = fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&fresh);
        let _full = written.and_then(|mut it| it.write_all(&text)).and_then(|()| fs::rename(&fresh, path));
        *after = last;
    }

    /// Interrupts what a command started, and gives the shell up if that does not end it. `false`: it was given up.
    async fn interrupt(&self, grace: Duration) -> bool {
        if !self.is_busy() {
            return true;
        }
        let number = self.last.load(Ordering::Relaxed);
        let mut progress = self.progress.clone();
        let until = Instant::now() + grace;
        while Instant::now() < until {
            self.process.interrupt_inside();
            let pause = grace.min(Duration::from_millis(200));
            if timeout(pause, progress.wait_for(|it| it.ended.is_some_and(|it| it.0 == number))).await.is_ok_and(|it| it.is_ok()) {
                self.busy.store(false, Ordering::Relaxed);
                return true;
            }
        }
        self.process.clone().stop(Duration::ZERO).await;
        false
    }

    fn is_busy(&self) -> bool {
        self.busy.load(Ordering::Relaxed)
    }

    /// Whether it is the shell that a call with this permit would get.
    fn suits(&self, host: &Host, permit: &Permit) -> Result<bool, String> {
        if self.bounds != permit.bounds() || self.process.exit().is_some() || self.is_busy() {
            return Ok(false);
        }
        let Some(wall) = &self.wall else { return Ok(true) };
        Ok(wall.holds_as(&Wall::lasting(host, permit.fence(), permit.bounds(), self.scratch.dir())?))
    }
}

impl Confined<'_> {
    /// Runs the judged command in the session's shell, which is started if there is none. One that is allowed to leave the
    /// sandbox gets a fresh shell of its own.
    ///
    /// # Errors
    /// It could not be started, in a sentence for the model.
    pub async fn in_shell(&self, limits: Limits) -> Result<InShell, String> {
        let exec = self.permit.access().exec.as_ref().ok_or("The permit covers no command.")?;
        if self.host.docker.is_some() {
            return self.alone(&exec.command, limits).await;
        }
        let mut notes = Vec::new();
        // A shell that nothing holds has nothing to leave.
        let held = self.host.shell.borrow().as_ref().is_none_or(|it| it.bounds != Bounds::Unbounded);
        let leaves = exec.escalate.is_some() && self.permit.bounds() == Bounds::Unbounded && held;
        let shell = self.shell(limits, if leaves { Whose::Call } else { Whose::Session }, &mut notes).await?;
        // The state from before this command must not be overwritten while it is read; as a rule it has been kept long ago.
        if shell.last.load(Ordering::Relaxed) > 1 {
            shell.keep().await;
        }
        let (from, now) = (shell.process.take(), Instant::now());
        let code = shell.run(&exec.command, limits.time).await;
        let mut exit = code;
        if code.is_none() {
            match shell.process.exit() {
                Some(how) => {
                    exit = Some(match how {
                        Exit::Code(it) => it,
                        Exit::Signal(it) => 128 + it,
                        Exit::NoSandbox => return Err(format!("The sandbox could not be set up: {}", shell.process.take().text)),
                    });
                    notes.push(ENDED);
                }
                None if now.elapsed() >= limits.time => {
                    if !shell.interrupt(SETTLING).await {
                        notes.push(STOPPED);
                    }
                }
                None => notes.push(ENDED),
            }
        }
        let mut output = shell.process.take();
        if !from.text.is_empty() {
            output.text.insert_str(0, &from.text);
        }
        let (aftermath, made) = shell.process.look();
        if exit == Some(0) && made {
            exit = Some(1);
        }
        if shell.process.exit().is_none() && shell.kept.is_some() && !shell.is_busy() {
            let shell = Arc::clone(&shell);
            tokio::spawn(async move { shell.keep().await });
        }
        Ok(InShell { exit, output, aftermath, notes })
    }

    /// In a container no shell stays: each command has a `bash` of its own, or what there is instead.
    async fn alone(&self, command: &str, limits: Limits) -> Result<InShell, String> {
        let command = quoted(command);
        // One stream, as on the terminal of a shell that stays: out of a container two would come in any order.
        let script = format!("exec 2>&1\ncommand -v bash >/dev/null || exec /bin/sh -c {command}\nexec bash -c {command}");
        let ran = self.run_as(Some(&script), Io::NoInput, None, limits).await?;
        let exit = match ran.exit {
            _ if ran.timed_out => None,
            Exit::Code(it) => Some(it),
            Exit::Signal(it) => Some(128 + it),
            Exit::NoSandbox => return Err(format!("The sandbox could not be set up: {}", ran.output.text.trim())),
        };
        Ok(InShell { exit, output: ran.output, aftermath: ran.aftermath, notes: vec![ALONE] })
    }

    /// The shell for this call.
    async fn shell(&self, limits: Limits, whose: Whose, notes: &mut Vec<&'static str>) -> Result<Arc<Shell>, String> {
        let found = self.host.shell.borrow().clone();
        if let Some(it) = found.filter(|_| whose == Whose::Session) {
            if it.suits(self.host, &self.permit)? {
                return Ok(it);
            }
            if it.process.exit().is_none() && it.bounds == self.permit.bounds() {
                notes.push(RENEWED);
            }
            self.host.end_shell(Duration::ZERO).await;
        }
        let it = self.restored(limits, whose, notes).await?;
        if whose == Whose::Session {
            *self.host.shell.borrow_mut() = Some(Arc::clone(&it));
        }
        Ok(it)
    }

    /// A new shell with the state that was kept; one that can't bear it begins afresh.
    async fn restored(&self, limits: Limits, whose: Whose, notes: &mut Vec<&'static str>) -> Result<Arc<Shell>, String> {
        // What was reviewed is the command's words: in a shell with functions and variables of the model's they could mean anything.
        if whose == Whose::Call {
            return Ok(Arc::new(Shell::start(self, limits, None).await?));
        }
        let path = self.host.session_folder().join(STATE);
        let kept = Some(path.clone());
        let it = Shell::start(self, limits, kept.clone()).await?;
        let Ok(state) = fs::read_to_string(&path) else { return Ok(Arc::new(it)) };
        let restore = format!("{{ {state}\n}} >/dev/null 2>&1");
        if it.run(&restore, SOON).await.is_some() {
            let _nothing = it.process.take();
            return Ok(Arc::new(it));
        }
        it.process.clone().stop(Duration::ZERO).await;
        let _gone = fs::remove_file(&path);
        notes.push(BROKEN);
        Ok(Arc::new(Shell::start(self, limits, kept).await?))
    }

    /// Ends the session's shell and forgets its state; the next command gets a new one.
    pub async fn restart_shell(&self) {
        self.host.end_shell(Duration::ZERO).await;
        let _none = fs::remove_file(self.host.session_folder().join(STATE));
    }
}

impl Host {
    /// The session's own folder.
    pub(crate) fn session_folder(&self) -> PathBuf {
        self.keep.parent().unwrap_or(&self.keep).to_owned()
    }

    /// Ends the session's shell, once what it was last told is written down.
    pub(crate) async fn end_shell(&self, grace: Duration) {
        let Some(it) = self.shell.borrow_mut().take() else { return };
        if it.process.exit().is_none() && !it.is_busy() {
            it.keep().await;
        }
        it.process.clone().stop(grace).await;
    }

    /// The call that waits for the shell was given up.
    pub(crate) async fn interrupt_shell(&self, grace: Duration) {
        let found = self.shell.borrow().clone();
        if let Some(it) = found
            && !it.interrupt(grace).await
        {
            drop(self.shell.borrow_mut().take());
        }
    }

    /// Ends the shell if it reaches further than `bounds`. Returns whether it did.
    pub(crate) async fn reduce_shell(&self, bounds: Bounds, grace: Duration) -> bool {
        let beyond = self.shell.borrow().as_ref().is_some_and(|it| it.bounds > bounds && it.process.exit().is_none());
        if beyond {
            self.end_shell(grace).await;
        }
        beyond
    }
}

/// One word of a shell's language that stands for `text`.
#[must_use]
pub fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "'\\''"))
}
