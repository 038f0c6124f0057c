//! The user's own editor, on their own terminal.
use std::{
    io,
    path::Path,
    process::{Command, ExitStatus},
};

/// Runs the user's editor (words for a shell) on a file, and waits for it. It is theirs, not the model's: no sandbox.
///
/// # Errors
/// It can't be started.
pub fn edit_by_user(program: &str, file: &Path) -> io::Result<ExitStatus> {
    Command::new("/bin/sh").args(["-c", &format!("{program} \"$1\""), "sid"]).arg(file).status()
}
