//! Protected names that do not exist yet: nothing can be mounted over them, so they are watched while a command runs. What
//! appears there is moved aside at once, and the command's result says so. Nothing is deleted.
use std::{
    collections::HashSet,
    fs,
    mem::MaybeUninit,
    os::fd::OwnedFd,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use rustix::fs::inotify::{CreateFlags, Reader, WatchFlags, add_watch, init};
use sid_policy::Fence;
use tokio::io::Interest;

use crate::stdio::registered;

/// A protected name that appeared, and where it is now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SetAside {
    /// Where it was made.
    pub(crate) made: PathBuf,
    /// Where it was moved; `None` if that could not be.
    pub(crate) moved: Option<PathBuf>,
}

/// Protected names that sid itself was allowed to make, by any call of this session.
pub(crate) type Granted = Arc<Mutex<Vec<PathBuf>>>;

/// Watches for one command.
#[derive(Debug, Clone)]
pub(crate) struct Guard {
    missing: Arc<[PathBuf]>,
    granted: Granted,
    aside: PathBuf,
    found: Arc<Mutex<Vec<SetAside>>>,
    needed: Arc<AtomicBool>,
    asleep: Arc<AtomicBool>,
}

impl Guard {
    /// `None`: every protected name exists already. `aside` is where things are moved.
    pub(crate) fn new(fence: &Fence, granted: &Granted, aside: PathBuf) -> Option<Self> {
        let all = fence.roots.iter().flat_map(|root| fence.protected.iter().map(move |it| root.join(it)));
        let missing: Arc<[PathBuf]> = all.filter(|it| it.symlink_metadata().is_err()).collect();
        (!missing.is_empty()).then(|| Self {
            missing,
            granted: Arc::clone(granted),
            aside,
            found: Arc::default(),
            needed: Arc::default(),
            asleep: Arc::default(),
        })
    }

    /// Its command is still to come: what appears until it is woken was made by others.
    pub(crate) fn sleep(&self) {
        self.asleep.store(true, Ordering::Relaxed);
    }

    /// Its command begins.
    pub(crate) fn wake(&self) {
        self.asleep.store(false, Ordering::Relaxed);
    }

    /// What was found since the last time.
    pub(crate) fn take(&self) -> Vec<SetAside> {
        std::mem::take(&mut *self.found.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Whether anything was ever found.
    pub(crate) fn was_needed(&self) -> bool {
        self.needed.load(Ordering::Relaxed)
    }

    /// Moves aside what is there now.
    pub(crate) fn look(&self) {
        if self.asleep.load(Ordering::Relaxed) {
            return;
        }
        for path in self.missing.iter().filter(|it| it.symlink_metadata().is_ok()) {
            let granted = self.granted.lock().unwrap_or_else(PoisonError::into_inner).iter().any(|it| it.starts_with(path));
            if !granted {
                let moved = move_aside(path, &self.aside);
                self.needed.store(true, Ordering::Relaxed);
                self.found.lock().unwrap_or_else(PoisonError::into_inner).push(SetAside { made: path.clone(), moved });
            }
        }
    }
}

/// Tells guards of what appears, for all commands of a session: closing a watch of the kernel's takes longer than a command.
#[derive(Debug)]
pub(crate) struct Watch {
    kernel: OwnedFd,
    folders: Mutex<HashSet<PathBuf>>,
    active: Arc<Mutex<Vec<Guard>>>,
}

impl Watch {
    /// Begins. `None`: the system has none left, and the look at the end of each command has to do.
    pub(crate) fn new() -> Option<Self> {
        let kernel = init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK).ok()?;
        let events = registered(kernel.try_clone().ok()?, Interest::READABLE).ok()?;
        let active: Arc<Mutex<Vec<Guard>>> = Arc::default();
        let told = Arc::clone(&active);
        tokio::spawn(async move {
            loop {
                let Ok(mut ready) = events.readable().await else { return };
                let mut buffer = [MaybeUninit::uninit(); 4096];
                let mut reader = Reader::new(events.get_ref(), &mut buffer);
                while reader.next().is_ok() {}
                ready.clear_ready();
                told.lock().unwrap_or_else(PoisonError::into_inner).iter().for_each(Guard::look);
            }
        });
        Some(Self { kernel, folders: Mutex::default(), active })
    }

    /// Tells this guard too, until what is returned is dropped.
    pub(crate) fn tell(&self, guard: &Guard) -> Told {
        let mut folders = self.folders.lock().unwrap_or_else(PoisonError::into_inner);
        for dir in guard.missing.iter().filter_map(|it| it.parent()) {
            if !folders.contains(dir) {
                // One that is not there holds nothing yet.
                let flags = WatchFlags::CREATE | WatchFlags::MOVED_TO | WatchFlags::ONLYDIR;
                if add_watch(&self.kernel, dir, flags).is_ok() {
                    folders.insert(dir.to_owned());
                }
            }
        }
        self.active.lock().unwrap_or_else(PoisonError::into_inner).push(guard.clone());
        Told { active: Arc::clone(&self.active), needed: Arc::clone(&guard.needed) }
    }
}

/// A guard that is told.
#[derive(Debug)]
pub(crate) struct Told {
    active: Arc<Mutex<Vec<Guard>>>,
    needed: Arc<AtomicBool>,
}

impl Drop for Told {
    fn drop(&mut self) {
        let mut active = self.active.lock().unwrap_or_else(PoisonError::into_inner);
        active.retain(|it| !Arc::ptr_eq(&it.needed, &self.needed));
    }
}

/// Into `aside`, or, on another file system, to another name in the same folder.
fn move_aside(path: &Path, aside: &Path) -> Option<PathBuf> {
    let name = path.file_name()?.to_string_lossy().into_owned();
    let free = |dir: &Path, prefix: &str| {
        (1..1000).map(|n| dir.join(format!("{prefix}{name}.{n}"))).find(|it| it.symlink_metadata().is_err())
    };
    let first = fs::create_dir_all(aside).ok().and_then(|()| free(aside, ""));
    let second = path.parent().and_then(|dir| free(dir, "set-aside-by-sid"));
    first.into_iter().chain(second).find(|to| fs::rename(path, to).is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_in_the_way_is_moved_and_kept() {
        let dir = tempfile::tempdir().unwrap();
        let (root, aside) = (dir.path().join("w"), dir.path().join("aside"));
        fs::create_dir(&root).unwrap();
        fs::write(root.join("sid.toml"), "mine").unwrap();
        let protected = ["sid.toml", ".claude", ".sid"].map(str::to_owned).to_vec();
        let fence = Fence { roots: vec![root.clone()], protected, ..Fence::default() };
        let granted = Granted::default();
        let guard = Guard::new(&fence, &granted, aside.clone()).unwrap();
        guard.look();
        assert!(!guard.was_needed());
        fs::create_dir_all(root.join(".claude/hooks")).unwrap();
        guard.sleep();
        guard.look();
        assert!(!guard.was_needed() && root.join(".claude").is_dir(), "made by another");
        guard.wake();
        fs::create_dir(root.join(".sid")).unwrap();
        granted.lock().unwrap().push(root.join(".sid/settings.toml"));
        guard.look();
        let want = SetAside { made: root.join(".claude"), moved: Some(aside.join(".claude.1")) };
        assert_eq!(guard.take(), [want]);
        assert!(aside.join(".claude.1/hooks").is_dir() && root.join(".sid").is_dir() && root.join("sid.toml").is_file());
    }
}
