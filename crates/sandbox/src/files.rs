//! Files, by descriptor: what was judged is what is opened, and a swap in between fails.
use std::{
    fmt,
    fs::File,
    io::{self, Read as _, Write as _},
    os::fd::OwnedFd,
    os::unix::fs::{FileExt as _, MetadataExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
    sync::atomic::{AtomicU32, Ordering},
};

use rustix::{
    fs::{AtFlags, CWD, Mode, OFlags, RenameFlags, ResolveFlags},
    io::Errno,
};

use sid_policy::{Bounds, Kind};

use crate::{
    Confined,
    docker::{Change, Wall},
};

/// Why a file can't be had, for the model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileError(pub String);

impl fmt::Display for FileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What must be at a path for a write to go ahead.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Expect {
    /// Nothing.
    Absent,
    /// A file whose content still has this stamp.
    Stamp(String),
}

/// An open regular file.
#[derive(Debug)]
pub struct Found {
    /// Its canonical path.
    pub path: PathBuf,
    /// Open for reading.
    pub file: File,
    /// Bytes.
    pub len: u64,
}

/// Up to this size a stamp is made of the content, above of size, time and inode.
const HASHED: u64 = 8 << 20;

/// The stamp of a content.
#[must_use]
pub fn stamp(bytes: &[u8]) -> String {
    format!("{:032x}", xxhash_rust::xxh3::xxh3_128(bytes))
}

/// The stamp of an open file, whose position is not used.
///
/// # Errors
/// It can't be read.
pub fn stamp_of(file: &File) -> io::Result<String> {
    let meta = file.metadata()?;
    if meta.len() > HASHED {
        return Ok(format!("{}:{}.{}:{}", meta.len(), meta.mtime(), meta.mtime_nsec(), meta.ino()));
    }
    let mut bytes = vec![0; usize::try_from(meta.len()).unwrap_or(0)];
    let mut at = 0;
    while at < bytes.len() {
        match file.read_at(&mut bytes[at..], at as u64)? {
            0 => break,
            n => at += n,
        }
    }
    Ok(stamp(&bytes[..at]))
}

/// The stamp of a file that holds just these bytes.
fn stamp_after(file: &File, bytes: &[u8]) -> io::Result<String> {
    if bytes.len() as u64 > HASHED { stamp_of(file) } else { Ok(stamp(bytes)) }
}

fn changed(path: &Path) -> FileError {
    FileError(format!("{} changed while it was being edited; nothing was written. Read it again.", path.display()))
}

fn said(path: &Path, err: impl Into<io::Error>) -> FileError {
    let err: io::Error = err.into();
    let shown = path.display();
    FileError(match err.kind() {
        io::ErrorKind::NotFound => format!("{shown} does not exist."),
        io::ErrorKind::PermissionDenied => format!("{shown}: the system does not permit it."),
        io::ErrorKind::AlreadyExists => format!("{shown} exists already."),
        io::ErrorKind::NotADirectory => format!("{shown}: a part of the path is not a folder."),
        io::ErrorKind::IsADirectory => format!("{shown} is a folder."),
        io::ErrorKind::DirectoryNotEmpty => format!("{shown} is a folder that is not empty."),
        io::ErrorKind::StorageFull => format!("{shown}: the disk is full."),
        _ if err.raw_os_error() == Some(Errno::LOOP.raw_os_error()) => {
            format!("{shown} changed into a link while it was being opened; nothing was done.")
        }
        _ => format!("{shown}: {err}."),
    })
}

/// Opens a canonical path without following any link on the way.
fn open_exactly(path: &Path, flags: OFlags) -> Result<OwnedFd, Errno> {
    let resolve = ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    rustix::fs::openat2(CWD, path, flags | OFlags::CLOEXEC, Mode::empty(), resolve)
}

impl Confined<'_> {
    /// Opens the n-th path for reading. Only regular files: a FIFO or device could block for ever.
    ///
    /// # Errors
    /// It is missing, not a regular file, or not permitted.
    pub fn open(&self, n: usize) -> Result<Found, FileError> {
        let (path, _) = self.path(n).map_err(FileError)?;
        if self.host.reserves(&path) {
            return Err(said(&path, Errno::NOENT));
        }
        if let Some(docker) = self.host.elsewhere(&path, self.permit.fence()) {
            let found = docker.read(self.wall(), &path, &self.host.keep);
            let (file, len) = found.map_err(|err| said(&path, err))?;
            return Ok(Found { path, file, len });
        }
        let fd = open_exactly(&path, OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY).map_err(|err| said(&path, err))?;
        let file = File::from(fd);
        let meta = file.metadata().map_err(|err| said(&path, err))?;
        if meta.is_dir() {
            return Err(FileError(format!("{} is a folder, not a file.", path.display())));
        }
        if !meta.is_file() {
            return Err(FileError(format!("{} is not a regular file but a FIFO, socket or device.", path.display())));
        }
        Ok(Found { len: meta.len(), path, file })
    }

    /// Reads all of the n-th path, up to `max` bytes; with its stamp.
    ///
    /// # Errors
    /// As [`Confined::open`], or it is larger.
    pub fn read_all(&self, n: usize, max: u64) -> Result<(PathBuf, Vec<u8>, String), FileError> {
        let found = self.open(n)?;
        if found.len > max {
            return Err(FileError(format!(
                "{} has {} bytes; at most {max} can be edited at once.",
                found.path.display(),
                found.len
            )));
        }
        let mut bytes = Vec::with_capacity(usize::try_from(found.len).unwrap_or(0) + 1);
        (&found.file).take(max + 1).read_to_end(&mut bytes).map_err(|err| said(&found.path, err))?;
        let stamp = stamp_after(&found.file, &bytes).map_err(|err| said(&found.path, err))?;
        Ok((found.path, bytes, stamp))
    }

    /// The entries of the n-th path: name, and whether each is a folder. Sorted by name.
    ///
    /// # Errors
    /// It is missing or no folder.
    pub fn list(&self, n: usize) -> Result<(PathBuf, Vec<(String, bool)>), FileError> {
        let (path, _) = self.path(n).map_err(FileError)?;
        if let Some(docker) = self.host.elsewhere(&path, self.permit.fence()) {
            let mut out = docker.list(self.wall(), &path).map_err(|err| said(&path, err))?;
            out.sort_unstable();
            return Ok((path, out));
        }
        let entries = std::fs::read_dir(&path).map_err(|err| said(&path, err))?;
        let (hider, mut out) = (self.hider(), Vec::new());
        for entry in entries {
            let entry = entry.map_err(|err| said(&path, err))?;
            let folder = entry.file_type().is_ok_and(|it| it.is_dir());
            if !hider.hides(&entry.path(), if folder { Kind::Folder } else { Kind::File }) {
                out.push((entry.file_name().to_string_lossy().into_owned(), folder));
            }
        }
        out.sort_unstable();
        Ok((path, out))
    }

    /// Writes the n-th path, if what is there is as expected. Missing folders are made for a new file.
    ///
    /// A file with one link is replaced by a new one of the same mode, owner and attributes; one with several links, or in a
    /// folder where nothing can be made, is written in place after its content was kept. Returns the path and the new stamp.
    ///
    /// # Errors
    /// Something else is there, or the disk refuses; then nothing has changed.
    pub fn write(&self, n: usize, bytes: &[u8], expect: &Expect) -> Result<(PathBuf, String), FileError> {
        self.granted(n);
        let (path, _) = self.path(n).map_err(FileError)?;
        if self.host.elsewhere(&path, self.permit.fence()).is_some() {
            return self.write_elsewhere(n, path, bytes, expect);
        }
        let fail = |err: Errno| said(&path, err);
        let Expect::Stamp(wanted) = expect else {
            let (dir, name) = open_parent(&path, Parents::Make)?;
            let reserved = self.host.reserves(&path);
            if !reserved && rustix::fs::statat(&dir, &name, AtFlags::SYMLINK_NOFOLLOW).is_ok() {
                return Err(said(&path, Errno::EXIST));
            }
            let temp = Temp::create(&dir, Mode::from_raw_mode(0o666)).map_err(fail)?;
            if reserved {
                let mode = temp.file.metadata().map_err(|err| said(&path, err))?.mode();
                if self.host.give_up_reserved(&path, bytes, mode).map_err(|err| said(&path, err))? {
                    return Ok((path, stamp(bytes)));
                }
            }
            temp.fill(bytes).map_err(|err| said(&path, err))?;
            temp.put(&name, RenameFlags::NOREPLACE).map_err(fail)?;
            let stamp = stamp_after(&temp.file, bytes).map_err(|err| said(&path, err))?;
            return Ok((path, stamp));
        };
        let (dir, name) = open_parent(&path, Parents::MustExist)?;
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let old = File::from(rustix::fs::openat(&dir, &name, flags, Mode::empty()).map_err(fail)?);
        let meta = old.metadata().map_err(|err| said(&path, err))?;
        if !meta.is_file() || stamp_of(&old).map_err(|err| said(&path, err))? != *wanted {
            return Err(changed(&path));
        }
        let replaced =
            if meta.nlink() == 1 { replace(&dir, &name, &old, &meta, bytes).map_err(|err| said(&path, err))? } else { None };
        let stamp = match replaced {
            Some(new) => stamp_after(&new, bytes),
            None => self.write_in_place(&dir, &name, &old, bytes).and_then(|()| stamp_after(&old, bytes)),
        };
        Ok((path.clone(), stamp.map_err(|err| said(&path, err))?))
    }

    /// The same for a file of the container.
    fn write_elsewhere(&self, n: usize, path: PathBuf, bytes: &[u8], expect: &Expect) -> Result<(PathBuf, String), FileError> {
        let change = match expect {
            Expect::Absent => Change::Create,
            Expect::Stamp(wanted) if stamp_of(&self.open(n)?.file).map_err(|err| said(&path, err))? != *wanted => {
                return Err(changed(&path));
            }
            Expect::Stamp(_) => Change::Replace,
        };
        self.change_elsewhere(&path, change, bytes).transpose()?;
        let stamp = stamp_of(&self.open(n)?.file).map_err(|err| said(&path, err))?;
        Ok((path, stamp))
    }

    fn wall(&self) -> Wall<'_> {
        Wall::of(self.permit.fence(), self.permit.bounds())
    }

    /// Changes what is in the container, beyond the roots. `None`: it is here.
    fn change_elsewhere(&self, path: &Path, change: Change, bytes: &[u8]) -> Option<Result<(), FileError>> {
        let docker = self.host.elsewhere(path, self.permit.fence())?;
        if self.permit.bounds() != Bounds::Unbounded {
            return Some(Err(FileError(format!("{}: the permit reaches the workspace only.", path.display()))));
        }
        Some(docker.change(path, change, bytes).map_err(|err| said(path, err)))
    }

    fn write_in_place(&self, dir: &OwnedFd, name: &Path, old: &File, bytes: &[u8]) -> io::Result<()> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let target = File::from(rustix::fs::openat(dir, name, OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())?);
        std::fs::create_dir_all(&self.host.keep)?;
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let kept = self.host.keep.join(format!("{}-{number}-{}", std::process::id(), name.display()));
        let mut kept = File::options().write(true).create_new(true).mode(0o600).open(kept)?;
        io::copy(&mut &*old, &mut kept)?;
        kept.sync_all()?;
        target.write_all_at(bytes, 0)?;
        target.set_len(bytes.len() as u64)
    }

    /// Makes the n-th path a folder, and its missing parents.
    ///
    /// # Errors
    /// Something is there, or the disk refuses.
    pub fn make_folder(&self, n: usize) -> Result<PathBuf, FileError> {
        self.granted(n);
        let (path, _) = self.path(n).map_err(FileError)?;
        if let Some(done) = self.change_elsewhere(&path, Change::Make, &[]) {
            return done.map(|()| path);
        }
        let (dir, name) = open_parent(&path, Parents::Make)?;
        rustix::fs::mkdirat(&dir, &name, Mode::from_raw_mode(0o777)).map_err(|err| said(&path, err))?;
        Ok(path)
    }

    /// Removes the n-th path: a file, a link, or an empty folder.
    ///
    /// # Errors
    /// It is missing or not empty, or the disk refuses.
    pub fn remove(&self, n: usize) -> Result<PathBuf, FileError> {
        let (path, _) = self.path(n).map_err(FileError)?;
        if self.host.reserves(&path) {
            return Err(said(&path, Errno::NOENT));
        }
        if let Some(done) = self.change_elsewhere(&path, Change::Remove, &[]) {
            return done.map(|()| path);
        }
        let (dir, name) = open_parent(&path, Parents::MustExist)?;
        let stat = rustix::fs::statat(&dir, &name, AtFlags::SYMLINK_NOFOLLOW).map_err(|err| said(&path, err))?;
        let folder = rustix::fs::FileType::from_raw_mode(stat.st_mode).is_dir();
        let flags = if folder { AtFlags::REMOVEDIR } else { AtFlags::empty() };
        rustix::fs::unlinkat(&dir, &name, flags).map_err(|err| said(&path, err))?;
        Ok(path)
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Parents {
    MustExist,
    Make,
}

/// The folder of a canonical path, and the name in it.
fn open_parent(path: &Path, parents: Parents) -> Result<(OwnedFd, PathBuf), FileError> {
    let (Some(dir), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(FileError(format!("{} is the root folder.", path.display())));
    };
    Ok((open_folder(dir, parents).map_err(|err| said(dir, err))?, name.into()))
}

fn open_folder(dir: &Path, parents: Parents) -> Result<OwnedFd, Errno> {
    match open_exactly(dir, OFlags::RDONLY | OFlags::DIRECTORY) {
        Err(Errno::NOENT) if parents == Parents::Make => {}
        other => return other,
    }
    let (Some(above), Some(name)) = (dir.parent(), dir.file_name()) else { return Err(Errno::NOENT) };
    let above = open_folder(above, parents)?;
    match rustix::fs::mkdirat(&above, name, Mode::from_raw_mode(0o777)) {
        Ok(()) | Err(Errno::EXIST) => {}
        Err(err) => return Err(err),
    }
    rustix::fs::openat(&above, name, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())
}

/// A new file beside its destination; removed unless it was put there.
struct Temp<'a> {
    dir: &'a OwnedFd,
    name: String,
    file: File,
    placed: std::cell::Cell<bool>,
}

impl<'a> Temp<'a> {
    fn create(dir: &'a OwnedFd, mode: Mode) -> Result<Self, Errno> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        loop {
            let name = format!(".sid-{}-{}.tmp", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed));
            let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            match rustix::fs::openat(dir, &name, flags, mode) {
                Ok(fd) => return Ok(Self { dir, name, file: File::from(fd), placed: std::cell::Cell::new(false) }),
                Err(Errno::EXIST) => {}
                Err(err) => return Err(err),
            }
        }
    }

    fn fill(&self, bytes: &[u8]) -> io::Result<()> {
        (&self.file).write_all(bytes)
    }

    fn put(&self, name: &Path, flags: RenameFlags) -> Result<(), Errno> {
        let done = match rustix::fs::renameat_with(self.dir, &self.name, self.dir, name, flags) {
            // Some file systems know no flags; a hard link refuses an existing name just as well.
            Err(Errno::INVAL) if flags == RenameFlags::NOREPLACE => {
                return rustix::fs::linkat(self.dir, &self.name, self.dir, name, AtFlags::empty());
            }
            other => other,
        };
        self.placed.set(done.is_ok());
        done
    }
}

impl Drop for Temp<'_> {
    fn drop(&mut self) {
        if !self.placed.get() {
            let _gone = rustix::fs::unlinkat(self.dir, &self.name, AtFlags::empty());
        }
    }
}

/// Puts a new file with the old one's mode, owner and attributes in its place, and returns it. `None`: not possible
/// here, write in place.
fn replace(dir: &OwnedFd, name: &Path, old: &File, meta: &std::fs::Metadata, bytes: &[u8]) -> io::Result<Option<File>> {
    let temp = match Temp::create(dir, Mode::from_raw_mode(0o600)) {
        Ok(it) => it,
        Err(Errno::ACCESS | Errno::PERM | Errno::ROFS | Errno::NAMETOOLONG) => return Ok(None),
        Err(err) => return Err(err.into()),
    };
    let made = temp.file.metadata()?;
    if (made.uid(), made.gid()) != (meta.uid(), meta.gid())
        && std::os::unix::fs::fchown(&temp.file, Some(meta.uid()), Some(meta.gid())).is_err()
    {
        return Ok(None);
    }
    if !copy_attributes(old, &temp.file) {
        return Ok(None);
    }
    temp.fill(bytes)?;
    rustix::fs::fchmod(&temp.file, Mode::from_raw_mode(meta.mode() & 0o7777))?;
    temp.put(name, RenameFlags::empty())?;
    temp.file.try_clone().map(Some)
}

/// Copies extended attributes; `false` when one would be lost.
fn copy_attributes(from: &File, to: &File) -> bool {
    let mut names = vec![0_u8; 1 << 14];
    let Ok(n) = rustix::fs::flistxattr(from, &mut names) else { return true };
    names[..n].split(|it| *it == 0).filter(|it| !it.is_empty()).all(|name| {
        let Ok(name) = std::ffi::CString::new(name) else { return false };
        let mut value = vec![0_u8; 1 << 16];
        let copied = rustix::fs::fgetxattr(from, &name, &mut value)
            .and_then(|n| rustix::fs::fsetxattr(to, &name, &value[..n], rustix::fs::XattrFlags::empty()));
        // The kernel sets labels of its own on a new file.
        copied.is_ok() || name.to_bytes().starts_with(b"security.")
    })
}
