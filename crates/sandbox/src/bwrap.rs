//! The wall: what Bubblewrap is told, from a permit.
use std::{
    collections::BTreeSet,
    ffi::{OsStr, OsString},
    fs,
    path::{Path, PathBuf},
};

use sid_policy::{Bounds, Fence, Kind};

use crate::{
    environment::Environment,
    git::Git,
    host::Host,
    placeholder::{Placeholder, exclude},
};

/// What the disk says that the arguments depend on.
#[derive(Debug, Default)]
pub(crate) struct Facts {
    pub(crate) git: Vec<Git>,
    /// Protected paths that exist, and are no links.
    pub(crate) protected: Vec<PathBuf>,
    /// Hidden or secret things: each with whether it is a folder.
    pub(crate) masked: Vec<(PathBuf, Kind)>,
    /// Pathname sockets of the host, and folders that hold such.
    pub(crate) sockets: Vec<PathBuf>,
    pub(crate) run: Vec<PathBuf>,
    /// A temporary folder besides `/tmp`.
    pub(crate) temp: Option<PathBuf>,
    /// Folders of build caches, writable.
    pub(crate) caches: Option<PathBuf>,
    /// A folder of the call's own, writable wherever it is.
    pub(crate) scratch: Option<PathBuf>,
    /// Folders to lie over others, writable.
    pub(crate) shims: Vec<(PathBuf, PathBuf)>,
    /// Files to lie over others, read-only.
    pub(crate) over: Vec<(PathBuf, PathBuf)>,
    /// Whether a `/proc` of one's own can be mounted; else it is empty.
    pub(crate) own_proc: bool,
    /// Files of `/proc` that only the real root could write; to root they look writable.
    pub(crate) proc: Vec<PathBuf>,
}

impl Facts {
    /// Looks. `None` with a sentence: a protected name is a link, so it can't be protected.
    pub(crate) fn gather(fence: &Fence, bounds: Bounds, host: &Host, placeholder: Option<&Placeholder>) -> Result<Self, String> {
        let env = &host.environment;
        let home = env.get("HOME").map(PathBuf::from).and_then(|it| fs::canonicalize(it).ok());
        let mut it = Self { own_proc: host.has_proc(), ..Self::default() };
        if bounds == Bounds::Workspace {
            it.caches = host.caches().filter(|it| it.is_dir());
            it.shims = host.shims.borrow().clone();
        }
        for root in &fence.roots {
            if bounds == Bounds::Workspace {
                it.git.push(Git::of(root, home.as_deref()));
            }
            for name in &fence.protected {
                let path = root.join(name);
                if placeholder.is_some_and(|it| it.path == path) {
                    continue;
                }
                match fs::symlink_metadata(&path) {
                    Ok(meta) if meta.is_symlink() => {
                        return Err(format!(
                            "No command can run: {} is a link, and a protected name that is a link can't be protected. Ask the \
                             user to replace it by the file itself.",
                            path.display()
                        ));
                    }
                    Ok(_) => it.protected.push(path),
                    Err(_) => {}
                }
            }
        }
        if let Some(reserved) = placeholder {
            it.over.push((reserved.empty.clone(), reserved.path.clone()));
            let git = it.git.iter().find(|git| !git.common.as_os_str().is_empty() && reserved.path.starts_with(&git.top));
            let folder = host.folder.as_deref().filter(|_| git.is_some());
            it.over.extend(git.zip(folder).and_then(|(git, folder)| exclude(reserved, &git.top, &git.common, folder)));
        }
        for secret in &fence.secret {
            if let Ok(meta) = fs::metadata(secret) {
                it.masked.push((secret.clone(), if meta.is_dir() { Kind::Folder } else { Kind::File }));
            }
        }
        it.masked.extend(hidden(fence));
        it.run = run_folders(env);
        it.sockets = sockets(fence, &it.run, env);
        it.temp = env.get("TMPDIR").map(PathBuf::from).and_then(|it| fs::canonicalize(it).ok());
        it.temp = it.temp.filter(|it| it.is_dir() && it != Path::new("/tmp") && it != Path::new("/"));
        if rustix::process::geteuid().is_root() && it.own_proc {
            // Bubblewrap itself covers what looks writable before capabilities are dropped; these two do not.
            it.proc = ["/proc/sys", "/proc/sysrq-trigger"].map(PathBuf::from).into_iter().filter(|it| it.exists()).collect();
        }
        Ok(it)
    }
}

/// Everything hidden by an ignore file; a hidden folder is one entry.
pub(crate) fn hidden(fence: &Fence) -> Vec<(PathBuf, Kind)> {
    let mut out = Vec::new();
    for root in fence.hidden.roots() {
        let mut todo = vec![root.to_owned()];
        while let Some(dir) = todo.pop() {
            for entry in fs::read_dir(&dir).into_iter().flatten().filter_map(Result::ok) {
                let Ok(kind) = entry.file_type() else { continue };
                let what = if kind.is_dir() { Kind::Folder } else { Kind::File };
                if fence.hidden.hides(&entry.path(), what) {
                    if !kind.is_symlink() {
                        out.push((entry.path(), what));
                    }
                } else if kind.is_dir() {
                    todo.push(entry.path());
                }
            }
        }
    }
    out
}

/// Folders where services keep their sockets.
fn run_folders(env: &Environment) -> Vec<PathBuf> {
    let named = env.get("XDG_RUNTIME_DIR").map(PathBuf::from);
    let all = [Some("/run".into()), Some("/var/run".into()), named].into_iter().flatten();
    let mut out: Vec<PathBuf> = Vec::new();
    for path in all.filter_map(|it: PathBuf| fs::canonicalize(it).ok()).filter(|it| it != Path::new("/")) {
        if !out.iter().any(|it| path.starts_with(it)) {
            out.push(path);
        }
    }
    out
}

/// Host sockets that stay visible otherwise: those the kernel lists, and those the environment names.
fn sockets(fence: &Fence, run: &[PathBuf], env: &Environment) -> Vec<PathBuf> {
    let listed = fs::read("/proc/net/unix").unwrap_or_default();
    let listed = listed.split(|it| *it == b'\n').filter_map(|line| {
        let at = line.iter().position(|it| *it == b'/')?;
        Some(PathBuf::from(<OsStr as std::os::unix::ffi::OsStrExt>::from_bytes(&line[at..])))
    });
    let named = ["SSH_AUTH_SOCK", "DOCKER_HOST", "DBUS_SESSION_BUS_ADDRESS", "GPG_AGENT_INFO"].into_iter().filter_map(|name| {
        let value = env.get(name)?.to_string_lossy().into_owned();
        let at = value.find('/')?;
        let path = value[at..].trim_start_matches("//").split([',', ':']).next()?.to_owned();
        Some(PathBuf::from(format!("/{}", path.trim_start_matches('/'))))
    });
    let mut out: Vec<PathBuf> = listed.chain(named).filter_map(|it| fs::canonicalize(it).ok()).collect();
    out.sort_unstable();
    out.dedup();
    out.retain(|path| {
        let seen = !path.starts_with("/tmp") && !run.iter().chain(&fence.roots).any(|it| path.starts_with(it));
        seen && fs::symlink_metadata(path).is_ok_and(|it| std::os::unix::fs::FileTypeExt::is_socket(&it.file_type()))
    });
    out
}

/// Folders between a root and what is covered or read-only in it. Each is bound onto itself: a mount point can't be renamed, so
/// nothing can be moved out from under its cover, and nothing put in its place.
fn anchors(fence: &Fence, facts: &Facts) -> BTreeSet<PathBuf> {
    let held = facts.protected.iter().chain(facts.masked.iter().map(|it| &it.0)).chain(facts.over.iter().map(|it| &it.1));
    let above = |path: &PathBuf| {
        let root = fence.roots.iter().filter(|it| path.starts_with(it)).max_by_key(|it| it.as_os_str().len())?.clone();
        let path = path.clone();
        let dirs: Vec<PathBuf> = path.ancestors().skip(1).take_while(|it| **it != *root).map(Path::to_path_buf).collect();
        Some(dirs)
    };
    let git: Vec<&Path> = facts.git.iter().flat_map(|it| &it.writable).map(PathBuf::as_path).collect();
    held.filter_map(above).flatten().filter(|it| !git.iter().any(|git| it.starts_with(git))).collect()
}

/// The arguments before the command. Order matters: later mounts lie over earlier ones.
pub(crate) fn arguments(fence: &Fence, bounds: Bounds, facts: &Facts) -> Vec<OsString> {
    let mut it = Args::default();
    it.flags(&["--new-session", "--die-with-parent", "--ro-bind", "/", "/", "--dev", "/dev", "--tmpfs", "/tmp"]);
    for path in &facts.run {
        it.one("--tmpfs", path);
    }
    let bind = if bounds == Bounds::Workspace { "--bind" } else { "--ro-bind" };
    let covered = |root: &&PathBuf| root.starts_with("/tmp") || facts.run.iter().any(|it| root.starts_with(it));
    fence.shown.iter().filter(covered).for_each(|path| it.pair("--ro-bind", path));
    if bounds == Bounds::Workspace {
        fence.roots.iter().for_each(|root| it.pair(bind, root));
    } else {
        fence.roots.iter().filter(covered).for_each(|root| it.pair(bind, root));
    }
    if let Some(temp) = &facts.temp {
        it.pair("--bind", temp);
    }
    if let Some(caches) = &facts.caches {
        it.pair("--bind", caches);
    }
    facts.shims.iter().for_each(|(from, to)| it.two("--bind", from, to));
    for git in &facts.git {
        git.writable.iter().for_each(|path| it.pair("--bind", path));
        for path in &git.read_only {
            if path.exists() {
                it.pair("--ro-bind", path);
            } else if path.ends_with("hooks") {
                it.one("--tmpfs", path);
                it.one("--remount-ro", path);
            } else {
                it.two("--ro-bind", Path::new("/dev/null"), path);
            }
        }
    }
    anchors(fence, facts).iter().for_each(|path| it.pair(bind, path));
    facts.protected.iter().for_each(|path| it.pair("--ro-bind", path));
    facts.over.iter().for_each(|(from, to)| it.two("--ro-bind", from, to));
    for (path, kind) in &facts.masked {
        if *kind == Kind::Folder {
            it.one("--tmpfs", path);
        } else {
            it.two("--ro-bind", Path::new("/dev/null"), path);
        }
    }
    facts.sockets.iter().for_each(|path| it.two("--ro-bind", Path::new("/dev/null"), path));
    facts.scratch.iter().for_each(|path| it.pair("--bind", path));
    // Closed only now: the call's folder may be in one of them.
    let closed =
        facts.masked.iter().filter(|(path, kind)| *kind == Kind::Folder && fence.roots.iter().any(|root| path.starts_with(root)));
    closed.for_each(|(path, _)| it.one("--remount-ro", path));
    it.flags(&["--unshare-user", "--unshare-pid", "--unshare-net", "--unshare-ipc"]);
    // Where a container's runtime covers parts of /proc, the kernel lets nobody mount it anew.
    it.flags(&[if facts.own_proc { "--proc" } else { "--tmpfs" }, "/proc"]);
    facts.proc.iter().for_each(|path| it.pair("--ro-bind", path));
    it.flags(&["--cap-drop", "ALL"]);
    it.0
}

#[derive(Default)]
struct Args(Vec<OsString>);

impl Args {
    fn flags(&mut self, flags: &[&str]) {
        self.0.extend(flags.iter().map(OsString::from));
    }
    fn one(&mut self, flag: &str, path: &Path) {
        self.0.extend([flag.into(), path.into()]);
    }
    fn two(&mut self, flag: &str, from: &Path, to: &Path) {
        self.0.extend([flag.into(), from.into(), to.into()]);
    }
    fn pair(&mut self, flag: &str, path: &Path) {
        self.two(flag, path, path);
    }
}
