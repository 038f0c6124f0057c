//! The only crate that starts a process or changes a file on the model's behalf.
//!
//! [`resolve`] is the one look at the disk before judging. [`Confined`] is a place to act in, made only from a
//! [`sid_policy::Permit`]; what it may touch is what was judged. The wall around a command is Bubblewrap's, built from the
//! permit by [`bwrap`].
mod bwrap;
mod caches;
mod capture;
mod confined;
mod docker;
mod editor;
mod environment;
mod files;
mod frames;
mod git;
mod guard;
mod host;
mod jobs;
mod keys;
mod network;
mod placeholder;
mod process;
mod resolve;
mod scratch;
mod seatbelt;
mod shell;
mod signals;
mod spare;
mod state;
mod stdio;
mod streams;
mod wall;

pub use capture::{Capture, Taken};
pub use confined::{Confined, Hider};
pub use docker::DockerSettings;
pub use editor::edit_by_user;
pub use environment::{Environment, scrub};
pub use files::{Expect, FileError, Found, stamp, stamp_of};
pub use host::{Host, Missing, find_program};
pub use jobs::{Ended, Job, JobId, JobState};
pub use network::{MOST_PORTS, connection_mark};
pub use process::{Aftermath, Exit, Io, Limits, Ran};
pub use resolve::resolve;
pub use scratch::{SCRATCH, Scratch};
pub use seatbelt::{Policy, Reads, Seatbelt};
pub use shell::{InShell, STATE as SHELL_STATE, quoted};
pub use streams::{Kept, Stream, Tee};
