use std::path::{Path, PathBuf};

use ignore::gitignore::{Gitignore, GitignoreBuilder};

use crate::Kind;

/// Which files of the roots are hidden from the model: the compiled `.sidignore` and `.aiignore` of each root.
#[derive(Debug, Clone, Default)]
pub struct Hidden {
    sets: Vec<(PathBuf, Gitignore)>,
}

impl Hidden {
    /// Compiles one root's ignore lines. The second value is what is wrong with them, by line (1-based).
    #[must_use]
    pub fn with_root(mut self, root: &Path, lines: &str) -> (Self, Vec<(usize, String)>) {
        let mut builder = GitignoreBuilder::new(root);
        let mut wrong = Vec::new();
        for (n, line) in lines.lines().enumerate() {
            if let Err(err) = builder.add_line(None, line) {
                wrong.push((n + 1, err.to_string()));
            }
        }
        match builder.build() {
            Ok(set) => self.sets.push((root.to_owned(), set)),
            Err(err) => wrong.push((0, err.to_string())),
        }
        (self, wrong)
    }

    /// Whether nothing is hidden at all.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.sets.iter().all(|(_, set)| set.is_empty())
    }

    /// Whether `path` (absolute), or a folder it is in, is hidden.
    #[must_use]
    pub fn hides(&self, path: &Path, kind: Kind) -> bool {
        self.sets.iter().any(|(root, set)| {
            path != root && path.starts_with(root) && set.matched_path_or_any_parents(path, kind == Kind::Folder).is_ignore()
        })
    }

    /// The roots that hide something.
    pub fn roots(&self) -> impl Iterator<Item = &Path> {
        self.sets.iter().filter(|(_, set)| !set.is_empty()).map(|(root, _)| root.as_path())
    }
}
