//! Files of the container that are in no root. Small scripts inside it look at them and change them: a path of the container means
//! nothing on this side. Looking happens behind the wall that a command would have; changing needs a permit that reaches beyond it.
use std::{
    ffi::OsStr,
    fs::File,
    io::{self, Seek as _, Write as _},
    os::unix::ffi::{OsStrExt as _, OsStringExt as _},
    path::{Path, PathBuf},
    process::Stdio,
    sync::mpsc,
    time::Duration,
};

use sid_policy::{Bounds, Fence, Kind, Touch};

use super::Docker;

/// How long one look or change may take.
const ANSWER: Duration = Duration::from_secs(20);
/// Bytes of a file that is read from a container.
const LARGEST: u64 = 64 << 20;

/// A letter for what is there, and where it is, links followed as far as there is anything.
const LOOK: &str = r#"
p=$1 rest=
while ! [ -e "$p" ] && ! [ -L "$p" ] && [ "$p" != / ]; do rest=/${p##*/}$rest; p=${p%/*}; p=${p:-/}; done
c=$(readlink -f -- "$p" && echo x) || { echo 'it leads nowhere' >&2; exit 1; }
c=${c%?x}$rest f=$c${2:+/$2}
if [ -n "$2" ] && [ -L "$f" ]; then k=f; elif [ -d "$f" ]; then k=d; elif [ -f "$f" ]; then k=f; elif [ -e "$f" ]; then k=s; else k=m; fi
printf '%s%s' $k "$c""#;
const READ: &str = r#"
if [ -d "$1" ]; then echo 'it is a folder, not a file' >&2; exit 1; fi
if [ -e "$1" ] && ! [ -f "$1" ]; then echo 'it is not a regular file but a FIFO, socket or device' >&2; exit 1; fi
s=$(wc -c <"$1") || exit 1
if [ "$s" -gt "$2" ]; then echo "it has $s bytes; use a command to look at parts of it" >&2; exit 1; fi
exec cat -- "$1""#;
const LIST: &str = r#"
cd -- "$1" || exit 1
for f in .* *; do
  case $f in .|..) continue;; esac
  if [ -d "$f" ] && ! [ -L "$f" ]; then printf 'd%s\0' "$f"; elif [ -e "$f" ] || [ -L "$f" ]; then printf 'f%s\0' "$f"; fi
done"#;
/// Into the folder `$1`, which is where it was when it was judged.
const ENTER: &str = r#"cd -P -- "$1" || exit 1
[ "$(pwd -P)" = "$1" ] || { echo 'a part of the path changed into a link; nothing was done' >&2; exit 1; }
"#;
const CREATE: &str = r#"t=.sid-$$.tmp; set -C
if [ -e "./$2" ] || [ -L "./$2" ]; then echo 'it exists already' >&2; exit 1; fi
cat >"$t" && ln -- "$t" "./$2"; code=$?; rm -f -- "$t"; exit $code"#;
/// A new file of the same mode and owner takes the place of the old one; one with several links is written in place.
const REPLACE: &str = r#"t=.sid-$$.tmp
if [ -L "./$2" ] || ! [ -f "./$2" ]; then echo 'it is not a file any more; nothing was written' >&2; exit 1; fi
if [ "$(stat -c %h -- "./$2")" = 1 ] && cp -p -- "./$2" "$t" 2>/dev/null; then
  cat >"$t" && mv -f -- "$t" "./$2"; code=$?; rm -f -- "$t"; exit $code
fi
cat >"./$2""#;
const MAKE: &str = r#"mkdir -- "./$2""#;
const REMOVE: &str = r#"if [ -d "./$2" ] && ! [ -L "./$2" ]; then rmdir -- "./$2"; else rm -- "./$2"; fi"#;

/// What stands around a look: the wall of a read-only command, or nothing where commands have none either.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wall<'a>(Option<&'a Fence>);

impl<'a> Wall<'a> {
    pub(crate) fn of(fence: &'a Fence, bounds: Bounds) -> Self {
        Self(Some(fence).filter(|_| bounds != Bounds::Unbounded))
    }
}

/// What a script does to a name in a folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Change {
    /// A new file.
    Create,
    /// Another content.
    Replace,
    /// A new folder.
    Make,
    /// It goes.
    Remove,
}

impl Docker {
    /// Where a path of the container leads, and what is there.
    pub(crate) fn look(&self, wall: Wall<'_>, path: &Path, touch: Touch) -> io::Result<(PathBuf, Kind)> {
        let (path, name) = match (touch, path.parent(), path.file_name()) {
            (Touch::Remove, Some(parent), Some(name)) => (parent, name),
            _ => (path, OsStr::new("")),
        };
        let said = self.ask(wall, LOOK, &[path.as_os_str(), name], &[])?;
        let kind = match said.first() {
            Some(b'd') => Kind::Folder,
            Some(b'f') => Kind::File,
            Some(b's') => Kind::Special,
            _ => Kind::Missing,
        };
        let found = PathBuf::from(std::ffi::OsString::from_vec(said.get(1..).unwrap_or_default().to_vec()));
        Ok((if name.is_empty() { found } else { found.join(name) }, kind))
    }

    /// The content of a file, in one without a name.
    pub(crate) fn read(&self, wall: Wall<'_>, path: &Path, keep: &Path) -> io::Result<(File, u64)> {
        let most = LARGEST.to_string();
        let bytes = self.ask(wall, READ, &[path.as_os_str(), OsStr::new(&most)], &[])?;
        let mut file = nameless(keep)?;
        file.write_all(&bytes)?;
        file.rewind()?;
        Ok((file, bytes.len() as u64))
    }

    /// The entries of a folder: name, and whether each is a folder.
    pub(crate) fn list(&self, wall: Wall<'_>, path: &Path) -> io::Result<Vec<(String, bool)>> {
        let said = self.ask(wall, LIST, &[path.as_os_str()], &[])?;
        let entries = said.split(|it| *it == 0).filter_map(|it| it.split_first());
        Ok(entries.map(|(kind, name)| (String::from_utf8_lossy(name).into_owned(), *kind == b'd')).collect())
    }

    /// Changes what is at a path whose links were followed. Missing folders are made for what is new.
    pub(crate) fn change(&self, path: &Path, change: Change, bytes: &[u8]) -> io::Result<()> {
        let (Some(dir), Some(name)) = (path.parent(), path.file_name()) else {
            return Err(io::Error::other("it is the root folder"));
        };
        let (first, then) = match change {
            Change::Create => ("mkdir -p -- \"$1\" || exit 1\n", CREATE),
            Change::Replace => ("", REPLACE),
            Change::Make => ("mkdir -p -- \"$1\" || exit 1\n", MAKE),
            Change::Remove => ("", REMOVE),
        };
        let script = format!("{first}{ENTER}{then}");
        self.ask(Wall(None), &script, &[dir.as_os_str(), name], bytes).map(drop)
    }

    /// Runs a script in the container to its end.
    fn ask(&self, wall: Wall<'_>, script: &str, args: &[&OsStr], input: &[u8]) -> io::Result<Vec<u8>> {
        let mut it = self.client();
        it.args(["exec", "-i"]).arg(&self.id).args(["/bin/sh", "-c", "\"$@\"; exit $?", "sid"]);
        if let Wall(Some(fence)) = wall {
            it.arg(&self.bwrap).args(self.walls(fence, Bounds::ReadOnly)).arg("--");
        }
        it.args(["/bin/sh", "-c", script, "sid"]).args(args);
        it.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = it.spawn()?;
        let (pid, stdin) = (rustix::process::Pid::from_child(&child), child.stdin.take());
        let (send, receive) = mpsc::channel();
        std::thread::spawn(move || drop(send.send(child.wait_with_output())));
        let input = input.to_vec();
        // A script that ends early does not want the rest.
        std::thread::spawn(move || stdin.map(|mut it| it.write_all(&input)));
        let Ok(out) = receive.recv_timeout(ANSWER) else {
            let _gone = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
            return Err(io::Error::other("the container does not answer"));
        };
        let out = out?;
        if out.status.success() {
            return Ok(out.stdout);
        }
        let said = String::from_utf8_lossy(&out.stderr);
        let line = said.lines().rfind(|it| !it.trim().is_empty()).unwrap_or("it can't be done");
        // `cat: /x: No such file or directory`; the path is told already.
        let reason = line.rsplit_once(": ").map_or(line, |it| it.1).trim_end_matches('.');
        Err(match reason {
            "No such file or directory" | "No such file" | "nonexistent directory" => io::ErrorKind::NotFound.into(),
            "Permission denied" => io::ErrorKind::PermissionDenied.into(),
            "Directory not empty" => io::ErrorKind::DirectoryNotEmpty.into(),
            "File exists" => io::ErrorKind::AlreadyExists.into(),
            _ => io::Error::other(reason.to_owned()),
        })
    }

    /// Where a path of the container is on this side, if a mount leads there.
    pub(crate) fn outside(&self, path: &Path) -> Option<PathBuf> {
        let fits = |it: &&(PathBuf, PathBuf)| path.starts_with(&it.1);
        let (host, inside) = self.maps.iter().filter(fits).max_by_key(|it| it.1.components().count())?;
        Some(super::clean(&host.join(OsStr::from_bytes(path.strip_prefix(inside).ok()?.as_os_str().as_bytes()))))
    }
}

/// A file that is gone with its last descriptor.
fn nameless(keep: &Path) -> io::Result<File> {
    std::fs::create_dir_all(keep)?;
    let path = keep.join(format!("container-{}", std::process::id()));
    let file = File::options().read(true).write(true).create(true).truncate(true).open(&path)?;
    std::fs::remove_file(&path)?;
    Ok(file)
}
