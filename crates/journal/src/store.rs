use std::{
    fmt, fs, io,
    path::{Path, PathBuf},
    time::{SystemTime, UNIX_EPOCH},
};

use serde::{Deserialize, Serialize};
use sid_core::{Parent, Record};

use crate::{
    Journal, Loaded,
    journal::{EVENTS, read},
};

/// The folder that holds all sessions.
#[derive(Debug, Clone)]
pub struct Store {
    root: PathBuf,
}

/// What `session.json` says; derived from the journal, rewritten by each run.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Meta {
    /// The session's id.
    pub id: String,
    /// The first line of the first prompt.
    pub title: String,
    /// Where it last ran.
    pub cwd: String,
    /// The roots it last had besides.
    pub additional_directories: Vec<String>,
    /// The model it last used.
    pub model_id: String,
    /// When its first record was made, in the local time of then.
    pub created_at: String,
    /// The same in microseconds since 1970.
    pub created_unix_micros: u64,
    /// The process that last worked on it.
    pub pid: u32,
    /// The session that it goes on from, with a summary of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub compacted_from: Option<Parent>,
}

impl Meta {
    /// With the milliseconds since 1970 of its first record.
    #[must_use]
    pub fn created(self, at: u64) -> Self {
        let at = jiff::Timestamp::from_millisecond(i64::try_from(at).unwrap_or(0)).unwrap_or_default();
        let local = at.to_zoned(jiff::tz::TimeZone::system());
        let created_unix_micros = u64::try_from(at.as_microsecond()).unwrap_or(0);
        Self { created_at: spelled(&local), created_unix_micros, ..self }
    }
}

/// One row of a list.
#[derive(Debug, Clone, Serialize)]
pub struct Listed {
    /// Its description.
    #[serde(flatten)]
    pub meta: Meta,
    /// Milliseconds since 1970 of its last change.
    pub updated_at: u64,
    /// Bytes of its journal.
    pub bytes: u64,
    /// Its folder.
    pub dir: PathBuf,
}

/// Why a session can't be had. Each says what to do.
#[derive(Debug)]
pub enum Error {
    /// The words can't name a session.
    BadId(String),
    /// No such session.
    NotFound(String),
    /// A prefix that several sessions share.
    Ambiguous(String, Vec<String>),
    /// Another process works on it.
    Busy(PathBuf, String),
    /// A line in the middle is no record.
    Corrupt(PathBuf, u64),
    /// The disk said no.
    Io(PathBuf, io::Error),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BadId(id) => {
                let shown: String = id.chars().take(60).collect();
                write!(
                    f,
                    "'{}' can't be a session id: use letters, digits and ._+- (`sid sessions` lists them)",
                    shown.escape_debug()
                )
            }
            Self::NotFound(id) => write!(f, "saved session not found: {id} (`sid sessions` lists them)"),
            Self::Ambiguous(id, all) => write!(f, "several sessions begin with '{id}': {}", all.join(", ")),
            Self::Busy(dir, pid) => {
                write!(f, "session {} is in use by process {pid}; wait for it or stop it", dir.display())
            }
            Self::Corrupt(path, line) => write!(
                f,
                "{}:{line}: not a record of a session journal; the file was left as it is. Move that line elsewhere to use the rest",
                path.display()
            ),
            Self::Io(path, err) => write!(f, "{}: {err}", path.display()),
        }
    }
}

impl std::error::Error for Error {}

/// Whether `id` can name a session: 1 to 128 of `[A-Za-z0-9._+-]`, not beginning with a dot.
///
/// # Errors
/// [`Error::BadId`].
pub fn check_id(id: &str) -> Result<(), Error> {
    let good = id.chars().all(|it| it.is_ascii_alphanumeric() || "._+-".contains(it));
    if good && !id.is_empty() && id.len() <= 128 && !id.starts_with('.') { Ok(()) } else { Err(Error::BadId(id.to_owned())) }
}

/// A fresh id for a headless session (UUIDv7: sorted by time).
#[must_use]
pub fn new_id() -> String {
    uuid::Uuid::now_v7().to_string()
}

/// A fresh id for a session of a person's: the local time, and how far it is from UTC.
#[must_use]
pub fn new_local_id() -> String {
    jiff::Zoned::now().strftime("%Y-%m-%dT%H-%M-%S.%6f%z").to_string()
}

/// Now, as journals that people read spell it.
pub(crate) fn timestamp() -> String {
    spelled(&jiff::Zoned::now())
}

fn spelled(at: &jiff::Zoned) -> String {
    at.strftime("%Y-%m-%dT%H:%M:%S.%6f%:z").to_string()
}

impl Store {
    /// The store at `root`, which need not exist yet.
    #[must_use]
    pub fn new(root: PathBuf) -> Self {
        Self { root }
    }

    /// The folder.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Whether sessions can be kept here; makes the folder if it is missing.
    ///
    /// # Errors
    /// Why not.
    pub fn can_write(&self) -> Result<(), Error> {
        let at = |err| Error::Io(self.root.clone(), err);
        fs::create_dir_all(&self.root).map_err(at)?;
        let probe = self.root.join(format!(".probe-{}", std::process::id()));
        fs::write(&probe, b"").and_then(|()| fs::remove_file(&probe)).map_err(at)
    }

    /// Makes a session.
    ///
    /// # Errors
    /// The folder can't be made.
    pub fn create(&self, id: &str) -> Result<Journal, Error> {
        check_id(id)?;
        Journal::create(&self.root.join(id))
    }

    /// Takes over a session named by id, unique prefix or path.
    ///
    /// # Errors
    /// It isn't there, is in use, or is damaged in the middle.
    pub fn open(&self, spec: &str) -> Result<(Journal, Loaded), Error> {
        Journal::open(&self.find(spec)?)
    }

    /// Reads a session without taking it over.
    ///
    /// # Errors
    /// As [`Store::open`], but a session in use can be read.
    pub fn read(&self, spec: &str) -> Result<Loaded, Error> {
        read(&self.find(spec)?)
    }

    /// The folder of a session named by id, unique prefix or path.
    ///
    /// # Errors
    /// None or several.
    pub fn find(&self, spec: &str) -> Result<PathBuf, Error> {
        if spec.contains('/') {
            let path = Path::new(spec);
            let dir = if path.ends_with("session.json") { path.parent().unwrap_or(path) } else { path };
            return if dir.join(EVENTS).is_file() {
                Ok(dir.to_owned())
            } else {
                Err(Error::NotFound(spec.escape_debug().to_string()))
            };
        }
        check_id(spec)?;
        let exact = self.root.join(spec);
        if exact.join(EVENTS).is_file() {
            return Ok(exact);
        }
        let mut found: Vec<String> = self.names()?.into_iter().filter(|it| it.starts_with(spec)).collect();
        match found.len() {
            0 => Err(Error::NotFound(spec.to_owned())),
            1 => Ok(self.root.join(&found[0])),
            _ => {
                found.truncate(5);
                Err(Error::Ambiguous(spec.to_owned(), found))
            }
        }
    }

    fn names(&self) -> Result<Vec<String>, Error> {
        let entries = match fs::read_dir(&self.root) {
            Ok(it) => it,
            Err(err) if err.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(err) => return Err(Error::Io(self.root.clone(), err)),
        };
        let names = entries.filter_map(Result::ok).filter_map(|it| it.file_name().into_string().ok());
        let mut names: Vec<String> = names.filter(|it| check_id(it).is_ok() && self.root.join(it).join(EVENTS).is_file()).collect();
        names.sort_unstable();
        Ok(names)
    }

    /// All sessions, latest change first. Reads one small file each, never whole journals.
    ///
    /// # Errors
    /// The store can't be read.
    pub fn list(&self) -> Result<Vec<Listed>, Error> {
        let mut rows: Vec<Listed> = self.names()?.into_iter().filter_map(|id| self.row(&id).ok()).collect();
        rows.sort_by(|a, b| b.updated_at.cmp(&a.updated_at).then_with(|| b.meta.id.cmp(&a.meta.id)));
        Ok(rows)
    }

    fn row(&self, id: &str) -> io::Result<Listed> {
        let dir = self.root.join(id);
        let events = fs::metadata(dir.join(EVENTS))?;
        let described = fs::read(dir.join("session.json")).ok().and_then(|it| serde_json::from_slice(&it).ok());
        let meta = described.unwrap_or_else(|| derive(&dir));
        let updated_at = events.modified().map_or(0, millis);
        Ok(Listed { meta: Meta { id: id.to_owned(), ..meta }, updated_at, bytes: events.len(), dir })
    }

    /// Removes a session.
    ///
    /// # Errors
    /// It isn't there or is in use.
    pub fn delete(&self, spec: &str) -> Result<PathBuf, Error> {
        let dir = self.find(spec)?;
        let (held, _) = match Journal::open(&dir) {
            Err(Error::Corrupt(..)) => return remove(dir),
            other => other?,
        };
        let gone = remove(dir);
        drop(held);
        gone
    }
}

fn remove(dir: PathBuf) -> Result<PathBuf, Error> {
    fs::remove_dir_all(&dir).map_err(|err| Error::Io(dir.clone(), err))?;
    Ok(dir)
}

/// What `session.json` would say, from the first records of a journal.
fn derive(dir: &Path) -> Meta {
    let mut meta = Meta::default();
    let Ok(file) = fs::File::open(dir.join(EVENTS)) else { return meta };
    for line in io::BufRead::lines(io::BufReader::new(file)).take(2).map_while(Result::ok) {
        match serde_json::from_str(&line) {
            Ok(Record::Opened(it)) => {
                meta = meta.created(it.at);
                meta.cwd = it.cwd;
                meta.additional_directories = it.roots;
                meta.model_id = it.model;
            }
            Ok(Record::User(it)) => meta.title = sid_core::one_line(&it.text, 80),
            _ => {}
        }
    }
    meta
}

fn millis(at: SystemTime) -> u64 {
    at.duration_since(UNIX_EPOCH).map_or(0, |it| u64::try_from(it.as_millis()).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests;
