//! Where a workspace's Git metadata is, and what of it a command may write.
use std::{
    fs,
    path::{Path, PathBuf},
};

/// Git metadata that a sandboxed command may write, and the parts of it that stay read-only.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Git {
    /// Folders bound onto themselves: writable, but not to be renamed away.
    pub(crate) writable: Vec<PathBuf>,
    /// Hooks, configuration and modules. They may be missing.
    pub(crate) read_only: Vec<PathBuf>,
}

impl Git {
    /// The metadata of the repository whose top is `root`. A pointer that leads anywhere but to this very workspace's own
    /// metadata grants nothing.
    pub(crate) fn of(root: &Path) -> Self {
        let dot = root.join(".git");
        let Ok(meta) = fs::symlink_metadata(&dot) else { return Self::default() };
        if meta.is_dir() {
            return Self { writable: vec![dot.clone()], read_only: control_paths(&dot, None) };
        }
        if meta.is_file() { Self::by_pointer(root, &dot).unwrap_or_default() } else { Self::default() }
    }

    /// `.git` is a file: a linked worktree or a submodule.
    fn by_pointer(root: &Path, dot: &Path) -> Option<Self> {
        let text = fs::read_to_string(dot).ok()?;
        let target = root.join(text.lines().next()?.strip_prefix("gitdir:")?.trim());
        let dir = fs::canonicalize(target).ok()?;
        let parts: Vec<_> = dir.components().map(|it| it.as_os_str().to_string_lossy().into_owned()).collect();
        let at = parts.iter().rposition(|it| it == "worktrees" || it == "modules")?;
        let pointer = vec![dot.to_owned()];
        if parts[at] == "modules" {
            let back = fs::canonicalize(dir.join(worktree_of(&dir.join("config"))?)).ok()?;
            let read_only = [control_paths(&dir, None), pointer].concat();
            return (back == fs::canonicalize(root).ok()?).then(|| Self { writable: vec![dir.clone()], read_only });
        }
        let common = fs::canonicalize(dir.join(fs::read_to_string(dir.join("commondir")).ok()?.trim())).ok()?;
        let back = PathBuf::from(fs::read_to_string(dir.join("gitdir")).ok()?.trim());
        let ours = fs::canonicalize(back).ok()? == fs::canonicalize(dot).ok()?;
        let nested = dir.parent()? == common.join("worktrees");
        let read_only = [control_paths(&common, Some(&dir)), pointer].concat();
        (ours && nested).then(|| Self { writable: vec![common.clone()], read_only })
    }
}

fn control_paths(dir: &Path, worktree: Option<&Path>) -> Vec<PathBuf> {
    let mut out = vec![dir.join("hooks"), dir.join("config")];
    out.extend(Some(dir.join("modules")).filter(|it| it.exists()));
    // Only with this extension does Git read configuration of a worktree; then it must not be made either.
    let read = fs::read_to_string(dir.join("config")).is_ok_and(|it| it.to_ascii_lowercase().contains("worktreeconfig"));
    let places = [Some(dir), worktree].into_iter().flatten().map(|it| it.join("config.worktree"));
    out.extend(places.filter(|it| read || it.exists()));
    out
}

/// `core.worktree` of a submodule's configuration.
fn worktree_of(config: &Path) -> Option<String> {
    let text = fs::read_to_string(config).ok()?;
    let line = text.lines().find_map(|it| it.trim().strip_prefix("worktree"))?;
    Some(line.trim_start().strip_prefix('=')?.trim().to_owned())
}
