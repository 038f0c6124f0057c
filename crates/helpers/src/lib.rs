//! What the helper programs do. Each is usable by hand, and none knows of sessions.
mod editor;
mod seatbelt;
mod skills;

pub use editor::edit;
pub use seatbelt::{Command, Print, macos_policy, parse, run};
pub use sid_tools::diff::render;
use sid_tools::diff::{Color, Look};
pub use skills::inject;

/// How a diff is shown on standard output: as wide as the terminal, in colour if it is one and `NO_COLOR` is not set.
#[must_use]
pub fn look() -> Look {
    let out = std::io::stdout();
    let width = rustix::termios::tcgetwinsize(&out).map_or(0, |it| usize::from(it.ws_col));
    let terminal = std::io::IsTerminal::is_terminal(&out);
    let color = if terminal && std::env::var_os("NO_COLOR").is_none() { Color::On } else { Color::Off };
    Look { width, color }
}
