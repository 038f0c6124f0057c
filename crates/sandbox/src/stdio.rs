//! A command's streams: nothing or a pipe to read, a pipe to write, or a terminal for both.
use std::{
    fs::File,
    io::{self, Read as _, Write as _},
    os::fd::OwnedFd,
    process::Stdio,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use rustix::{
    fs::{Mode, OFlags, open},
    pipe::{PipeFlags, pipe_with},
    pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt},
    termios::{OptionalActions, OutputModes, Winsize, tcgetattr, tcsetattr, tcsetwinsize},
};
use tokio::io::{Interest, unix::AsyncFd};

use crate::{environment::QUIET, process::Io, streams::Sink};

/// Both ends of a command's streams.
pub(crate) struct Ends {
    pub(crate) stdin: Stdio,
    pub(crate) stdout: Stdio,
    pub(crate) stderr: Stdio,
    pub(crate) input: Option<Input>,
    pub(crate) output: OwnedFd,
    /// The end of a pipe that complaints come through, if they come apart.
    pub(crate) errors: Option<OwnedFd>,
    /// Variables that a terminal asks for.
    pub(crate) variables: &'static [(&'static str, &'static str)],
}

/// The writing end of a command's input.
#[derive(Debug)]
pub(crate) struct Input(OwnedFd);

/// How long a command may leave its input unread before the rest is given up.
const UNREAD: Duration = Duration::from_secs(5);

impl Ends {
    pub(crate) fn new(io: Io) -> Result<Self, String> {
        let made = match io {
            Io::NoInput => Self::pipes(Stdio::null(), None),
            Io::Pipes => pipe_with(PipeFlags::CLOEXEC)
                .map_err(io::Error::from)
                .and_then(|(read, write)| Self::pipes(Stdio::from(read), Some(Input::of(write)?))),
            Io::Apart => Self::apart(),
            Io::Terminal => Self::terminal(),
        };
        made.map_err(|err| format!("The command could not be started: {err}."))
    }

    /// With this as input, and nobody to write to it.
    pub(crate) fn reading(stdin: OwnedFd) -> Result<Self, String> {
        Self::pipes(Stdio::from(stdin), None).map_err(|err| err.to_string())
    }

    fn pipes(stdin: Stdio, input: Option<Input>) -> io::Result<Self> {
        let (output, end) = pipe_with(PipeFlags::CLOEXEC)?;
        let both = end.try_clone()?;
        Ok(Self { stdin, stdout: Stdio::from(end), stderr: Stdio::from(both), input, output, errors: None, variables: &[] })
    }

    fn apart() -> io::Result<Self> {
        let (errors, end) = pipe_with(PipeFlags::CLOEXEC)?;
        Ok(Self { stderr: Stdio::from(end), errors: Some(errors), ..Self::pipes(Stdio::null(), None)? })
    }

    /// A pipe to read commands from, and a terminal for what they print; with the writing end of the pipe.
    pub(crate) fn shell() -> Result<(Self, OwnedFd), String> {
        let made = || {
            let (control, write) = pipe_with(PipeFlags::CLOEXEC)?;
            rustix::io::ioctl_fionbio(&write, true)?;
            Ok::<_, io::Error>((Self { stdin: Stdio::from(control), input: None, ..Self::terminal()? }, write))
        };
        made().map_err(|err| format!("The shell could not be started: {err}."))
    }

    fn terminal() -> io::Result<Self> {
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC)?;
        grantpt(&master)?;
        unlockpt(&master)?;
        let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
        let slave = open(ptsname(&master, Vec::new())?.as_c_str(), flags, Mode::empty())?;
        tcsetwinsize(&slave, Winsize { ws_col: 80, ws_row: 24, ws_xpixel: 0, ws_ypixel: 0 })?;
        let mut modes = tcgetattr(&slave)?;
        // Lines end in a line feed alone, as through a pipe.
        modes.output_modes.remove(OutputModes::OPOST);
        tcsetattr(&slave, OptionalActions::Now, &modes)?;
        let end = || slave.try_clone().map(Stdio::from);
        let input = Some(Input::of(master.try_clone()?)?);
        Ok(Self { stdin: end()?, stdout: end()?, stderr: end()?, input, output: master, errors: None, variables: QUIET })
    }
}

impl Input {
    fn of(fd: OwnedFd) -> io::Result<Self> {
        rustix::io::ioctl_fionbio(&fd, true)?;
        Ok(Self(fd))
    }

    /// Another handle of the same input.
    pub(crate) fn again(&self) -> Result<Self, String> {
        self.0.try_clone().map(Self).map_err(|err| err.to_string())
    }

    /// Writes all of it, unless the command leaves it unread.
    pub(crate) async fn write(self, text: &str) -> Result<(), String> {
        let fd = registered(self.0, Interest::WRITABLE).map_err(|err| err.to_string())?;
        let mut rest = text.as_bytes();
        while !rest.is_empty() {
            let ready = tokio::time::timeout(UNREAD, fd.writable()).await;
            let mut ready = ready
                .map_err(|_| format!("the command does not read its input; {} bytes were not written", rest.len()))?
                .map_err(|err| err.to_string())?;
            match ready.try_io(|it| it.get_ref().write(rest)) {
                Ok(Ok(n)) => rest = &rest[n..],
                Ok(Err(err)) if err.kind() == io::ErrorKind::BrokenPipe => {
                    return Err("the command has closed its input".to_owned());
                }
                Ok(Err(err)) => return Err(err.to_string()),
                Err(_not_yet) => {}
            }
        }
        Ok(())
    }
}

/// A descriptor that tokio waits for.
pub(crate) fn registered(fd: OwnedFd, interest: Interest) -> io::Result<AsyncFd<File>> {
    // SAFETY: the file owns its descriptor and is itself owned, untouched, by what is returned.
    unsafe { AsyncFd::register_with_interest(File::from(fd), interest) }.map_err(io::Error::from)
}

/// How much is read at once.
const CHUNK: usize = 64 << 10;

/// What a command in the background may print in a while; then it waits. Others than floods never notice.
const SHARE: usize = 512 << 10;
const WHILE: Duration = Duration::from_millis(10);

/// Reads until nobody can write any more. A terminal says so by an error. `behind`: nobody waits for the command.
pub(crate) async fn drain(stream: OwnedFd, sink: Sink, behind: Arc<AtomicBool>) {
    if rustix::io::ioctl_fionbio(&stream, true).is_err() {
        return;
    }
    let Ok(fd) = registered(stream, Interest::READABLE) else { return };
    let mut buffer = vec![0; CHUNK];
    let (mut taken, mut since) = (0, Instant::now());
    loop {
        if taken > SHARE {
            let left = WHILE.saturating_sub(since.elapsed());
            if behind.load(Ordering::Relaxed) && !left.is_zero() {
                tokio::time::sleep(left).await;
            }
            (taken, since) = (0, Instant::now());
        }
        let Ok(mut ready) = fd.readable().await else { return };
        match ready.try_io(|it| it.get_ref().read(&mut buffer)) {
            Ok(Ok(n @ 1..)) => {
                taken += n;
                sink.feed(&buffer[..n]);
            }
            Ok(Ok(0) | Err(_)) => return,
            Err(_not_yet) => {}
        }
        // A flood must not keep the turn from being served.
        tokio::task::consume_budget().await;
    }
}
