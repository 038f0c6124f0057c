//! `sid init`: a configuration to begin with.
use std::{
    fs, io,
    io::Write as _,
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
    process::ExitCode,
};

use crate::{paths::places, say};

/// Text or a program: its mode.
const TEXT: u32 = 0o644;
const PROGRAM: u32 = 0o755;

macro_rules! starter {
    ($(($name:literal, $mode:ident)),* $(,)?) => {
        &[$(($name, $mode, include_str!(concat!("../../../init/", $name)))),*]
    };
}

/// Path below the configuration root, mode, content.
const FILES: &[(&str, u32, &str)] = starter![
    ("agents.conf", TEXT),
    ("agents/build.md", TEXT),
    ("agents/plan.md", TEXT),
    ("agents/review.md", TEXT),
    ("agents/compact.md", TEXT),
    ("agents/branch", PROGRAM),
    ("skills/release-checklist/SKILL.md", TEXT),
    ("tools.conf", TEXT),
    ("tools/todo.json", TEXT),
    ("tools/todo", PROGRAM),
];

/// Writes what is not there yet, and touches nothing else.
pub(crate) fn init(dir: Option<PathBuf>) -> ExitCode {
    let Some(root) = dir.or_else(|| places().config) else {
        say("sid: there is no place for a configuration: HOME is not set; name a folder: `sid init DIR`");
        return ExitCode::FAILURE;
    };
    let mut told = String::new();
    let mut code = ExitCode::SUCCESS;
    for (name, mode, text) in FILES {
        let path = root.join(name);
        match make(&path, *mode, text) {
            Ok(()) => told.push_str(&format!("made {}\n", path.display())),
            Err(err) if err.kind() == io::ErrorKind::AlreadyExists && path.symlink_metadata().is_ok() => {
                told.push_str(&format!("kept {}, which was there\n", path.display()));
            }
            Err(err) => {
                say(&format!("sid: {} can't be made: {err}", path.display()));
                code = ExitCode::FAILURE;
                break;
            }
        }
    }
    let _closed = std::io::stdout().write_all(sid_core::inert(&told).as_bytes());
    code
}

/// A new file, whole or not at all.
fn make(path: &Path, mode: u32, text: &str) -> io::Result<()> {
    if let Some(dir) = path.parent() {
        fs::create_dir_all(dir)?;
    }
    let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(mode).open(path)?;
    file.write_all(text.as_bytes()).inspect_err(|_| drop(fs::remove_file(path)))
}
