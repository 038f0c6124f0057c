//! Protected names that do not exist yet: nothing can be mounted over them, so they are watched while a command runs. What
//! appears there is moved aside at once, and the command's result says so. Nothing is deleted.
use std::{
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
        })
    }

    /// What was found since the last time.
    pub(crate) fn take(&self) -> Vec<SetAside> {
        std::mem::take(&mut *self.found.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Whether anything was ever found.
    pub(crate) fn was_needed(&self) -> bool {
        self.needed.load(Ordering::Relaxed)
    }

    /// Watches until it is dropped. Where the system has no watch left, the look at the end has to do.
    pub(crate) fn watch(&self) -> impl Future<Output = ()> + Send + 'static + use<> {
        let (watch, guard) = (self.watched().ok(), self.clone());
        async move {
            let Some(watch) = watch.and_then(|it| registered(it, Interest::READABLE).ok()) else {
                return std::future::pending().await;
            };
            loop {
                let Ok(mut ready) = watch.readable().await else { return std::future::pending().await };
                let mut buffer = [MaybeUninit::uninit(); 4096];
                let mut reader = Reader::new(watch.get_ref(), &mut buffer);
                while reader.next().is_ok() {}
                ready.clear_ready();
                guard.look();
            }
        }
    }

    fn watched(&self) -> rustix::io::Result<OwnedFd> {
        let it = init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?;
        let mut parents: Vec<&Path> = self.missing.iter().filter_map(|it| it.parent()).collect();
        parents.dedup();
        for dir in parents {
            add_watch(&it, dir, WatchFlags::CREATE | WatchFlags::MOVED_TO | WatchFlags::ONLYDIR)?;
        }
        Ok(it)
    }

    /// Moves aside what is there now.
    pub(crate) fn look(&self) {
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
        fs::create_dir(root.join(".sid")).unwrap();
        granted.lock().unwrap().push(root.join(".sid/settings.toml"));
        guard.look();
        let want = SetAside { made: root.join(".claude"), moved: Some(aside.join(".claude.1")) };
        assert_eq!(guard.take(), [want]);
        assert!(aside.join(".claude.1/hooks").is_dir() && root.join(".sid").is_dir() && root.join("sid.toml").is_file());
    }
}
