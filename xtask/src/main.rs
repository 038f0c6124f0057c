//! Chores: `cargo xtask bench [PART [PROGRAM]] | docs | editor FILE | list DIR | streams FOLDER`.
mod bench;
mod editor;
mod escapes;
mod floor;
mod streams;

use std::{
    path::{Path, PathBuf},
    process::{Command, ExitCode},
};

/// An error is a sentence.
type Done = Result<(), String>;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    let done = match words.as_slice() {
        ["bench"] => bench::bench(),
        ["bench", part] => sid().and_then(|sid| bench::one(part, &sid)),
        ["bench", part, program] => bench::one(part, Path::new(program)),
        ["docs"] => docs(),
        ["network-bench"] => bench::inside(),
        ["network-proxy"] => bench::proxy(),
        ["list", dir] => list(Path::new(dir)),
        ["streams", folder] => streams::streams(Path::new(folder)),
        ["editor", file] => editor::editor(Path::new(file)),
        ["floor", rest @ ..] => floor::floor(rest),
        _ => Err("usage: cargo xtask bench [PART [PROGRAM]] | docs | editor FILE | list DIR | streams FOLDER".to_owned()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("xtask: {why}");
            ExitCode::FAILURE
        }
    }
}

/// The top of the repository.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().map(Path::to_path_buf).unwrap_or_default()
}

/// Builds the released program and returns its path.
fn sid() -> Result<PathBuf, String> {
    let built = Command::new("cargo").args(["build", "-q", "--release", "-p", "sid"]).current_dir(root()).status();
    if !built.map_err(|err| err.to_string())?.success() {
        return Err("sid does not build".to_owned());
    }
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from);
    Ok(target.join("release/sid"))
}

/// Writes `docs/reference.md` and `docs/rc.md` from the program itself, and the table of `docs/security.md` from the escape scripts.
fn docs() -> Done {
    let sid = sid()?;
    for (page, args) in [("docs/reference.md", &["reference"][..]), ("docs/rc.md", &["reference", "rc"])] {
        let out = Command::new(&sid).args(args).output().map_err(|err| err.to_string())?;
        std::fs::write(root().join(page), out.stdout).map_err(|err| err.to_string())?;
    }
    escapes::table()
}

/// The files that a search would look at, one a line: for oracles.
fn list(dir: &Path) -> Done {
    let root = std::fs::canonicalize(dir).map_err(|err| format!("{}: {err}", dir.display()))?;
    let fence = sid_project::fence(&root, &[], Vec::new())?;
    let hider = sid_sandbox::Hider::new(fence.hidden, Vec::new());
    for path in sid_tools::walk::files(&root, hider) {
        println!("{}", path.display());
    }
    Ok(())
}
