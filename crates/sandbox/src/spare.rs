//! A sandbox made ahead: while the model answers, its shell waits for the command on its standard input.
use std::{
    fs::File,
    io::Write as _,
    path::Path,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use rustix::pipe::{PipeFlags, pipe_with};
use sid_policy::{Bounds, Fence};

use crate::{capture::Capture, host::Host, process::Process, shell::quoted, stdio::Ends, wall::Wall};

/// A sandbox that waits.
#[derive(Debug)]
pub(crate) struct Spare {
    process: Process,
    waits: Waits,
    wall: Wall,
    go: File,
    made: Instant,
    /// The disk was looked at since the last command.
    is_current: bool,
}

/// How the shell gets its command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Waits {
    /// It has begun to read its script, and the command is that script: nothing is to be started any more.
    ForScript,
    /// A script of sid's own reads the command and becomes the shell that runs it.
    ForWords,
}

impl Waits {
    /// Tries which way the shell of this machine goes. One that reads its script in blocks has all of a short one in memory
    /// before it runs the first word; one that reads byte by byte would look for the rest in what its input is by then.
    pub(crate) fn probe() -> Self {
        let mut it = Command::new("/bin/sh");
        it.env_clear().stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        let tried = it.spawn().and_then(|mut it| {
            it.stdin.take().map_or(Ok(()), |mut input| input.write_all(b"exec </dev/null\nexit 7\n"))?;
            it.wait()
        });
        if tried.is_ok_and(|it| it.code() == Some(7)) { Self::ForScript } else { Self::ForWords }
    }
}

/// Words that could give the shell another input, where it would look for more of its script; and the one that tells the two
/// kinds of shells apart.
const TELLING: &[&str] = &["exec", "eval", "trap", "$-"];

/// Whether a command may be a script: it is the same to the shell then.
fn may_be_script(command: &str) -> bool {
    let sources = command.split(|it: char| it.is_whitespace() || ";&|(){}`".contains(it)).any(|it| it == ".");
    !sources && !TELLING.iter().any(|it| command.contains(it))
}

/// Reads the number of the command's lines, the lines, and the folder; then becomes the shell that a cold start would have
/// been. A shell reads its input byte by byte, so nothing of it is left when the command begins.
const WAIT: &str = r#"IFS= read -r n || exit 1
c=
while [ "$n" -gt 0 ]; do
IFS= read -r l
c="$c$l"
n=$((n-1))
[ "$n" -gt 0 ] && c="$c
"
done
IFS= read -r d
cd -- "$d" && exec /bin/sh -c "$c" </dev/null"#;

/// Longer commands go the cold way: the waiting shell reads byte by byte, or all of it at once.
const LONGEST: usize = 2000;
/// What it takes to make one, and then some.
const NEW: Duration = Duration::from_millis(10);
/// An older one may miss what was mounted since.
const OLDEST: Duration = Duration::from_secs(300);

impl Spare {
    /// Makes one.
    pub(crate) fn new(host: &Host, fence: &Fence, bounds: Bounds) -> Result<Self, String> {
        let it = Self::beside(Wall::of(host, fence, bounds, None)?, host, fence, bounds)?;
        Ok(Self { is_current: true, ..it })
    }

    /// One that suits what the disk is like by now: this, or another. The look can take long, so it is one for each command.
    pub(crate) fn renewed(self, host: &Host, fence: &Fence, bounds: Bounds) -> Result<Self, String> {
        if self.is_current {
            return Ok(self);
        }
        let wall = Wall::of(host, fence, bounds, None)?;
        let it = if self.suits(&wall) { self } else { Self::beside(wall, host, fence, bounds)? };
        Ok(Self { is_current: true, ..it })
    }

    /// Makes one behind the wall of a command that begins.
    pub(crate) fn beside(wall: Wall, host: &Host, fence: &Fence, bounds: Bounds) -> Result<Self, String> {
        let (read, go) = pipe_with(PipeFlags::CLOEXEC).map_err(|err| err.to_string())?;
        let waits = host.waits();
        let words: &[&str] = if waits == Waits::ForScript { &[] } else { &["-c", WAIT] };
        let process = Process::walled(host, fence, bounds, &wall, (None, words), Ends::reading(read)?, Capture::new(0))?;
        process.rest();
        Ok(Self { process, waits, wall, go: File::from(go), made: Instant::now(), is_current: false })
    }

    /// Whether commands follow each other faster than sandboxes are made while nothing runs: several of one answer, or those of
    /// a model that answers at once. The next one is then made beside the command; else that would only slow it.
    pub(crate) fn is_new(&self) -> bool {
        self.made.elapsed() < NEW
    }

    /// Whether it is a sandbox like this, and still there.
    fn suits(&self, wall: &Wall) -> bool {
        self.wall == *wall && self.made.elapsed() < OLDEST && self.process.exit().is_none()
    }

    /// Gives it its command, if it is just the sandbox that the command needs.
    pub(crate) fn release(mut self, wall: &Wall, command: &str, cwd: &Path, cap: usize) -> Option<Process> {
        let cwd = cwd.to_str().filter(|it| !it.contains('\n'))?;
        let may_wait = self.waits == Waits::ForWords || may_be_script(command);
        if !(may_wait && command.len() + cwd.len() <= LONGEST && self.suits(wall)) {
            return None;
        }
        self.process.begin(cap);
        let said = match self.waits {
            // In the line that the command begins in, so that the shell counts its lines as it would.
            Waits::ForScript => format!("cd -- {} && exec </dev/null || exit; {command}", quoted(cwd)),
            Waits::ForWords => format!("{}\n{command}\n{cwd}\n", command.split('\n').count()),
        };
        self.go.write_all(said.as_bytes()).ok()?;
        Some(self.process)
    }
}
