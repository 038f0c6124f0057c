//! How a model is asked to answer, as the fields of each wire.
use std::fmt::Write as _;

use crate::Wire;

/// How a model is asked to answer. What is absent is the provider's own default.
#[derive(Debug, Clone, PartialEq)]
pub struct Sampling {
    /// The most tokens of one answer.
    pub max_tokens: Option<u32>,
    /// From 0 to 1.
    pub temperature: Option<f64>,
    /// From 0 to 1.
    pub top_p: Option<f64>,
    /// How many tokens are considered.
    pub top_k: Option<u32>,
    /// Texts that end an answer.
    pub stop: Vec<String>,
    /// Tokens of thinking; `None` or 0: none is asked for.
    pub thinking: Option<u32>,
    /// Whether the provider may keep the prompt in its cache.
    pub caching: bool,
}

impl Default for Sampling {
    fn default() -> Self {
        Self { max_tokens: None, temperature: None, top_p: None, top_k: None, stop: Vec::new(), thinking: None, caching: true }
    }
}

/// The least thinking that the Messages wire takes, and what an answer needs beside it.
const LEAST: u32 = 1024;
const BESIDE: u32 = 4096;

impl Sampling {
    /// Fields of a request body, each with a comma before it.
    pub(crate) fn fields(&self, wire: Wire, model: &str) -> String {
        let mut out = String::new();
        let mut add = |name: &str, value: String| {
            let _infallible = write!(out, ",\"{name}\":{value}");
        };
        let thinking = self.thinking.filter(|it| *it > 0 && wire == Wire::Messages).map(|it| it.max(LEAST));
        let default = if wire == Wire::Messages { Some(crate::messages::max_tokens(model)) } else { None };
        // Thinking is part of the answer.
        let most = self
            .max_tokens
            .or(default)
            .map(|it| if thinking.is_some_and(|think| it <= think) { it + LEAST.max(BESIDE) + thinking.unwrap_or(0) } else { it });
        if let Some(it) = most {
            add("max_tokens", it.to_string());
        }
        // Both are refused beside thinking (Anthropic's documentation, extended thinking).
        if thinking.is_none() {
            if let Some(it) = self.temperature {
                add("temperature", it.to_string());
            }
            if let Some(it) = self.top_k.filter(|_| wire == Wire::Messages) {
                add("top_k", it.to_string());
            }
        }
        if let Some(it) = self.top_p.filter(|it| thinking.is_none() || *it >= 0.95) {
            add("top_p", it.to_string());
        }
        if !self.stop.is_empty() {
            let name = if wire == Wire::Messages { "stop_sequences" } else { "stop" };
            add(name, serde_json::to_string(&self.stop).unwrap_or_default());
        }
        if let Some(it) = thinking {
            add("thinking", format!("{{\"type\":\"enabled\",\"budget_tokens\":{it}}}"));
        }
        out
    }

    /// What of it this wire can't say, in words for a person.
    #[must_use]
    pub fn unsaid(&self, wire: Wire) -> Vec<&'static str> {
        let chat = wire == Wire::Chat;
        let all = [
            (chat && self.thinking.is_some_and(|it| it > 0), "thinking"),
            (chat && self.top_k.is_some(), "top_k"),
            (!chat && self.thinking.is_some_and(|it| it > 0) && self.temperature.is_some(), "temperature, beside thinking"),
        ];
        all.into_iter().filter(|it| it.0).map(|it| it.1).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn full() -> Sampling {
        Sampling {
            max_tokens: Some(2000),
            temperature: Some(0.5),
            top_p: Some(0.9),
            top_k: Some(40),
            stop: vec!["END \"x\"".to_owned()],
            thinking: None,
            caching: true,
        }
    }

    #[test]
    fn each_wire_has_its_fields() {
        assert_eq!(
            full().fields(Wire::Messages, "claude-x"),
            r#","max_tokens":2000,"temperature":0.5,"top_k":40,"top_p":0.9,"stop_sequences":["END \"x\""]"#
        );
        assert_eq!(full().fields(Wire::Chat, "x"), r#","max_tokens":2000,"temperature":0.5,"top_p":0.9,"stop":["END \"x\""]"#);
        assert_eq!(full().unsaid(Wire::Chat), ["top_k"]);
        assert_eq!(Sampling::default().fields(Wire::Chat, "x"), "");
    }

    #[test]
    fn thinking_has_room_and_nothing_that_is_refused_beside_it() {
        let it = Sampling { thinking: Some(100), ..full() };
        let said = it.fields(Wire::Messages, "claude-x");
        assert_eq!(said, r#","max_tokens":2000,"stop_sequences":["END \"x\""],"thinking":{"type":"enabled","budget_tokens":1024}"#);
        let it = Sampling { thinking: Some(5000), ..full() };
        assert!(it.fields(Wire::Messages, "claude-x").starts_with(",\"max_tokens\":11096"));
    }
}
