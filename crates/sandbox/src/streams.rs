//! Where a command's output goes: into memory, and for the programs of tools also to whoever keeps it.
use std::{
    fmt,
    sync::{Arc, Mutex, PoisonError},
};

use crate::capture::{Capture, More, Taken};

/// Which stream of a program something came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stream {
    /// What it printed.
    Stdout,
    /// What it complained about.
    Stderr,
    /// What it printed for a person to see before they are asked.
    ConfirmStdout,
    /// What it complained about then.
    ConfirmStderr,
}

impl Stream {
    /// The name in `tool-streams.jsonl`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Stdout => "stdout",
            Self::Stderr => "stderr",
            Self::ConfirmStdout => "confirm_stdout",
            Self::ConfirmStderr => "confirm_stderr",
        }
    }
}

/// Keeps what the programs of tools print, as it comes.
pub trait Tee: fmt::Debug + Send + Sync {
    /// The number of the last call that was kept; the next ones go on from there.
    fn last_call(&self) -> u32;
    /// Takes a piece of a stream of the call of this number.
    fn copy(&self, call: u32, stream: Stream, bytes: &[u8]);
}

/// What the streams of a program are kept as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kept {
    /// They are not.
    Nowhere,
    /// The work of a tool.
    Run,
    /// A preview.
    Preview,
}

/// One stream's destination.
#[derive(Debug, Clone)]
pub(crate) struct Sink {
    capture: Arc<Mutex<Capture>>,
    copy: Option<(Arc<dyn Tee>, u32, Stream)>,
}

/// Where both streams of a command go: to one place as they come, or apart.
pub(crate) struct Sinks {
    pub(crate) output: Sink,
    pub(crate) errors: Option<Sink>,
}

impl Sink {
    fn new(capture: Capture) -> Self {
        Self { capture: Arc::new(Mutex::new(capture)), copy: None }
    }

    pub(crate) fn feed(&self, bytes: &[u8]) {
        if let Some((tee, call, stream)) = &self.copy {
            tee.copy(*call, *stream, bytes);
        }
        self.capture.lock().unwrap_or_else(PoisonError::into_inner).feed(bytes);
    }

    pub(crate) fn take(&self, more: More) -> Taken {
        self.capture.lock().unwrap_or_else(PoisonError::into_inner).take(more)
    }

    /// From now on this much is kept.
    pub(crate) fn keep(&self, cap: usize) {
        *self.capture.lock().unwrap_or_else(PoisonError::into_inner) = Capture::new(cap);
    }
}

impl From<Capture> for Sinks {
    fn from(it: Capture) -> Self {
        Self { output: Sink::new(it), errors: None }
    }
}

impl Sinks {
    /// Both streams for themselves, each with room for `cap` bytes.
    pub(crate) fn apart(cap: usize, kept: Option<(Arc<dyn Tee>, u32, Kept)>) -> Self {
        let sink = |n: usize| {
            let streams = |it: &(Arc<dyn Tee>, u32, Kept)| match it.2 {
                Kept::Nowhere => None,
                Kept::Run => Some([Stream::Stdout, Stream::Stderr][n]),
                Kept::Preview => Some([Stream::ConfirmStdout, Stream::ConfirmStderr][n]),
            };
            let copy = kept.as_ref().and_then(|it| Some((Arc::clone(&it.0), it.1, streams(it)?)));
            Sink { copy, ..Sink::new(Capture::new(cap)) }
        };
        Self { output: sink(0), errors: Some(sink(1)) }
    }
}
