//! Walks over a tree: what Git would ignore is left out, hidden files are in, `.git` is not.
use std::path::Path;

use ignore::{WalkBuilder, WalkParallel};
use sid_policy::Kind;
use sid_sandbox::Hider;

/// Whether Git's ignore files count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ignored {
    /// What they name is left out.
    LeftOut,
    /// It is walked too.
    Walked,
}

/// File systems that the kernel makes up: their files may never end, or block.
const MADE_UP: &[&str] = &["/proc", "/sys", "/dev"];

/// Why `root` is not walked, if it isn't.
pub(crate) fn refuse(root: &Path) -> Option<String> {
    let it = MADE_UP.iter().find(|it| root.starts_with(it))?;
    Some(format!("{} is in {it}, whose files are made up by the kernel; use a command to look there.", root.display()))
}

/// A parallel walk below `root`.
#[must_use]
pub fn walk(root: &Path, ignored: Ignored, hider: Hider) -> WalkParallel {
    builder(root, ignored, hider).build_parallel()
}

fn builder(root: &Path, ignored: Ignored, hider: Hider) -> WalkBuilder {
    let hider = hider.below(root);
    let mut it = WalkBuilder::new(root);
    let obey = ignored == Ignored::LeftOut;
    it.hidden(false).ignore(false).git_ignore(obey).git_exclude(obey).git_global(obey).parents(obey).follow_links(false);
    it.threads(std::thread::available_parallelism().map_or(2, usize::from).min(8));
    it.filter_entry(move |entry| {
        let kind = if entry.file_type().is_some_and(|it| it.is_dir()) { Kind::Folder } else { Kind::File };
        let made_up = entry.depth() == 1 && MADE_UP.iter().any(|it| entry.path() == Path::new(it));
        entry.depth() == 0 || (entry.file_name() != ".git" && !made_up && !hider.hides(entry.path(), kind))
    });
    it
}

/// What is below `root`, `depth` levels deep, relative to it, sorted, without hidden entries.
pub(crate) fn below(root: &Path, depth: usize, hider: Hider) -> Vec<std::path::PathBuf> {
    let mut it = builder(root, Ignored::Walked, hider);
    let walk = it.hidden(true).max_depth(Some(depth)).build().filter_map(Result::ok).filter(|it| it.depth() > 0);
    let mut out: Vec<_> = walk.filter_map(|it| it.path().strip_prefix(root).ok().map(Path::to_path_buf)).collect();
    out.sort_unstable();
    out
}

/// All files below `root` that a search would look at, relative to it, sorted; for oracles.
#[must_use]
pub fn files(root: &Path, hider: Hider) -> Vec<std::path::PathBuf> {
    let walk = builder(root, Ignored::LeftOut, hider).build().filter_map(Result::ok);
    let files = walk.filter(|it| it.file_type().is_some_and(|it| !it.is_dir()));
    let mut out: Vec<_> = files.filter_map(|it| it.path().strip_prefix(root).ok().map(Path::to_path_buf)).collect();
    out.sort_unstable();
    out
}
