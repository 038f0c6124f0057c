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
mod sampling;
mod sse;

pub use body::{Conversation, ToolSpec};
pub use failure::Failure;
pub use http::Http;
pub use model::{Calls, Model, Progress};
pub use replay::Replay;
pub use resolve::{Endpoint, Env, Profile, Profiles, Resolved, Unresolved, Wire, resolve};
pub use sampling::Sampling;

use sid_core::{Assistant, Delta};

/// Turns one streamed response body, in any chunking, into deltas and one answer.
#[derive(Debug)]
pub struct Decoder {
    sse: sse::Sse,
    state: State,
}

/// What of an answer has come, by wire.
#[derive(Debug)]
enum State {
    Chat(chat::State),
    Messages(messages::State),
}

impl State {
    fn event(&mut self, data: &[u8], out: &mut Vec<Delta>) -> Result<(), Failure> {
        let text = std::str::from_utf8(data).map_err(|_| Failure::fatal("the stream holds bytes that are not UTF-8"))?;
        match self {
            Self::Chat(it) => it.event(text, out),
            Self::Messages(it) => it.event(text, out),
        }
    }

    fn is_over(&self) -> bool {
        match self {
            Self::Chat(it) => it.is_over(),
            Self::Messages(it) => it.is_over(),
        }
    }

    fn answer(&mut self) -> Assistant {
        match self {
            Self::Chat(it) => std::mem::take(it).answer(),
            Self::Messages(it) => std::mem::take(it).answer(),
        }
    }
}

impl Decoder {
    /// A decoder for `wire`.
    #[must_use]
    pub fn new(wire: Wire) -> Self {
        let state = match wire {
            Wire::Chat => State::Chat(chat::State::default()),
            Wire::Messages => State::Messages(messages::State::default()),
        };
        Self { sse: sse::Sse::default(), state }
    }

    /// Takes bytes as they come. What may be shown already goes to `out`.
    ///
    /// # Errors
    /// The provider reported an error inside the stream, or sent what is no event of this wire.
    pub fn feed(&mut self, bytes: &[u8], out: &mut Vec<Delta>) -> Result<(), Failure> {
        let state = &mut self.state;
        self.sse.feed(bytes, &mut |data| state.event(data, out))
    }

    /// The body is over.
    ///
    /// # Errors
    /// The stream ended before the answer did; nothing partial is taken for a whole answer.
    pub fn finish(&mut self, out: &mut Vec<Delta>) -> Result<Assistant, Failure> {
        let state = &mut self.state;
        self.sse.finish(&mut |data| state.event(data, out))?;
        if self.state.is_over() {
            Ok(self.state.answer())
        } else {
            Err(Failure::transient("the stream ended before the answer did"))
        }
    }

    /// What had arrived when the stream broke, without its calls: none of them can be trusted to be whole.
    pub fn partial(&mut self) -> Option<Assistant> {
        let mut answer = self.state.answer();
        answer.partial = true;
        answer.parts.retain(|it| matches!(it, sid_core::Part::Text(_)));
        (!answer.parts.is_empty()).then_some(answer)
    }
}

#[cfg(test)]
mod tests;
