//! What a workspace brings: its roots, and which of its files are hidden or protected; and where sid keeps its own things.
mod instructions;
mod network;
mod places;
mod policy;
pub mod setup;
mod trust;

use std::{
    fs, io,
    path::{Path, PathBuf},
};

pub use instructions::{Instructions, instructions, listed};
pub use network::{NETWORK, network};
pub use places::Places;
pub use policy::{POLICY, Policy, Standing};
use sid_policy::{Fence, Hidden};
pub use trust::{Trust, Trusted};

/// Names in a root that only a person changes: configuration of agents, and of what is hidden from them.
const PROTECTED: &[&str] = &[
    ".agents",
    ".aiignore",
    ".claude",
    ".codex",
    ".sid",
    ".sid-network",
    ".sidignore",
    ".sigit",
    "AGENTS_SECURITY.md",
    "happy.toml",
    "rig.toml",
    "sid.toml",
];

/// Folders that the sandbox is made of.
const SYSTEM: &[&str] = &["/", "/dev", "/proc", "/sys", "/run"];

/// Ignore files of a root, all of which count.
const IGNORE_FILES: &[&str] = &[".sidignore", ".aiignore"];

/// The walls around `cwd` and the added roots, all of which must be folders.
///
/// # Errors
/// A root that is no folder, or an ignore file that can't be read or understood: nothing may run then.
pub fn fence(cwd: &Path, added: &[PathBuf], secret: Vec<PathBuf>) -> Result<Fence, String> {
    let mut roots: Vec<PathBuf> = Vec::new();
    for path in std::iter::once(&cwd.to_owned()).chain(added) {
        let root = root(path)?;
        if !roots.contains(&root) {
            roots.push(root);
        }
    }
    let mut hidden = Hidden::default();
    for root in &roots {
        hidden = with_ignore_files(hidden, root)?;
    }
    let protected = PROTECTED.iter().map(|it| (*it).to_owned()).collect();
    Ok(Fence { roots, protected, secret, hidden, ..Fence::default() })
}

/// The folder that a root really is.
///
/// # Errors
/// It is no folder, or one that can't be a workspace.
pub fn root(path: &Path) -> Result<PathBuf, String> {
    let root = fs::canonicalize(path).map_err(|err| format!("{}: {}", path.display(), plain(&err)))?;
    if !root.is_dir() {
        return Err(format!("{} is not a directory", path.display()));
    }
    match SYSTEM.iter().find(|it| root == Path::new(it)) {
        Some(it) => Err(format!("{it} can't be a workspace: making it writable would undo the sandbox; work in a folder below it")),
        None => Ok(root),
    }
}

fn with_ignore_files(mut hidden: Hidden, root: &Path) -> Result<Hidden, String> {
    let mut lines = String::new();
    for name in IGNORE_FILES {
        let path = root.join(name);
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(err) if err.kind() == io::ErrorKind::NotFound => continue,
            Err(err) => {
                return Err(format!("{}: {}; nothing runs while it is unknown what is hidden", path.display(), plain(&err)));
            }
        };
        let (_, wrong) = Hidden::default().with_root(root, &text);
        if let Some((line, why)) = wrong.first() {
            return Err(format!("{}:{line}: {why}; nothing runs while it is unknown what is hidden", path.display()));
        }
        lines.push_str(&text);
        lines.push('\n');
    }
    if !lines.is_empty() {
        hidden = hidden.with_root(root, &lines).0;
    }
    Ok(hidden)
}

fn plain(err: &io::Error) -> String {
    match err.kind() {
        io::ErrorKind::NotFound => "no such directory".to_owned(),
        io::ErrorKind::PermissionDenied => "permission denied".to_owned(),
        _ => err.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn roots_are_real_and_listed_once() {
        let dir = tempfile::tempdir().unwrap();
        let root = fs::canonicalize(dir.path()).unwrap();
        fs::create_dir(root.join("more")).unwrap();
        std::os::unix::fs::symlink("more", root.join("alias")).unwrap();
        let it = fence(&root, &[root.join("more"), root.join("alias"), root.clone()], Vec::new()).unwrap();
        assert_eq!(it.roots, [root.clone(), root.join("more")]);
        assert!(fence(Path::new("/"), &[], Vec::new()).unwrap_err().contains("can't be a workspace"));
        assert!(fence(&root.join("gone"), &[], Vec::new()).unwrap_err().contains("no such directory"));
    }

    #[test]
    fn ignore_files_hide_and_fail_closed() {
        let dir = tempfile::tempdir().unwrap();
        let root = fs::canonicalize(dir.path()).unwrap();
        fs::write(root.join(".sidignore"), "*.pem\n").unwrap();
        fs::write(root.join(".aiignore"), "private/\n!keep.pem\n").unwrap();
        let hidden = fence(&root, &[], Vec::new()).unwrap().hidden;
        for (path, folder, want) in
            [("a.pem", false, true), ("keep.pem", false, false), ("private/x", false, true), ("b", false, false)]
        {
            assert_eq!(
                hidden.hides(&root.join(path), if folder { sid_policy::Kind::Folder } else { sid_policy::Kind::File }),
                want,
                "{path}"
            );
        }
        fs::write(root.join(".sidignore"), "ok\n[z-a]x\n").unwrap();
        let said = fence(&root, &[], Vec::new()).unwrap_err();
        assert!(said.contains(".sidignore:2:"), "{said}");
        fs::remove_file(root.join(".sidignore")).unwrap();
        fs::create_dir(root.join(".sidignore")).unwrap();
        assert!(fence(&root, &[], Vec::new()).is_err());
    }
}
