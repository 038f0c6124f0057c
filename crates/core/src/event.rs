use crate::{CallId, Delta, Usage};

/// What a front end is told while a turn runs.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// The session is open and the turn begins.
    Session {
        /// Its id.
        id: String,
        /// It existed before.
        resumed: bool,
    },
    /// A new answer of the model begins.
    Reply,
    /// A piece of it.
    Delta(Delta),
    /// The model asked for a tool.
    Call {
        /// The call.
        id: CallId,
        /// The tool.
        tool: String,
        /// Its raw arguments.
        args: String,
    },
    /// A call has its outcome.
    Result {
        /// The call.
        id: CallId,
        /// The tool.
        tool: String,
        /// The words the model reads.
        content: String,
        /// Whether it is an error to the model.
        error: bool,
    },
    /// All that had arrived together was told; a good moment to flush.
    Pause,
    /// Something the person should know: a retry, a skipped file, a torn journal.
    Notice(String),
}

/// How a turn ended.
#[derive(Debug, Clone, PartialEq)]
pub struct End {
    /// `completed`, `max_tool_rounds`, `max_seconds`, `max_tokens_total`, `interrupted`, `refusal` or `length`.
    pub reason: String,
    /// The visible text of the last answer.
    pub text: String,
    /// Rounds of tool calls in this turn.
    pub rounds: u32,
    /// Tokens of this turn.
    pub usage: Usage,
}
