//! AGENTS.md files: what people write down for agents, in a workspace and for all of them.
use std::{
    fs,
    path::{Path, PathBuf},
};

use sid_policy::{Fence, Kind};

/// Bytes of all files together.
const MOST: usize = 32 << 10;
/// Per folder the first that is there.
const NAMES: &[&str] = &["AGENTS.md", "CLAUDE.md"];

/// What the files say, and what a person should know of them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Instructions {
    /// Each file under a heading with its name, the most general first.
    pub text: String,
    /// The files, in that order.
    pub files: Vec<PathBuf>,
    /// Files that are left out, and why.
    pub notices: Vec<String>,
}

/// Reads the user's own file in `config`, then, for each root, those from the top of its repository down to it.
#[must_use]
pub fn instructions(fence: &Fence, config: Option<&Path>) -> Instructions {
    let mut files: Vec<PathBuf> = config.map(|it| it.join("AGENTS.md")).filter(|it| it.is_file()).into_iter().collect();
    let mut out = Instructions::default();
    for root in &fence.roots {
        let top = root.ancestors().find(|it| it.join(".git").symlink_metadata().is_ok()).unwrap_or(root);
        let mut dirs: Vec<&Path> = root.ancestors().take_while(|it| it.starts_with(top)).collect();
        dirs.reverse();
        for dir in dirs {
            let Some(file) = NAMES.iter().map(|it| dir.join(it)).find(|it| it.symlink_metadata().is_ok()) else { continue };
            let real = fs::canonicalize(&file).ok().filter(|it| it.is_file());
            if !real.as_ref().is_some_and(|it| it.starts_with(top)) {
                out.notices.push(format!("{} leads out of its repository, so it is not read", file.display()));
            } else if !fence.hidden.hides(&file, Kind::File) && !files.contains(&file) {
                files.push(file);
            }
        }
    }
    out.take(&files);
    out
}

/// Reads exactly these, as `AGENTS_MD_PATH` lists them: `~/` is the home, relative ones are below `root`, missing ones are skipped.
#[must_use]
pub fn listed(list: &str, root: &Path, home: Option<&Path>) -> Instructions {
    let mut out = Instructions::default();
    let mut files = Vec::new();
    for part in list.split(':').filter(|it| !it.trim().is_empty()) {
        let path = match (part.strip_prefix("~/"), home) {
            (Some(below), Some(home)) => home.join(below),
            (Some(_), None) => {
                out.notices.push(format!("{part}: HOME is not set, so it is not read"));
                continue;
            }
            (None, _) => root.join(part),
        };
        let outside = Path::new(part).is_relative() && fs::canonicalize(&path).is_ok_and(|it| !it.starts_with(root));
        if outside && !part.starts_with("~/") {
            out.notices.push(format!("{part} leads out of the workspace, so it is not read"));
        } else if path.is_file() {
            files.push(path);
        }
    }
    out.take(&files);
    out
}

impl Instructions {
    fn take(&mut self, files: &[PathBuf]) {
        for file in files {
            let text = match fs::read_to_string(file) {
                Ok(it) => it,
                Err(err) => {
                    self.notices.push(format!("{}: {err}, so it is not read", file.display()));
                    continue;
                }
            };
            self.files.push(file.clone());
            let room = MOST.saturating_sub(self.text.len());
            let mut end = text.len().min(room);
            while !text.is_char_boundary(end) {
                end -= 1;
            }
            if end < text.len() {
                self.notices.push(format!(
                    "{}: only {end} of {} bytes are read; all such files share {MOST}",
                    file.display(),
                    text.len()
                ));
            }
            if !text[..end].trim().is_empty() {
                self.text.push_str(&format!("## {}\n\n{}\n\n", file.display(), text[..end].trim_end()));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn world(files: &[(&str, &str)]) -> (tempfile::TempDir, PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let top = fs::canonicalize(dir.path()).unwrap();
        for (path, text) in files {
            fs::create_dir_all(top.join(path).parent().unwrap()).unwrap();
            fs::write(top.join(path), text).unwrap();
        }
        (dir, top)
    }

    #[test]
    fn from_the_general_to_the_special_and_one_a_folder() {
        let (_dir, top) = world(&[
            ("outside/AGENTS.md", "never"),
            ("config/AGENTS.md", "mine"),
            ("repo/.git/x", ""),
            ("repo/AGENTS.md", "top"),
            ("repo/CLAUDE.md", "not this"),
            ("repo/a/CLAUDE.md", "middle"),
            ("repo/a/b/AGENTS.md", "  \n"),
        ]);
        let fence = crate::fence(&top.join("repo/a/b"), &[top.join("repo")], Vec::new()).unwrap();
        let it = instructions(&fence, Some(&top.join("config")));
        let words: Vec<&str> = it.text.lines().filter(|it| !it.is_empty() && !it.starts_with('#')).collect();
        assert_eq!((words, it.notices.len()), (vec!["mine", "top", "middle"], 0), "{}", it.text);
    }

    #[test]
    fn links_out_hidden_files_and_too_much_are_left_out_and_told() {
        let (_dir, top) = world(&[
            ("secret", "words"),
            ("repo/.git/x", ""),
            ("repo/sub/AGENTS.md", "hidden"),
            ("repo/.sidignore", "sub/AGENTS.md\n"),
        ]);
        std::os::unix::fs::symlink(top.join("secret"), top.join("repo/AGENTS.md")).unwrap();
        let fence = crate::fence(&top.join("repo"), &[top.join("repo/sub")], Vec::new()).unwrap();
        let it = instructions(&fence, None);
        assert!(it.text.is_empty() && it.notices[0].contains("leads out of its repository"), "{it:?}");
        let long = "é".repeat(20_000);
        let (_dir, top) = world(&[("AGENTS.md", &long)]);
        let it = instructions(&crate::fence(&top, &[], Vec::new()).unwrap(), None);
        assert!(it.text.len() < MOST + 200 && it.notices[0].contains("of 40000 bytes"), "{:?}", it.notices);
    }

    #[test]
    fn a_list_of_files() {
        let (_dir, top) = world(&[("w/one.md", "one"), ("w/two.md", "two"), ("home/g.md", "global"), ("x.md", "out")]);
        let root = top.join("w");
        let it = listed("~/g.md:two.md:gone.md:one.md:../x.md", &root, Some(&top.join("home")));
        let words: Vec<&str> = it.text.lines().filter(|it| !it.is_empty() && !it.starts_with('#')).collect();
        assert_eq!(words, ["global", "two", "one"]);
        assert!(it.notices[0].contains("../x.md leads out of the workspace"));
        assert!(listed("~/g.md", &root, None).notices[0].contains("HOME is not set"));
    }
}
