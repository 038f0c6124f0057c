//! Request bodies that only ever grow: the part sent before is sent again byte for byte.
use sid_core::{Item, Outcome};

use crate::{Sampling, Wire, chat, messages};

/// A tool as the model is told of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolSpec {
    /// Its name on this surface.
    pub name: String,
    /// What it does, for the model.
    pub description: String,
    /// The JSON schema of its arguments, compact.
    pub schema: String,
}

/// Whether the model may call tools in this request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tools {
    Offered,
    Withheld,
}

/// Everything a model has seen and said, encoded once.
#[derive(Debug, Clone)]
pub struct Conversation {
    wire: Wire,
    head: String,
    /// The head without tools: Chat Completions has no way to say "none" that all its relatives know.
    bare_head: String,
    messages: String,
    answers: usize,
    caching: bool,
}

impl Conversation {
    /// A conversation with `model` on `wire`.
    #[must_use]
    pub fn new(wire: Wire, model: &str, system: &str, tools: &[ToolSpec]) -> Self {
        Self::sampled(wire, model, system, tools, &Sampling::default())
    }

    /// The same, with answers as they are asked for.
    #[must_use]
    pub fn sampled(wire: Wire, model: &str, system: &str, tools: &[ToolSpec], sampling: &Sampling) -> Self {
        let (head, bare_head) = match wire {
            Wire::Chat => (chat::head(model, system, tools, sampling), chat::head(model, system, &[], sampling)),
            Wire::Messages => (messages::head(model, system, tools, sampling), String::new()),
        };
        Self { wire, head, bare_head, messages: String::new(), answers: 0, caching: sampling.caching }
    }

    /// Adds what was said. Nothing is encoded twice.
    pub fn push(&mut self, item: &Item) {
        self.answers += usize::from(matches!(item, Item::Assistant(_)));
        match self.wire {
            Wire::Chat => chat::push(&mut self.messages, item),
            Wire::Messages => messages::push(&mut self.messages, item),
        }
    }

    /// A request as it would be now: everything before the messages, and the messages, joined by commas.
    #[must_use]
    pub fn request(&self) -> (&str, &str) {
        (&self.head, &self.messages)
    }

    /// Forgets everything that was said.
    pub fn clear(&mut self) {
        self.messages.clear();
    }

    /// How many answers the model has given.
    #[must_use]
    pub fn answers(&self) -> usize {
        self.answers
    }

    /// The request body.
    pub(crate) fn body(&self, tools: Tools, usage: chat::Asks) -> Vec<u8> {
        let (head, tail) = match (self.wire, tools) {
            (Wire::Chat, Tools::Offered) => (&self.head, chat::tail(usage)),
            (Wire::Chat, Tools::Withheld) => (&self.bare_head, chat::tail(usage)),
            (Wire::Messages, _) => (&self.head, messages::tail(tools)),
        };
        let mut out = Vec::with_capacity(head.len() + self.messages.len() + tail.len() + 64);
        out.extend_from_slice(head.as_bytes());
        match (self.wire, self.messages.strip_suffix("}]}")) {
            (Wire::Messages, Some(rest)) if self.caching => {
                out.extend_from_slice(rest.as_bytes());
                out.extend_from_slice(messages::BREAKPOINT.as_bytes());
                out.extend_from_slice(b"}]}");
            }
            _ => out.extend_from_slice(self.messages.as_bytes()),
        }
        out.extend_from_slice(tail.as_bytes());
        out
    }
}

/// What the model reads as a result. Never empty: some endpoints refuse that.
pub(crate) fn result_text(outcome: &Outcome, note: Option<&str>) -> String {
    let text = if outcome.text.is_empty() { "(no output)" } else { &outcome.text };
    match note {
        Some(note) => format!("{text}\n\n{note}"),
        None => text.to_owned(),
    }
}

/// A tool's name as a strict endpoint accepts it back, whatever the model made of it.
pub(crate) fn sendable_name(name: &str) -> String {
    let legal = |it: char| if it.is_ascii_alphanumeric() || "_-".contains(it) { it } else { '_' };
    let name: String = name.chars().take(64).map(legal).collect();
    if name.is_empty() { "unknown".to_owned() } else { name }
}

/// Arguments as a strict endpoint accepts them back: the model's own bytes if they are a JSON object, else none.
pub(crate) fn sendable_args(args: &str) -> &str {
    match serde_json::from_str::<serde_json::Map<String, serde_json::Value>>(args) {
        Ok(_) => args.trim(),
        Err(_) => "{}",
    }
}
