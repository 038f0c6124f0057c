//! A sandbox about to be made: what Bubblewrap is told, and what that was true of.
use std::{
    ffi::OsString,
    os::{
        fd::{AsRawFd as _, OwnedFd},
        unix::{fs::MetadataExt as _, process::CommandExt as _},
    },
    path::{Path, PathBuf},
    process::Command,
};

use rustix::{
    io::{FdFlags, fcntl_setfd},
    pipe::{PipeFlags, pipe_with},
};
use sid_policy::{Bounds, Fence};

use crate::{
    bwrap::{Facts, arguments},
    host::{Host, Missing},
};

/// The arguments, and the identity of everything they name: two equal walls are the same sandbox.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Wall {
    program: PathBuf,
    arguments: Vec<OsString>,
    identities: Vec<Option<(u64, u64)>>,
}

/// The pipe on which Bubblewrap tells its inner pid, and the exit code of a command that it reached. The far end is closed once the child has it.
pub(crate) struct InfoPipe {
    pub(crate) read: OwnedFd,
    _far: OwnedFd,
}

impl Wall {
    /// Looks at the disk.
    ///
    /// # Errors
    /// Why there can be no sandbox, for the model.
    pub(crate) fn of(host: &Host, fence: &Fence, bounds: Bounds) -> Result<Self, String> {
        let program = host.bwrap.clone().ok_or_else(|| Missing.to_string())?;
        let facts = Facts::gather(fence, bounds, &host.environment)?;
        let arguments = arguments(fence, bounds, &facts);
        let identity = |it: &OsString| std::fs::symlink_metadata(Path::new(it)).ok().map(|it| (it.dev(), it.ino()));
        let identities =
            arguments.iter().map(|it| if it.as_encoded_bytes().starts_with(b"/") { identity(it) } else { None }).collect();
        Ok(Self { program, arguments, identities })
    }

    /// These words behind the wall, for a process that becomes it.
    pub(crate) fn whole(&self, cwd: &Path, words: &[OsString]) -> Command {
        let mut it = Command::new(&self.program);
        it.args(&self.arguments).arg("--chdir").arg(cwd).arg("--").args(words);
        it
    }

    /// `sh -c` with these words behind the wall.
    pub(crate) fn command(&self, cwd: Option<&Path>, words: &[&str]) -> Result<(Command, InfoPipe), String> {
        let (read, far) = pipe_with(PipeFlags::CLOEXEC).map_err(|err| err.to_string())?;
        // Inherited by this one child: nothing else is started between here and the drop after its spawn.
        fcntl_setfd(&far, FdFlags::empty()).map_err(|err| err.to_string())?;
        let mut it = Command::new(&self.program);
        it.args(&self.arguments);
        if let Some(cwd) = cwd {
            it.arg("--chdir").arg(cwd);
        }
        it.arg("--json-status-fd").arg(far.as_raw_fd().to_string());
        it.args(["--", "/bin/sh", "-c"]).args(words).process_group(0).current_dir("/");
        Ok((it, InfoPipe { read, _far: far }))
    }
}
