//! `sidiff`: a unified diff on standard input, made readable: line numbers, and the words that changed.
use std::io::{Read as _, Write as _};

use sid_helpers::look;

fn main() -> std::process::ExitCode {
    let mut bytes = Vec::new();
    if let Err(err) = std::io::stdin().read_to_end(&mut bytes) {
        eprintln!("sidiff: standard input: {err}");
        return std::process::ExitCode::FAILURE;
    }
    let shown = sid_helpers::render(&String::from_utf8_lossy(&bytes), look());
    // Whoever reads may have seen enough.
    let _closed = std::io::stdout().lock().write_all(shown.as_bytes());
    std::process::ExitCode::SUCCESS
}
