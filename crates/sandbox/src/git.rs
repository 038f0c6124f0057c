//! Where a workspace's Git metadata is, and what of it a command may write.
use std::{
    fs,
    path::{Path, PathBuf},
};

/// Git metadata that a sandboxed command may write, and the parts of it that stay read-only.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Git {
    /// The top of the work tree.
    pub(crate) top: PathBuf,
    /// Where what all work trees share is.
    pub(crate) common: PathBuf,
    /// Folders bound onto themselves: writable, but not to be renamed away.
    pub(crate) writable: Vec<PathBuf>,
    /// Hooks, configuration and modules. They may be missing.
    pub(crate) read_only: Vec<PathBuf>,
}

impl Git {
    /// The metadata of the repository that `root` is in. A pointer that leads anywhere but to this very workspace's own
    /// metadata grants nothing; neither does a repository that holds the whole `home`.
    pub(crate) fn of(root: &Path, home: Option<&Path>) -> Self {
        let holds_home = |it: &Path| home.is_some_and(|home| home.starts_with(it));
        let mut tops = root.ancestors().take_while(|it| *it == root || !holds_home(it));
        let Some(top) = tops.find(|it| it.join(".git").symlink_metadata().is_ok()) else { return Self::default() };
        let dot = top.join(".git");
        let Ok(meta) = fs::symlink_metadata(&dot) else { return Self::default() };
        if meta.is_dir() {
            let (top, common, writable) = (top.to_owned(), dot.clone(), vec![dot.clone()]);
            return Self { top, common, writable, read_only: control_paths(&dot, None) };
        }
        if meta.is_file() { Self::by_pointer(top, &dot).unwrap_or_default() } else { Self::default() }
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
            let (top, common, writable) = (root.to_owned(), dir.clone(), vec![dir]);
            return (back == fs::canonicalize(root).ok()?).then_some(Self { top, common, writable, read_only });
        }
        let common = fs::canonicalize(dir.join(fs::read_to_string(dir.join("commondir")).ok()?.trim())).ok()?;
        let back = PathBuf::from(fs::read_to_string(dir.join("gitdir")).ok()?.trim());
        let ours = fs::canonicalize(back).ok()? == fs::canonicalize(dot).ok()?;
        let nested = dir.parent()? == common.join("worktrees");
        let read_only = [control_paths(&common, Some(&dir)), pointer].concat();
        let (top, writable) = (root.to_owned(), vec![common.clone()]);
        (ours && nested).then_some(Self { top, common, writable, read_only })
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
