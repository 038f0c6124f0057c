use std::{
    cell::{Cell, OnceCell, RefCell},
    fmt, io,
    path::{Path, PathBuf},
    sync::Arc,
};

use sid_policy::{Bounds, Fence};
use sid_proxy::Service;

use crate::{
    DockerSettings, Tee, caches,
    docker::Docker,
    environment::Environment,
    guard::{Granted, Guard, Told, Watch},
    jobs::{Ended, JobId, Jobs},
    placeholder::{Placeholder, fill, is_reserved},
    shell::Shell,
    spare::{Spare, Waits},
};

/// The machine as actions see it: the sandbox program, the environment of children, background jobs.
#[derive(Debug)]
pub struct Host {
    pub(crate) bwrap: Option<PathBuf>,
    pub(crate) environment: Environment,
    pub(crate) keep: PathBuf,
    /// Keeps what the programs of tools print.
    pub(crate) tee: Option<Arc<dyn Tee>>,
    /// The container that commands run in, if the settings ask for one.
    pub(crate) docker: Option<Arc<Docker>>,
    /// What sid keeps for this workspace between sessions: build caches, the state of the placeholder.
    pub(crate) folder: Option<PathBuf>,
    /// Protected names that calls were allowed to make.
    pub(crate) granted: Granted,
    /// The environment of sandboxed commands, by their bounds.
    walled: RefCell<Vec<(Bounds, Arc<Environment>)>>,
    /// Copies of folders of shims, and what they lie over.
    pub(crate) shims: RefCell<Vec<(PathBuf, PathBuf)>>,
    /// Serves the managed network, once there is a use for it.
    service: OnceCell<Arc<Service>>,
    own_proc: OnceCell<bool>,
    waits: OnceCell<Waits>,
    /// Tells of protected names that appear.
    watch: OnceCell<Option<Watch>>,
    pub(crate) jobs: RefCell<Jobs>,
    /// A sandbox that waits for its command.
    pub(crate) spare: RefCell<Option<Spare>>,
    /// The shell that stays between commands.
    pub(crate) shell: RefCell<Option<Arc<Shell>>>,
    /// Whether a sandbox was ever needed; until then none is prepared.
    pub(crate) sandbox_used: Cell<bool>,
    /// The number of the last call that had a folder.
    last_tool: Cell<u32>,
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
            tee: None,
            docker: None,
            folder: None,
            granted: Granted::default(),
            walled: RefCell::default(),
            shims: RefCell::default(),
            service: OnceCell::new(),
            own_proc: OnceCell::new(),
            waits: OnceCell::new(),
            watch: OnceCell::new(),
            jobs: RefCell::default(),
            spare: RefCell::default(),
            shell: RefCell::default(),
            sandbox_used: Cell::new(false),
            last_tool: Cell::new(0),
            swept: Cell::new(false),
        }
    }

    /// With a folder of sid's own for this workspace: commands get their build caches there, and the project's configuration
    /// file is reserved.
    #[must_use]
    pub fn with_folder(mut self, folder: Option<PathBuf>) -> Self {
        self.folder = folder;
        self
    }

    /// With someone who keeps what the programs of tools print.
    #[must_use]
    pub fn with_tee(mut self, tee: Arc<dyn Tee>) -> Self {
        self.last_tool.set(tee.last_call());
        self.tee = Some(tee);
        self
    }

    /// With a container that all commands run in.
    ///
    /// # Errors
    /// What is missing, and what to do.
    pub async fn with_docker(mut self, settings: &DockerSettings, roots: &[PathBuf], session: &str) -> Result<Self, String> {
        self.docker = Some(Arc::new(Docker::open(settings, roots, &self.environment, session).await?));
        Ok(self)
    }

    /// Where commands find the roots if that is not where they are: pairs of the place inside and the place here.
    #[must_use]
    pub fn places(&self, roots: &[PathBuf]) -> Vec<(PathBuf, PathBuf)> {
        self.docker.as_ref().map(|it| it.places(roots)).unwrap_or_default()
    }

    /// Clears what an earlier sid left in this workspace when it was killed.
    pub fn tidy(&self, fence: &Fence) {
        let left = self.folder.as_ref().and_then(|it| it.join("placeholder").metadata().ok()).is_some_and(|it| it.len() > 0);
        if left {
            // Taken over, and then given up.
            drop(self.placeholder(fence, Bounds::Workspace));
        }
    }

    /// Where build caches are.
    pub(crate) fn caches(&self) -> Option<PathBuf> {
        Some(self.folder.as_ref()?.join("build"))
    }

    /// The environment behind a wall. It does not change during a session.
    pub(crate) fn walled(&self, fence: &Fence, bounds: Bounds) -> Arc<Environment> {
        if let Some((_, it)) = self.walled.borrow().iter().find(|(it, _)| *it == bounds) {
            return Arc::clone(it);
        }
        let mut it = self.environment.clone();
        let temp = it.get("TMPDIR").map(PathBuf::from).and_then(|it| std::fs::canonicalize(it).ok());
        let writable: Vec<PathBuf> = fence.roots.iter().cloned().chain(temp).chain([PathBuf::from("/tmp")]).collect();
        it.rebuild_path(&writable);
        it.lead_to(Some(&*fence.network).filter(|it| bounds == Bounds::Workspace && !it.is_closed()));
        if let Some(folder) = self.caches().filter(|_| bounds == Bounds::Workspace) {
            // Where they can't be made (no home, a full disk) commands have the user's, read-only; most still work.
            let mut led = it.clone();
            if caches::redirect(&mut led, &folder, &writable).is_ok() {
                it = led;
                *self.shims.borrow_mut() = caches::shims(&it, &folder);
            }
        }
        let it = Arc::new(it);
        self.walled.borrow_mut().push((bounds, Arc::clone(&it)));
        it
    }

    /// Whether `path` only looks like a file, because a command runs (`placeholder`).
    pub(crate) fn reserves(&self, path: &Path) -> bool {
        self.folder.as_ref().is_some_and(|it| is_reserved(path, it))
    }

    /// Makes such a file the user's, with this content. `false`: it is none.
    pub(crate) fn give_up_reserved(&self, path: &Path, bytes: &[u8], mode: u32) -> io::Result<bool> {
        self.folder.as_ref().map_or(Ok(false), |it| fill(path, it, bytes, mode))
    }

    /// Reserves the path of the project's configuration while it does not exist. Where that can't be, the watch over
    /// protected names has to do.
    pub(crate) fn placeholder(&self, fence: &Fence, bounds: Bounds) -> Option<Arc<Placeholder>> {
        let (root, folder) = (fence.roots.first()?, self.folder.as_ref()?);
        let wanted = bounds == Bounds::Workspace && fence.protected.iter().any(|it| it == crate::placeholder::CONFIG);
        let found = wanted.then(|| Placeholder::reserve(root, folder))?;
        found.ok().flatten().map(Arc::new)
    }

    /// The guard of a command over protected names that do not exist, being told of what appears.
    pub(crate) fn guard(&self, fence: &Fence, bounds: Bounds) -> Option<(Guard, Option<Told>)> {
        let guard = Guard::new(fence, &self.granted, self.aside()).filter(|_| bounds == Bounds::Workspace)?;
        let told = self.watch.get_or_init(Watch::new).as_ref().map(|it| it.tell(&guard));
        Some((guard, told))
    }

    /// This may be made although it has a protected name.
    pub(crate) fn grant(&self, path: PathBuf) {
        let mut granted = self.granted.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if !granted.contains(&path) {
            granted.push(path);
        }
    }

    /// Where what is set aside goes.
    pub(crate) fn aside(&self) -> PathBuf {
        self.folder.as_ref().map_or_else(|| self.keep.join("set-aside"), |it| it.join("set-aside"))
    }

    pub(crate) fn service(&self) -> Result<Arc<Service>, String> {
        if let Some(it) = self.service.get() {
            return Ok(Arc::clone(it));
        }
        let it = Arc::new(Service::start().map_err(|err| format!("The network of commands can't be set up: {err}."))?);
        Ok(Arc::clone(self.service.get_or_init(|| it)))
    }

    /// Whether sandboxes can have a `/proc` of their own; tried once.
    pub(crate) fn has_proc(&self) -> bool {
        *self.own_proc.get_or_init(|| {
            // The kernel refuses a new /proc where parts of the present one are covered.
            let covered = std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
            let covered = covered.lines().filter_map(|it| it.split(' ').nth(4)).any(|it| it.starts_with("/proc/"));
            let Some(bwrap) = self.bwrap.as_ref().filter(|_| covered) else { return true };
            let mut it = std::process::Command::new(bwrap);
            it.args(["--ro-bind", "/", "/", "--unshare-user", "--unshare-pid", "--proc", "/proc", "--", "/bin/sh", "-c", ":"]);
            it.stdin(std::process::Stdio::null()).stdout(std::process::Stdio::null()).stderr(std::process::Stdio::null());
            it.status().is_ok_and(|it| it.success())
        })
    }

    /// How shells that wait get their command; tried once.
    pub(crate) fn waits(&self) -> Waits {
        *self.waits.get_or_init(Waits::probe)
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
        if self.docker.is_none() && self.sandbox_used.get() && bounds != Bounds::Unbounded {
            let now = self.spare.borrow_mut().take();
            // One that can't be made is no fault: the command itself will say what is wrong.
            let next = match now {
                Some(it) => it.renewed(self, fence, bounds),
                None => Spare::new(self, fence, bounds),
            };
            *self.spare.borrow_mut() = next.ok();
        }
    }

    /// Ends the commands of calls that were given up; background commands go on.
    pub async fn stop_waited(&self, grace: std::time::Duration) {
        self.interrupt_shell(grace).await;
        let waited = self.jobs.borrow_mut().waited();
        for mut it in waited {
            it.stop(grace).await;
        }
    }

    pub(crate) fn next_tool(&self) -> u32 {
        self.last_tool.set(self.last_tool.get() + 1);
        self.last_tool.get()
    }

    /// The id of the last background command.
    #[must_use]
    pub fn last_job(&self) -> JobId {
        self.jobs.borrow().last()
    }

    /// Ends and forgets the background commands after this one.
    pub fn forget_jobs_after(&self, id: JobId) {
        self.jobs.borrow_mut().forget_after(id);
    }

    /// Background commands that ended by themselves since the last time, and whose end nobody has seen.
    pub fn ended(&self) -> Vec<Ended> {
        self.jobs.borrow_mut().ended()
    }

    /// Ends everything that runs now and reaches further than `bounds`. Returns how many commands that were.
    pub async fn reduce(&self, bounds: Bounds, grace: std::time::Duration) -> usize {
        drop(self.spare.borrow_mut().take());
        let beyond = self.jobs.borrow_mut().beyond(bounds);
        let count = beyond.len();
        let stops = beyond
            .into_iter()
            .map(|mut it| -> std::pin::Pin<Box<dyn Future<Output = _>>> { Box::pin(async move { it.stop(grace).await }) });
        crate::jobs::join(stops.collect()).await;
        count + usize::from(self.reduce_shell(bounds, grace).await)
    }

    /// Ends every process that still runs: asks, waits up to `grace`, then kills.
    pub async fn shut_down(&self, grace: std::time::Duration) {
        drop(self.spare.borrow_mut().take());
        self.end_shell(grace).await;
        let jobs = std::mem::take(&mut *self.jobs.borrow_mut());
        jobs.shut_down(grace).await;
        if let Some(docker) = &self.docker {
            docker.close().await;
        }
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
