use std::{
    cell::RefCell,
    fmt,
    path::{Path, PathBuf},
};

use crate::{environment::Environment, jobs::Jobs};

/// The machine as actions see it: the sandbox program, the environment of children, background jobs.
#[derive(Debug)]
pub struct Host {
    pub(crate) bwrap: Option<PathBuf>,
    pub(crate) environment: Environment,
    pub(crate) keep: PathBuf,
    pub(crate) jobs: RefCell<Jobs>,
}

/// A program that commands need and that isn't there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Missing;

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "No command can run: the sandbox program `bwrap` is not installed. Install it (Debian, Ubuntu, Fedora, Alpine: package \
             `bubblewrap`), or choose `--mode full_access` to run without a sandbox.",
        )
    }
}

impl Host {
    /// `keep` is a folder of the session, where before-images of files that are written in place are kept.
    #[must_use]
    pub fn new(environment: Environment, keep: PathBuf) -> Self {
        let bwrap = find_program("bwrap", environment.get("PATH").map_or("".as_ref(), |it| it.as_os_str()));
        Self { bwrap, environment, keep, jobs: RefCell::default() }
    }

    /// Ends the commands of calls that were given up; background commands go on.
    pub async fn stop_waited(&self, grace: std::time::Duration) {
        let waited = self.jobs.borrow_mut().waited();
        for mut it in waited {
            it.stop(grace).await;
        }
    }

    /// Ends every process that still runs: asks, waits up to `grace`, then kills.
    pub async fn shut_down(&self, grace: std::time::Duration) {
        let jobs = std::mem::take(&mut *self.jobs.borrow_mut());
        jobs.shut_down(grace).await;
    }
}

/// Where a program is in a `PATH`, `/usr/bin` and `/bin` searched last.
#[must_use]
pub fn find_program(name: &str, path: &std::ffi::OsStr) -> Option<PathBuf> {
    let dirs = std::env::split_paths(path).chain([PathBuf::from("/usr/bin"), PathBuf::from("/bin")]);
    dirs.filter(|it| it.is_absolute()).map(|it| it.join(name)).find(|it| is_program(it))
}

fn is_program(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    path.metadata().is_ok_and(|it| it.is_file() && it.permissions().mode() & 0o111 != 0)
}
