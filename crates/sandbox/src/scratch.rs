//! A folder of a call's own: what it is asked goes in, what it answers comes out, and nothing of it stays.
use std::{
    fs::{self, OpenOptions},
    io::{self, Read as _, Write as _},
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
};

use rustix::{fs::OFlags, io::Errno};

use crate::Confined;

/// The variable that names the folder to the command.
pub const SCRATCH: &str = "SID_SCRATCH_DIR";

/// The folder; removed when it is dropped.
#[derive(Debug)]
pub struct Scratch {
    dir: PathBuf,
    number: u32,
    kept: bool,
}

impl Scratch {
    /// Where it is, for the command too.
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The number of the call.
    #[must_use]
    pub fn number(&self) -> u32 {
        self.number
    }

    /// Puts a file in.
    ///
    /// # Errors
    /// It can't be written.
    pub fn write(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        OpenOptions::new().write(true).create_new(true).mode(0o600).open(self.dir.join(name))?.write_all(bytes)
    }

    /// Makes a folder in it.
    ///
    /// # Errors
    /// It can't be made.
    pub fn folder(&self, name: &str) -> io::Result<()> {
        fs::DirBuilder::new().mode(0o700).create(self.dir.join(name))
    }

    /// Takes a file out, if it is a file and no larger than `max` bytes.
    ///
    /// # Errors
    /// It isn't there, is something else, or is too large.
    pub fn read(&self, name: &str, max: u64) -> io::Result<Vec<u8>> {
        // The command may still run, and put a link or a FIFO there.
        let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
        let flags = i32::try_from(flags.bits()).unwrap_or(0);
        let file = OpenOptions::new().read(true).custom_flags(flags).open(self.dir.join(name));
        let file = file.map_err(|err| if err.raw_os_error() == Some(Errno::LOOP.raw_os_error()) { no_file() } else { err })?;
        if !file.metadata()?.is_file() {
            return Err(no_file());
        }
        let mut out = Vec::new();
        file.take(max + 1).read_to_end(&mut out)?;
        if out.len() as u64 > max {
            return Err(io::Error::other(format!("it has more than {max} bytes")));
        }
        Ok(out)
    }

    /// Leaves it where it is.
    pub fn keep(&mut self) {
        self.kept = true;
    }
}

fn no_file() -> io::Error {
    io::Error::other("it is no file")
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if !self.kept {
            let _gone = fs::remove_dir_all(&self.dir);
        }
    }
}

impl Confined<'_> {
    /// Makes a folder for this call, numbered within the session, with a folder `tmp` in it.
    ///
    /// # Errors
    /// It can't be made.
    pub fn scratch(&self) -> Result<Scratch, String> {
        if self.host.docker.is_some() {
            return Err("Programs of your own do not run in a container.".to_owned());
        }
        let above = self.host.keep.parent().unwrap_or(&self.host.keep).join("tmp");
        let made = || {
            fs::DirBuilder::new().recursive(true).mode(0o700).create(&above)?;
            for _ in 0..1000 {
                let number = self.host.next_tool();
                let dir = above.join(format!("tool-{number:06}"));
                match fs::DirBuilder::new().mode(0o700).create(&dir) {
                    Err(err) if err.kind() == io::ErrorKind::AlreadyExists => {}
                    Err(err) => return Err(err),
                    Ok(()) => {
                        fs::DirBuilder::new().mode(0o700).create(dir.join("tmp"))?;
                        return Ok(Scratch { dir, number, kept: false });
                    }
                }
            }
            Err(io::ErrorKind::AlreadyExists.into())
        };
        made().map_err(|err| format!("A folder for this call can't be made in {}: {err}.", above.display()))
    }
}
