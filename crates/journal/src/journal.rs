use std::{
    fs::{DirBuilder, File, OpenOptions},
    io::{self, BufRead as _, BufReader, Read as _, Seek as _, SeekFrom, Write as _},
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
};

use sid_core::Record;

use crate::{Error, Meta};

/// The append-only journal of one session, held by one process.
#[derive(Debug)]
pub struct Journal {
    dir: PathBuf,
    file: File,
    length: u64,
    dirty: bool,
    _lock: File,
}

/// What was found in a journal.
#[derive(Debug, Default)]
pub struct Loaded {
    /// All complete records, in order.
    pub records: Vec<Record>,
    /// What a person should know about damage.
    pub notices: Vec<String>,
}

pub(crate) const EVENTS: &str = "events.jsonl";
const TORN: &str = "events.torn";

impl Journal {
    /// Makes a new session folder, readable by its owner only.
    pub(crate) fn create(dir: &Path) -> Result<Self, Error> {
        let at = |err| Error::Io(dir.to_owned(), err);
        if let Some(parent) = dir.parent() {
            DirBuilder::new().recursive(true).mode(0o700).create(parent).map_err(at)?;
        }
        DirBuilder::new().mode(0o700).create(dir).map_err(at)?;
        let lock = lock(dir)?;
        let file = options().create_new(true).open(dir.join(EVENTS)).map_err(at)?;
        Ok(Self { dir: dir.to_owned(), file, length: 0, dirty: false, _lock: lock })
    }

    /// Takes over an existing session: locks it, reads it, and cuts off a torn last line (kept beside it).
    pub(crate) fn open(dir: &Path) -> Result<(Self, Loaded), Error> {
        let lock = lock(dir)?;
        let path = dir.join(EVENTS);
        let at = |err| Error::Io(path.clone(), err);
        let mut file = options().open(&path).map_err(at)?;
        let scan = Scan::of(&mut file, &path)?;
        let mut loaded = Loaded { records: scan.records, notices: Vec::new() };
        if !scan.torn.is_empty() {
            options().create(true).open(dir.join(TORN)).and_then(|mut it| it.write_all(&scan.torn)).map_err(at)?;
            loaded.notices.push(format!(
                "{}: {} bytes of unfinished records were set aside in {TORN}; everything complete was kept",
                path.display(),
                scan.torn.len()
            ));
        }
        if scan.rewrite {
            rewrite(dir, &loaded.records).map_err(at)?;
            file = options().open(&path).map_err(at)?;
        } else {
            file.set_len(scan.good).map_err(at)?;
            if scan.unended {
                file.write_all(b"\n").map_err(at)?;
            }
        }
        let length = file.metadata().map_err(at)?.len();
        Ok((Self { dir: dir.to_owned(), file, length, dirty: false, _lock: lock }, loaded))
    }

    /// Appends one record in one write. A failed write leaves no half record behind.
    ///
    /// # Errors
    /// The disk is full or gone. The record was not kept, and the journal is as before.
    pub fn append(&mut self, record: &Record) -> io::Result<()> {
        let mut line = serde_json::to_vec(record).map_err(io::Error::other)?;
        line.push(b'\n');
        if let Err(err) = self.file.write_all(&line) {
            self.file.set_len(self.length)?;
            return Err(err);
        }
        self.length += line.len() as u64;
        self.dirty = true;
        Ok(())
    }

    /// Puts what was appended on the disk itself (`fdatasync`).
    ///
    /// # Errors
    /// The disk failed.
    pub fn sync(&mut self) -> io::Result<()> {
        if std::mem::take(&mut self.dirty) { self.file.sync_data() } else { Ok(()) }
    }

    /// Rewrites the session's `session.json`, from which lists are made.
    ///
    /// # Errors
    /// The file can't be written.
    pub fn describe(&self, meta: &Meta) -> io::Result<()> {
        let mut text = serde_json::to_vec_pretty(meta).map_err(io::Error::other)?;
        text.push(b'\n');
        replace(&self.dir.join("session.json"), &text)
    }

    /// Writes the session's `transcript.json`.
    ///
    /// # Errors
    /// The file can't be written.
    pub fn keep_transcript(&self, it: &serde_json::Value) -> io::Result<()> {
        let mut text = serde_json::to_vec_pretty(it).map_err(io::Error::other)?;
        text.push(b'\n');
        replace(&self.dir.join("transcript.json"), &text)
    }

    /// Everything that was appended so far, read back.
    ///
    /// # Errors
    /// The journal can't be read.
    pub fn records(&self) -> Result<Vec<Record>, Error> {
        read(&self.dir).map(|it| it.records)
    }

    /// Removes the session if nothing was ever recorded in it.
    pub fn forget_unwritten(&self) {
        if self.length == 0 {
            let _left = std::fs::remove_dir_all(&self.dir);
        }
    }

    /// The session's folder.
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.dir
    }
}

pub(crate) fn options() -> OpenOptions {
    let mut it = OpenOptions::new();
    it.read(true).append(true).mode(0o600);
    it
}

/// Takes the session's advisory lock and leaves our pid in it.
fn lock(dir: &Path) -> Result<File, Error> {
    let path = dir.join("lock");
    let at = |err| Error::Io(path.clone(), err);
    let mut file = OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(&path).map_err(at)?;
    let begun = std::time::Instant::now();
    loop {
        match file.try_lock() {
            Ok(()) => break,
            Err(std::fs::TryLockError::WouldBlock) => {
                let mut pid = String::new();
                let _unreadable = file.seek(SeekFrom::Start(0)).and_then(|_| file.read_to_string(&mut pid));
                // One that was killed may leave a child that has not become another program yet, and holds what it held.
                if lives(pid.trim()) || begun.elapsed() > LEFT {
                    return Err(Error::Busy(dir.to_owned(), pid.trim().to_owned()));
                }
                std::thread::sleep(std::time::Duration::from_millis(5));
            }
            Err(std::fs::TryLockError::Error(err)) => return Err(at(err)),
        }
    }
    file.set_len(0).and_then(|()| writeln!(file, "{}", std::process::id())).map_err(at)?;
    Ok(file)
}

/// How long what a dead process held may still be held.
const LEFT: std::time::Duration = std::time::Duration::from_secs(2);

/// Whether a process runs; one that nobody has waited for yet does not.
fn lives(pid: &str) -> bool {
    let Some(pid) = pid.parse().ok().and_then(rustix::process::Pid::from_raw) else { return true };
    let there = rustix::process::test_kill_process(pid) != Err(rustix::io::Errno::SRCH);
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero())).unwrap_or_default();
    there && !stat.rsplit_once(')').is_some_and(|(_, rest)| rest.trim_start().starts_with('Z'))
}

pub(crate) fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let temp = path.with_extension(format!("tmp{}", std::process::id()));
    let done = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&temp);
    let done = done.and_then(|mut it| it.write_all(bytes)).and_then(|()| std::fs::rename(&temp, path));
    if done.is_err() {
        let _already_gone = std::fs::remove_file(&temp);
    }
    done
}

fn rewrite(dir: &Path, records: &[Record]) -> io::Result<()> {
    let mut bytes = Vec::new();
    for record in records {
        serde_json::to_writer(&mut bytes, record)?;
        bytes.push(b'\n');
    }
    replace(&dir.join(EVENTS), &bytes)
}

/// Reads a journal without touching it; for readers beside a writer.
pub(crate) fn read(dir: &Path) -> Result<Loaded, Error> {
    let path = dir.join(EVENTS);
    let mut file = File::open(&path).map_err(|err| Error::Io(path.clone(), err))?;
    Ok(Loaded { records: Scan::of(&mut file, &path)?.records, notices: Vec::new() })
}

struct Scan {
    records: Vec<Record>,
    /// Length of the complete part.
    good: u64,
    /// Bytes that are no record: a torn tail, or a torn line that a later append was glued to.
    torn: Vec<u8>,
    /// The last record lacks its newline.
    unended: bool,
    /// Damage lies before the end.
    rewrite: bool,
}

impl Scan {
    fn of(file: &mut File, path: &Path) -> Result<Self, Error> {
        let at = |err| Error::Io(path.to_owned(), err);
        file.seek(SeekFrom::Start(0)).map_err(at)?;
        let mut it = Self { records: Vec::new(), good: 0, torn: Vec::new(), unended: false, rewrite: false };
        let mut reader = BufReader::with_capacity(1 << 16, file);
        let (mut line, mut number) = (Vec::new(), 0_u64);
        loop {
            line.clear();
            if reader.read_until(b'\n', &mut line).map_err(at)? == 0 {
                return Ok(it);
            }
            number += 1;
            let ended = line.last() == Some(&b'\n');
            match serde_json::from_slice::<Record>(&line) {
                Ok(record) => {
                    if number == 1 && !matches!(record, Record::Opened(_)) {
                        return Err(Error::Corrupt(path.to_owned(), 1));
                    }
                    it.rewrite |= !it.torn.is_empty();
                    it.records.push(record);
                    it.good += line.len() as u64;
                    it.unended = !ended;
                }
                Err(_) if !ended => it.torn.extend_from_slice(&line),
                Err(_) => {
                    let (at, record) = glued(&line).ok_or_else(|| Error::Corrupt(path.to_owned(), number))?;
                    it.torn.extend_from_slice(&line[..at]);
                    it.rewrite = true;
                    it.records.push(record);
                }
            }
        }
    }
}

/// A record at the end of a line that begins with half of another: the writer died, and an older sid appended to the rest.
fn glued(line: &[u8]) -> Option<(usize, Record)> {
    let text = std::str::from_utf8(line).ok()?;
    text.match_indices("{\"").skip(1).find_map(|(at, _)| Some((at, serde_json::from_str::<Record>(&text[at..]).ok()?)))
}
