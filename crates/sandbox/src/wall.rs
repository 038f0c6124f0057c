//! A sandbox about to be made: what Bubblewrap is told, and what that was true of.
use std::{
    ffi::OsString,
    os::{
        fd::{AsRawFd as _, OwnedFd},
        unix::{fs::MetadataExt as _, process::CommandExt as _},
    },
    path::{Path, PathBuf},
    process::Command,
    sync::Arc,
};

use rustix::{
    io::{FdFlags, fcntl_setfd},
    pipe::{PipeFlags, pipe_with},
};
use sid_policy::{Bounds, Fence, Network};

use crate::{
    bwrap::{Facts, arguments},
    environment::Environment,
    host::{Host, Missing},
    keys::without_keys,
    network::Gate,
    placeholder::Placeholder,
    scratch::SCRATCH,
};

/// The arguments, and the identity of everything they name: two equal walls are the same sandbox.
#[derive(Debug)]
pub(crate) struct Wall {
    program: PathBuf,
    arguments: Vec<OsString>,
    identities: Vec<Option<(u64, u64)>>,
    /// What is read-only or hidden, and the repositories.
    kept: Vec<PathBuf>,
    pub(crate) environment: Arc<Environment>,
    /// Destinations the command may reach, if there are any.
    pub(crate) network: Option<Arc<Network>>,
    /// Kept as long as the sandbox is there.
    pub(crate) placeholder: Option<Arc<Placeholder>>,
}

impl PartialEq for Wall {
    fn eq(&self, it: &Self) -> bool {
        let same = self.program == it.program && self.arguments == it.arguments && self.identities == it.identities;
        same && self.network == it.network
    }
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
    pub(crate) fn of(host: &Host, fence: &Fence, bounds: Bounds, scratch: Option<&Path>) -> Result<Self, String> {
        Self::with(host, fence, bounds, scratch, host.placeholder(fence, bounds))
    }

    /// For a process that stays: nothing is reserved for it, the watch over protected names has to do.
    ///
    /// # Errors
    /// Why there can be no sandbox, for the model.
    pub(crate) fn lasting(host: &Host, fence: &Fence, bounds: Bounds, scratch: &Path) -> Result<Self, String> {
        Self::with(host, fence, bounds, Some(scratch), None)
    }

    fn with(
        host: &Host,
        fence: &Fence,
        bounds: Bounds,
        scratch: Option<&Path>,
        placeholder: Option<Arc<Placeholder>>,
    ) -> Result<Self, String> {
        let program = host.bwrap.clone().ok_or_else(|| Missing.to_string())?;
        let environment = host.walled(fence, bounds);
        let mut facts = Facts::gather(fence, bounds, host, placeholder.as_deref())?;
        facts.scratch = scratch.map(Path::to_path_buf);
        let environment = match scratch {
            Some(dir) => {
                let mut it = (*environment).clone();
                it.set(SCRATCH, dir);
                Arc::new(it)
            }
            None => environment,
        };
        let arguments = arguments(fence, bounds, &facts);
        let identity = |it: &OsString| std::fs::symlink_metadata(Path::new(it)).ok().map(|it| (it.dev(), it.ino()));
        let mut identities: Vec<Option<(u64, u64)>> = Vec::with_capacity(arguments.len());
        for (n, it) in arguments.iter().enumerate() {
            // Most are bound onto themselves.
            let again = n > 0 && arguments[n - 1] == *it;
            let looked = || it.as_encoded_bytes().starts_with(b"/").then(|| identity(it)).flatten();
            identities.push(if again { identities[n - 1] } else { looked() });
        }
        let network = Some(&fence.network).filter(|it| bounds == Bounds::Workspace && !it.is_closed()).cloned();
        let git = facts.git.iter().flat_map(|it| it.read_only.iter().chain(&it.writable));
        let kept = facts.protected.iter().chain(facts.masked.iter().map(|it| &it.0)).chain(git).cloned().collect();
        Ok(Self { program, arguments, identities, kept, environment, network, placeholder })
    }

    /// Whether a process behind this one is held as by the other: what has appeared since of sockets and the like does not
    /// count, as for everything that runs.
    pub(crate) fn holds_as(&self, it: &Self) -> bool {
        self.program == it.program && self.kept == it.kept && self.network == it.network
    }

    /// These words behind the wall, for a process that becomes it.
    pub(crate) fn whole(&self, cwd: &Path, words: &[OsString]) -> Command {
        let mut it = Command::new(&self.program);
        it.args(&self.arguments).arg("--chdir").arg(cwd).arg("--").args(words);
        without_keys(&mut it);
        it
    }

    /// `sh` with these words behind the wall.
    pub(crate) fn command(&self, cwd: Option<&Path>, words: &[&str]) -> Result<(Command, InfoPipe, Option<Gate>), String> {
        let (read, far) = pipe_with(PipeFlags::CLOEXEC).map_err(|err| err.to_string())?;
        // Inherited by this one child: nothing else is started between here and the drop after its spawn.
        fcntl_setfd(&far, FdFlags::empty()).map_err(|err| err.to_string())?;
        let mut it = Command::new(&self.program);
        it.args(&self.arguments);
        if let Some(cwd) = cwd {
            it.arg("--chdir").arg(cwd);
        }
        it.arg("--json-status-fd").arg(far.as_raw_fd().to_string());
        let gate = self.network.is_some().then(Gate::new).transpose().map_err(|err| err.to_string())?;
        if let Some(gate) = &gate {
            for (flag, fd) in [("--info-fd", &gate.info), ("--block-fd", &gate.block)] {
                fcntl_setfd(fd, FdFlags::empty()).map_err(|err| err.to_string())?;
                it.arg(flag).arg(fd.as_raw_fd().to_string());
            }
        }
        it.args(["--", "/bin/sh"]).args(words).process_group(0).current_dir("/");
        without_keys(&mut it);
        Ok((it, InfoPipe { read, _far: far }, gate))
    }
}
