//! The project's configuration file while it does not exist: the path is reserved by an empty file, so that a command can
//! neither make nor change it, and freed when the last sandbox is over. Commands of all processes share it; what a person makes
//! of it in the meantime stays.
use std::{
    fs::{self, File, OpenOptions},
    io::{self, Read as _, Seek as _, Write as _},
    os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
};

use rustix::fs::{FlockOperation, flock};

/// The file that is reserved, in the primary root.
pub(crate) const CONFIG: &str = "sid.toml";

/// A share of the reservation.
#[derive(Debug)]
pub(crate) struct Placeholder {
    pub(crate) path: PathBuf,
    /// An empty file to mount over it: what a person writes into the reserved one is not shown to commands.
    pub(crate) empty: PathBuf,
    /// Share-locked as long as any sandbox needs the file; holds its identity, so that a crash leaves no stranger's file to us.
    state: File,
    /// Taken for the moment of a change.
    change: PathBuf,
}

impl Placeholder {
    /// Reserves the path, or joins those who have. `None`: there is a file of the user's. `folder` is sid's own for this
    /// workspace.
    ///
    /// # Errors
    /// It can't be reserved.
    pub(crate) fn reserve(root: &Path, folder: &Path) -> io::Result<Option<Self>> {
        fs::create_dir_all(folder)?;
        let path = root.join(CONFIG);
        let change = folder.join("placeholder.lock");
        let _moment = locked(&change)?;
        let mut state = opened(&folder.join("placeholder"))?;
        let mut known = String::new();
        state.read_to_string(&mut known)?;
        let empty = folder.join("empty");
        if !empty.exists() {
            File::create(&empty)?;
        }
        match fs::symlink_metadata(&path) {
            Ok(it) if it.is_file() && it.len() == 0 && identity(&it) == known => {}
            Ok(_) => return Ok(None),
            Err(_) => {
                let made = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path)?;
                state.set_len(0)?;
                state.rewind()?;
                state.write_all(identity(&made.metadata()?).as_bytes())?;
            }
        }
        flock(&state, FlockOperation::LockShared)?;
        Ok(Some(Self { path, empty, state, change }))
    }
}

/// Whether what is at `path` is the reserved file of the workspace whose folder is `folder`, and not a file of the user's.
pub(crate) fn is_reserved(path: &Path, folder: &Path) -> bool {
    let known = || fs::read_to_string(folder.join("placeholder")).unwrap_or_default();
    path.file_name().is_some_and(|it| it == CONFIG)
        && fs::symlink_metadata(path).is_ok_and(|it| it.is_file() && it.len() == 0 && identity(&it) == known())
}

/// Makes the reserved file the user's own, by writing into it: replaced, it would lie bare in the sandboxes that run. `false`:
/// it is not reserved (any more).
///
/// # Errors
/// It can't be written.
pub(crate) fn fill(path: &Path, folder: &Path, bytes: &[u8], mode: u32) -> io::Result<bool> {
    let _moment = locked(&folder.join("placeholder.lock"))?;
    if !is_reserved(path, folder) {
        return Ok(false);
    }
    let mut file = OpenOptions::new().write(true).open(path)?;
    file.set_permissions(fs::Permissions::from_mode(mode))?;
    file.write_all(bytes)?;
    // An empty file is the user's as well.
    opened(&folder.join("placeholder"))?.set_len(0)?;
    Ok(true)
}

fn opened(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(path)
}

fn locked(path: &Path) -> io::Result<File> {
    let it = opened(path)?;
    flock(&it, FlockOperation::LockExclusive)?;
    Ok(it)
}

fn identity(it: &fs::Metadata) -> String {
    format!("{} {}", it.dev(), it.ino())
}

impl Drop for Placeholder {
    fn drop(&mut self) {
        let Ok(_moment) = locked(&self.change) else { return };
        if flock(&self.state, FlockOperation::NonBlockingLockExclusive).is_err() {
            return;
        }
        let mut known = String::new();
        let read = self.state.rewind().and_then(|()| self.state.read_to_string(&mut known));
        let untouched = fs::symlink_metadata(&self.path).is_ok_and(|it| it.is_file() && it.len() == 0 && identity(&it) == known);
        if read.is_ok() && untouched {
            let _gone = fs::remove_file(&self.path);
        }
        let _forgotten = self.state.set_len(0);
    }
}

/// A copy of Git's own ignore list with the reserved file in it, to lie over the real one: `git status` in a command says
/// nothing of the placeholder. `None`: there is no such list to cover.
pub(crate) fn exclude(placeholder: &Placeholder, top: &Path, metadata: &Path, folder: &Path) -> Option<(PathBuf, PathBuf)> {
    let real = metadata.join("info/exclude");
    fs::create_dir_all(metadata.join("info")).ok()?;
    // Not where a link leads to: what is copied is shown to commands.
    let inside = fs::canonicalize(metadata.join("info")).ok()?.starts_with(fs::canonicalize(metadata).ok()?);
    if !inside {
        return None;
    }
    let text = match fs::symlink_metadata(&real) {
        Ok(it) if it.is_file() => fs::read(&real).ok()?,
        Ok(_) => return None,
        Err(_) => Vec::new(),
    };
    let within = placeholder.path.strip_prefix(top).ok()?;
    let gap: &[u8] = if text.is_empty() || text.ends_with(b"\n") { b"" } else { b"\n" };
    let line = format!("/{}\n", within.display());
    let wanted = [&text, gap, line.as_bytes()].concat();
    let copy = folder.join("exclude");
    if fs::read(&copy).ok().as_ref() != Some(&wanted) {
        let fresh = folder.join(format!("exclude.{}", std::process::id()));
        fs::write(&fresh, wanted).ok()?;
        fs::rename(&fresh, &copy).ok()?;
    }
    Some((copy, real))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_shared_freed_and_never_taken_from_a_person() {
        let dir = tempfile::tempdir().unwrap();
        let (root, folder) = (dir.path().join("w"), dir.path().join("f"));
        fs::create_dir(&root).unwrap();
        let reserve = || Placeholder::reserve(&root, &folder).unwrap();
        let (a, b) = (reserve().unwrap(), reserve().unwrap());
        drop(a);
        assert!(root.join(CONFIG).exists(), "still needed");
        drop(b);
        assert!(!root.join(CONFIG).exists());
        // Written by a person meanwhile.
        let it = reserve().unwrap();
        fs::write(root.join(CONFIG), "x = 1").unwrap();
        drop(it);
        assert!(root.join(CONFIG).exists() && reserve().is_none());
        // Replaced by another empty file.
        fs::remove_file(root.join(CONFIG)).unwrap();
        let it = reserve().unwrap();
        fs::write(root.join("other"), "").unwrap();
        fs::rename(root.join("other"), root.join(CONFIG)).unwrap();
        drop(it);
        assert!(root.join(CONFIG).exists() && reserve().is_none());
        // Left behind by a process that was killed.
        fs::remove_file(root.join(CONFIG)).unwrap();
        let it = reserve().unwrap();
        let killed = it.state.try_clone().unwrap();
        std::mem::forget(it);
        flock(&killed, FlockOperation::Unlock).unwrap();
        drop(reserve().unwrap());
        assert!(!root.join(CONFIG).exists());
    }
}
