//! A sandbox made ahead: while the model answers, its shell waits for the command on its standard input.
use std::{
    fs::File,
    io::Write as _,
    path::Path,
    time::{Duration, Instant},
};

use rustix::pipe::{PipeFlags, pipe_with};
use sid_policy::{Bounds, Fence};

use crate::{host::Host, process::Process, stdio::Ends, wall::Wall};

/// A sandbox that waits.
#[derive(Debug)]
pub(crate) struct Spare {
    process: Process,
    wall: Wall,
    go: File,
    made: Instant,
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

/// Longer commands go the cold way: the waiting shell reads byte by byte.
const LONGEST: usize = 2000;
/// An older one may miss what was mounted since.
const OLDEST: Duration = Duration::from_secs(300);

impl Spare {
    /// Makes one.
    pub(crate) fn new(host: &Host, fence: &Fence, bounds: Bounds) -> Result<Self, String> {
        let wall = Wall::of(host, fence, bounds, None)?;
        let (read, go) = pipe_with(PipeFlags::CLOEXEC).map_err(|err| err.to_string())?;
        let process = Process::walled(host, fence, bounds, &wall, (None, WAIT), Ends::reading(read)?, 0)?;
        Ok(Self { process, wall, go: File::from(go), made: Instant::now() })
    }

    /// Gives it its command, if it is just the sandbox that the command needs.
    pub(crate) fn release(mut self, wall: &Wall, command: &str, cwd: &Path, cap: usize) -> Option<Process> {
        let cwd = cwd.to_str().filter(|it| !it.contains('\n'))?;
        let fits = self.wall == *wall && command.len() <= LONGEST && self.made.elapsed() < OLDEST && self.process.exit().is_none();
        if !fits {
            return None;
        }
        self.process.keep(cap);
        let lines = command.split('\n').count();
        self.go.write_all(format!("{lines}\n{command}\n{cwd}\n").as_bytes()).ok()?;
        Some(self.process)
    }
}
