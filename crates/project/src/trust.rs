//! What of workspaces the user trusts, by content (DESIGN §3.5): a changed file is a new question.
use std::{
    fs, io,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};

/// A file of a workspace that the user trusts as it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Trusted {
    /// The workspace.
    pub root: PathBuf,
    /// The file, below it.
    pub file: String,
    /// The SHA-256 of its content, in hexadecimal.
    pub digest: String,
    /// When, in milliseconds since 1970.
    pub at: u64,
}

/// The list of what is trusted, in a file of sid's own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trust {
    path: PathBuf,
    all: Vec<Trusted>,
}

impl Trust {
    /// Reads the list. One that can't be read trusts nothing, and says so.
    ///
    /// # Errors
    /// Why it can't be read.
    pub fn load(path: PathBuf) -> Result<Self, String> {
        let all = match fs::read(&path) {
            Ok(bytes) => serde_json::from_slice(&bytes).map_err(|err| format!("{}: {err}", path.display()))?,
            Err(err) if err.kind() == io::ErrorKind::NotFound => Vec::new(),
            Err(err) => return Err(format!("{}: {err}", path.display())),
        };
        Ok(Self { path, all })
    }

    /// Whether this file of this workspace is trusted with this content.
    #[must_use]
    pub fn holds(&self, root: &Path, file: &str, digest: &str) -> bool {
        self.all.iter().any(|it| it.root == root && it.file == file && it.digest == digest)
    }

    /// What is trusted, oldest first.
    #[must_use]
    pub fn all(&self) -> &[Trusted] {
        &self.all
    }

    /// Trusts it from now on; an earlier content of the same file no longer is.
    ///
    /// # Errors
    /// The list can't be written.
    pub fn add(&mut self, it: Trusted) -> io::Result<()> {
        self.all.retain(|old| old.root != it.root || old.file != it.file);
        self.all.push(it);
        self.save()
    }

    /// Trusts nothing of this workspace any more. Returns how much that was.
    ///
    /// # Errors
    /// The list can't be written.
    pub fn revoke(&mut self, root: &Path) -> io::Result<usize> {
        let before = self.all.len();
        self.all.retain(|it| it.root != root);
        let gone = before - self.all.len();
        if gone > 0 {
            self.save()?;
        }
        Ok(gone)
    }

    #[expect(clippy::disallowed_methods, reason = "the list is sid's own and in no workspace")]
    fn save(&self) -> io::Result<()> {
        use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
        if let Some(dir) = self.path.parent() {
            fs::DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
        }
        let fresh = self.path.with_extension(format!("{}.new", std::process::id()));
        let mut file = fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&fresh)?;
        io::Write::write_all(&mut file, &serde_json::to_vec_pretty(&self.all)?)?;
        file.sync_all()?;
        fs::rename(&fresh, &self.path)
    }
}

/// SHA-256 in hexadecimal.
pub(crate) fn digest(bytes: &[u8]) -> String {
    let digest = ring::digest::digest(&ring::digest::SHA256, bytes);
    digest.as_ref().iter().map(|it| format!("{it:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trust_is_for_a_content_and_can_be_taken_back() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("state/trust.json");
        let mut it = Trust::load(path.clone()).unwrap();
        let trusted = |digest: &str| Trusted { root: "/w".into(), file: "sid.toml".into(), digest: digest.into(), at: 1 };
        it.add(trusted("one")).unwrap();
        it.add(trusted("two")).unwrap();
        let it = Trust::load(path.clone()).unwrap();
        assert!(it.holds(Path::new("/w"), "sid.toml", "two") && it.all().len() == 1);
        assert!(!it.holds(Path::new("/w"), "sid.toml", "one") && !it.holds(Path::new("/v"), "sid.toml", "two"));
        assert_eq!(std::os::unix::fs::PermissionsExt::mode(&fs::metadata(&path).unwrap().permissions()) & 0o777, 0o600);
        let mut it = it;
        assert_eq!((it.revoke(Path::new("/v")).unwrap(), it.revoke(Path::new("/w")).unwrap()), (0, 1));
        assert!(Trust::load(path.clone()).unwrap().all().is_empty());
        fs::write(&path, "{").unwrap();
        assert!(Trust::load(path).is_err());
        assert_eq!(digest(b"abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    }
}
