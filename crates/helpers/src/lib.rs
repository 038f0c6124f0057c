//! What the helper programs do. Each is usable by hand, and none knows of sessions.
mod seatbelt;

pub use seatbelt::{Command, Print, macos_policy, parse, run};
