//! The durable facts of a session, and their shape on disk (`docs/sessions.md`).
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// Names one call of a session. Unique within it: a missing or repeated provider id is replaced by [`crate::Session::admit`].
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct CallId(pub String);

/// One tool call as the model wrote it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Call {
    /// The session's id of the call.
    pub id: CallId,
    /// The tool's name on the surface the model sees.
    pub tool: String,
    /// The model's raw argument text; it may be no JSON at all.
    pub args: String,
}

/// A block of a provider's answer that only that wire understands (reasoning, citations, server tools), kept verbatim.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Opaque {
    /// The wire that sent it, and the only one it is sent back to.
    pub wire: String,
    /// The block's bytes.
    pub json: Box<RawValue>,
}

impl PartialEq for Opaque {
    fn eq(&self, other: &Self) -> bool {
        self.wire == other.wire && self.json.get() == other.json.get()
    }
}

/// One piece of the model's answer, in the order it came.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Part {
    /// Words for the person.
    Text(String),
    /// A tool call.
    Call(Call),
    /// Something only its wire understands.
    Opaque(Opaque),
}

/// Tokens of one answer, as the provider counted them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// Tokens of the request that were not read from a cache.
    pub input: u64,
    /// Tokens of the answer.
    pub output: u64,
    /// Tokens of the request read from a cache.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub cache_read: u64,
    /// Tokens of the request written to a cache.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub cache_write: u64,
}

impl Usage {
    /// All tokens of the request and the answer.
    #[must_use]
    pub fn total(self) -> u64 {
        self.input + self.output + self.cache_read + self.cache_write
    }

    /// Adds another answer's tokens.
    pub fn add(&mut self, other: Self) {
        self.input += other.input;
        self.output += other.output;
        self.cache_read += other.cache_read;
        self.cache_write += other.cache_write;
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's signature")]
fn is_zero(it: &u64) -> bool {
    *it == 0
}

/// Why the model stopped, in one vocabulary for all wires.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stop {
    /// It was done, or wants its calls run.
    #[default]
    End,
    /// Its output limit was reached; the last call may be cut off.
    Length,
    /// It or its provider refused.
    Refusal,
}

/// Who wrote a user message.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// The person or the script that runs sid.
    #[default]
    Person,
    /// sid itself, asking once for a final message.
    Sid,
    /// sid itself, telling of something that happened meanwhile.
    Notice,
}

/// How a call ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// It ran and did what was asked.
    Ok,
    /// It ran, or could not be planned, and says why.
    Failed,
    /// A rule, a mode or a person refused it; it did not run.
    Denied,
    /// The process died while it ran; whether it took effect is unknown.
    Interrupted,
    /// The user stopped the turn before or while it ran.
    Cancelled,
}

/// The state of a file when the model last saw all of it, so that later changes by others are noticed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Seen {
    /// The canonical path.
    pub path: String,
    /// A stamp of the content, or empty when the file is gone.
    pub stamp: String,
}

/// What the model reads as the result of a call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outcome {
    /// How the call ended.
    pub status: Status,
    /// The words.
    pub text: String,
    /// Files whose content the model now knows.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub seen: Vec<Seen>,
    /// What a command reached through the managed network, and what it was refused.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub contacts: Vec<Contact>,
}

/// A destination of a command.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Contact {
    /// Its host.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// Why it was refused, in the word of the proxy; absent if it was reached.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
    /// How often.
    pub times: u64,
}

impl Outcome {
    /// One that left no other traces.
    pub fn new(status: Status, text: impl Into<String>) -> Self {
        Self { status, text: text.into(), seen: Vec::new(), contacts: Vec::new() }
    }

    /// A call that did what was asked.
    pub fn ok(text: impl Into<String>) -> Self {
        Self::new(Status::Ok, text)
    }

    /// A call that failed; `text` says why and what to do.
    pub fn failed(text: impl Into<String>) -> Self {
        Self::new(Status::Failed, text)
    }

    /// A call that was refused.
    pub fn denied(text: impl Into<String>) -> Self {
        Self::new(Status::Denied, text)
    }

    /// Whether the model should treat it as an error.
    #[must_use]
    pub fn is_error(&self) -> bool {
        self.status != Status::Ok
    }
}

/// A process began to work on the session: its first record, and one more for each resume.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Opened {
    /// The format of the journal; 1.
    pub v: u32,
    /// Milliseconds since 1970.
    pub at: u64,
    /// The session's id.
    pub id: String,
    /// The primary working directory, as the system spells it (lossy if not UTF-8).
    pub cwd: String,
    /// Additional roots.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub roots: Vec<String>,
    /// The model as it was named.
    pub model: String,
    /// The permission mode.
    pub mode: String,
    /// The program's version.
    pub sid: String,
}

/// A message to the model.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct User {
    /// Milliseconds since 1970.
    pub at: u64,
    /// The words.
    pub text: String,
    /// Who wrote it.
    #[serde(default)]
    pub from: Source,
    /// What the user's hook added for the model; nobody's own words.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub added: String,
}

/// One answer of the model.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Assistant {
    /// Milliseconds since 1970.
    pub at: u64,
    /// What it said, in order.
    pub parts: Vec<Part>,
    /// Why it stopped.
    #[serde(default)]
    pub stop: Stop,
    /// Its tokens, where the provider said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
    /// The stream broke after something had been shown; calls were dropped.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub partial: bool,
}

impl Assistant {
    /// The tool calls, in order.
    pub fn calls(&self) -> impl Iterator<Item = &Call> {
        self.parts.iter().filter_map(|it| match it {
            Part::Call(call) => Some(call),
            _ => None,
        })
    }

    /// All words, joined.
    #[must_use]
    pub fn text(&self) -> String {
        self.parts.iter().filter_map(|it| if let Part::Text(text) = it { Some(text.as_str()) } else { None }).collect()
    }
}

/// A call is about to touch the world.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Started {
    /// Milliseconds since 1970.
    pub at: u64,
    /// The call.
    pub call: CallId,
    /// What it does, in words a person reads.
    pub label: String,
    /// The bounds its permit carries.
    pub bounds: String,
}

/// A call has its outcome.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Finished {
    /// Milliseconds since 1970.
    pub at: u64,
    /// The call.
    pub call: CallId,
    /// What the model reads.
    pub outcome: Outcome,
    /// Words of sid's own for the model only (the round limit).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// A crossing was judged by automatic review.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ReviewedCall {
    /// Milliseconds since 1970.
    pub at: u64,
    /// The call.
    pub call: CallId,
    /// `allowed`, `rejected`, `timed_out` or `unavailable`.
    pub outcome: String,
    /// How bad it could be, if it was judged.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub risk: String,
    /// How clearly it was asked for, if it was judged.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub authorization: String,
    /// Why.
    pub rationale: String,
    /// What the review took.
    pub usage: Usage,
}

/// A conversation was replaced by a summary of it: what the model sees begins here. All before stays in its journal.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Compacted {
    /// Milliseconds since 1970.
    pub at: u64,
    /// What the model that knew it all wrote down for one that knows nothing.
    pub summary: String,
    /// The person's last message, if it still waits for its answer.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub asked: String,
    /// The session that was summarised; absent: this one, up to here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<Parent>,
    /// What the summary took.
    #[serde(default)]
    pub usage: Usage,
}

/// Another session, as it was found when it was summarised.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Parent {
    /// Its id.
    pub session_id: String,
    /// Its folder.
    pub session_dir: String,
}

/// One durable fact. A journal is a sequence of these and nothing else.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Record {
    /// A process took up the session.
    Opened(Opened),
    /// A message to the model.
    User(User),
    /// An answer of the model.
    Assistant(Assistant),
    /// A summary took the place of the conversation.
    Compacted(Compacted),
    /// A crossing was judged by automatic review.
    Reviewed(ReviewedCall),
    /// A call is about to touch the world.
    Started(Started),
    /// A call has its outcome.
    Finished(Finished),
    /// The turn is over; `reason` is `completed`, a limit, `interrupted` or `error`.
    Ended {
        /// Milliseconds since 1970.
        at: u64,
        /// Why.
        reason: String,
        /// The sentence the person saw, for an error.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        error: Option<String>,
    },
}

impl Record {
    /// Milliseconds since 1970 when it was made.
    #[must_use]
    pub fn at(&self) -> u64 {
        match self {
            Self::Opened(it) => it.at,
            Self::User(it) => it.at,
            Self::Assistant(it) => it.at,
            Self::Compacted(it) => it.at,
            Self::Reviewed(it) => it.at,
            Self::Started(it) => it.at,
            Self::Finished(it) => it.at,
            Self::Ended { at, .. } => *at,
        }
    }
}

/// One ephemeral observation of an answer that is still coming. Never journalled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Delta {
    /// A piece of the words.
    Text(String),
    /// A piece of the reasoning.
    Reasoning(String),
}
