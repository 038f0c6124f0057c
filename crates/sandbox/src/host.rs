use std::{
    cell::{Cell, RefCell},
    fmt,
    path::{Path, PathBuf},
};

use sid_policy::{Bounds, Fence};

use crate::{environment::Environment, jobs::Jobs, spare::Spare};

/// The machine as actions see it: the sandbox program, the environment of children, background jobs.
#[derive(Debug)]
pub struct Host {
    pub(crate) bwrap: Option<PathBuf>,
    pub(crate) environment: Environment,
    pub(crate) keep: PathBuf,
    pub(crate) jobs: RefCell<Jobs>,
    /// A sandbox that waits for its command.
    pub(crate) spare: RefCell<Option<Spare>>,
    /// Whether a sandbox was ever needed; until then none is prepared.
    pub(crate) sandbox_used: Cell<bool>,
    /// Whether what an earlier sid left behind was looked for.
    swept: Cell<bool>,
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
        Self {
            bwrap,
            environment,
            keep,
            jobs: RefCell::default(),
            spare: RefCell::default(),
            sandbox_used: Cell::new(false),
            swept: Cell::new(false),
        }
    }

    /// Tries the sandbox, and returns the version of its program.
    ///
    /// # Errors
    /// Why no command can run here, and what to do.
    pub async fn probe(&self, time: std::time::Duration) -> Result<String, String> {
        let bwrap = self.bwrap.as_ref().ok_or_else(|| Missing.to_string())?;
        let ask = |args: &[&str]| tokio::process::Command::new(bwrap).args(args).stdin(std::process::Stdio::null()).output();
        let version = tokio::time::timeout(time, ask(&["--version"])).await;
        let version = version
            .map_err(|_| "`bwrap --version` does not answer.".to_owned())?
            .map_err(|err| format!("{}: {err}", bwrap.display()))?;
        let flags =
            ["--new-session", "--die-with-parent", "--ro-bind", "/", "/", "--dev", "/dev", "--tmpfs", "/tmp", "--unshare-user"];
        let more = [
            "--unshare-pid",
            "--unshare-net",
            "--unshare-ipc",
            "--proc",
            "/proc",
            "--cap-drop",
            "ALL",
            "--",
            "/bin/sh",
            "-c",
            "exit 7",
        ];
        let tried = tokio::time::timeout(time, ask(&[&flags[..], &more[..]].concat())).await;
        let tried = tried
            .map_err(|_| "the sandbox does not start in time.".to_owned())?
            .map_err(|err| format!("{}: {err}", bwrap.display()))?;
        if tried.status.code() == Some(7) {
            return Ok(String::from_utf8_lossy(&version.stdout).trim().to_owned());
        }
        let said = String::from_utf8_lossy(&tried.stderr).trim().replace('\n', "; ");
        Err(format!(
            "`bwrap` is there but can't make a sandbox ({said}). Unprivileged user namespaces may be switched off: see `sysctl \
             kernel.unprivileged_userns_clone kernel.apparmor_restrict_unprivileged_userns user.max_user_namespaces`, or, in a container, run it with \
             `--security-opt seccomp=unconfined`. Until then only `--mode full_access` runs commands."
        ))
    }

    /// Prepares a sandbox for the next command, once commands are being run; and ends those that an earlier sid was killed
    /// over. Call it while nothing else is to be done.
    pub fn prepare(&self, fence: &Fence, bounds: Bounds) {
        if let Some(marker) = fence.secret.first().filter(|_| !self.swept.replace(true)) {
            crate::signals::sweep(marker);
        }
        let useful = self.sandbox_used.get() && bounds != Bounds::Unbounded && self.spare.borrow().is_none();
        if useful {
            // One that can't be made is no fault: the command itself will say what is wrong.
            *self.spare.borrow_mut() = Spare::new(self, fence, bounds).ok();
        }
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
        drop(self.spare.borrow_mut().take());
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
