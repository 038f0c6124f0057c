//! Models: bytes to answers, items to request bodies, names to endpoints.
//!
//! Decoders and encoders are pure; only [`http`] touches the network. Never decides *whether* to call.
mod body;
mod chat;
mod failure;
mod http;
mod messages;
mod model;
mod replay;
mod resolve;
mod sse;

pub use body::{Conversation, ToolSpec};
pub use failure::Failure;
pub use http::Http;
pub use model::{Calls, Model, Progress};
pub use replay::Replay;
pub use resolve::{Endpoint, Env, Profile, Profiles, Resolved, Unresolved, Wire, resolve};

use sid_core::{Assistant, Delta};

/// Turns one streamed response body, in any chunking, into deltas and one answer.
#[derive(Debug)]
pub enum Decoder {
    /// OpenAI Chat Completions.
    Chat(chat::Decoder),
    /// Anthropic Messages.
    Messages(messages::Decoder),
}

impl Decoder {
    /// A decoder for `wire`.
    #[must_use]
    pub fn new(wire: Wire) -> Self {
        match wire {
            Wire::Chat => Self::Chat(chat::Decoder::default()),
            Wire::Messages => Self::Messages(messages::Decoder::default()),
        }
    }

    /// Takes bytes as they come. What may be shown already goes to `out`.
    ///
    /// # Errors
    /// The provider reported an error inside the stream, or sent what is no event of this wire.
    pub fn feed(&mut self, bytes: &[u8], out: &mut Vec<Delta>) -> Result<(), Failure> {
        match self {
            Self::Chat(it) => it.feed(bytes, out),
            Self::Messages(it) => it.feed(bytes, out),
        }
    }

    /// The body is over.
    ///
    /// # Errors
    /// The stream ended before the answer did; nothing partial is taken for a whole answer.
    pub fn finish(&mut self, out: &mut Vec<Delta>) -> Result<Assistant, Failure> {
        match self {
            Self::Chat(it) => it.finish(out),
            Self::Messages(it) => it.finish(out),
        }
    }

    /// What had arrived when the stream broke, without its calls: none of them can be trusted to be whole.
    pub fn partial(&mut self) -> Option<Assistant> {
        let mut answer = match self {
            Self::Chat(it) => it.answer(),
            Self::Messages(it) => it.answer(),
        };
        answer.partial = true;
        answer.parts.retain(|it| matches!(it, sid_core::Part::Text(_)));
        (!answer.parts.is_empty()).then_some(answer)
    }
}

#[cfg(test)]
mod tests;
