//! OpenAI Chat Completions and its many relatives: decode and encode.
use serde::Deserialize;
use serde_json::value::RawValue;
use sid_core::{Assistant, Call, CallId, Delta, Item, Opaque, Part, Stop, Usage};

use crate::{Failure, Sampling, ToolSpec, Wire, failure::message_in};

/// The wire's name in journals.
pub(crate) const NAME: &str = "chat";

#[derive(Deserialize)]
struct Chunk<'a> {
    #[serde(borrow, default)]
    choices: Option<Vec<Choice<'a>>>,
    #[serde(default)]
    usage: Option<WireUsage>,
    #[serde(borrow, default)]
    error: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Choice<'a> {
    #[serde(default)]
    index: u32,
    #[serde(borrow, alias = "message", default)]
    delta: Option<Message<'a>>,
    #[serde(default)]
    finish_reason: Option<String>,
}

#[derive(Deserialize, Default)]
struct Message<'a> {
    #[serde(borrow, default)]
    content: Option<&'a RawValue>,
    #[serde(borrow, default, alias = "reasoning")]
    reasoning_content: Option<&'a RawValue>,
    #[serde(borrow, default)]
    refusal: Option<&'a RawValue>,
    #[serde(borrow, default)]
    tool_calls: Option<Vec<ToolDelta<'a>>>,
}

#[derive(Deserialize)]
struct ToolDelta<'a> {
    #[serde(default)]
    index: Option<i64>,
    #[serde(default)]
    id: Option<String>,
    #[serde(borrow, default)]
    function: Option<Function<'a>>,
}

#[derive(Deserialize)]
struct Function<'a> {
    #[serde(default)]
    name: Option<String>,
    #[serde(borrow, default)]
    arguments: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct WireUsage {
    #[serde(default)]
    prompt_tokens: Option<u64>,
    #[serde(default)]
    completion_tokens: Option<u64>,
    #[serde(default)]
    prompt_tokens_details: Option<Details>,
}

#[derive(Deserialize)]
struct Details {
    #[serde(default)]
    cached_tokens: Option<u64>,
}

#[derive(Debug, Default)]
struct Slot {
    index: Option<i64>,
    id: String,
    name: String,
    args: String,
}

impl Slot {
    fn is_whole(&self) -> bool {
        !self.name.is_empty() && serde_json::from_str::<&RawValue>(&self.args).is_ok()
    }
}

/// What of a response has come.
#[derive(Debug, Default)]
pub(crate) struct State {
    text: String,
    reasoning: String,
    slots: Vec<Slot>,
    finish: Option<String>,
    done: bool,
    refused: bool,
    usage: Option<Usage>,
}

impl State {
    pub(crate) fn is_over(&self) -> bool {
        self.finish.is_some() || self.done
    }

    pub(crate) fn answer(self) -> Assistant {
        let mut parts = Vec::new();
        if !self.reasoning.is_empty() {
            let json = serde_json::json!({ "reasoning_content": self.reasoning }).to_string();
            parts.extend(RawValue::from_string(json).ok().map(|json| Part::Opaque(Opaque { wire: NAME.into(), json })));
        }
        if !self.text.is_empty() {
            parts.push(Part::Text(self.text));
        }
        parts.extend(
            self.slots
                .into_iter()
                .filter(|it| !it.name.is_empty())
                .map(|it| Part::Call(Call { id: CallId(it.id), tool: it.name, args: it.args })),
        );
        let stop = match self.finish.as_deref() {
            Some("length" | "max_tokens") => Stop::Length,
            Some("content_filter" | "refusal") => Stop::Refusal,
            _ if self.refused => Stop::Refusal,
            _ => Stop::End,
        };
        Assistant { parts, stop, usage: self.usage, ..Assistant::default() }
    }
}

impl State {
    pub(crate) fn event(&mut self, text: &str, out: &mut Vec<Delta>) -> Result<(), Failure> {
        match text.trim() {
            "" => return Ok(()),
            "[DONE]" => {
                self.done = true;
                return Ok(());
            }
            _ => {}
        }
        // Frames of other kinds (proxies send some) are skipped; a torn one shows in the missing end.
        let Ok(chunk) = serde_json::from_str::<Chunk>(text) else { return Ok(()) };
        if let Some(error) = chunk.error {
            return Err(stream_error(error));
        }
        if let Some(usage) = chunk.usage {
            let cached = usage.prompt_tokens_details.and_then(|it| it.cached_tokens).unwrap_or(0);
            self.usage = Some(Usage {
                input: usage.prompt_tokens.unwrap_or(0).saturating_sub(cached),
                output: usage.completion_tokens.unwrap_or(0),
                cache_read: cached,
                cache_write: 0,
            });
        }
        let Some(choice) = chunk.choices.unwrap_or_default().into_iter().find(|it| it.index == 0) else { return Ok(()) };
        if let Some(reason) = choice.finish_reason.filter(|it| !it.is_empty()) {
            self.finish = Some(reason);
        }
        let delta = choice.delta.unwrap_or_default();
        if let Some(text) = delta.reasoning_content.and_then(words) {
            self.reasoning.push_str(&text);
            out.push(Delta::Reasoning(text));
        }
        self.refused |= delta.refusal.is_some_and(|it| it.get() != "null");
        for text in [delta.content, delta.refusal].into_iter().flatten().filter_map(words) {
            self.text.push_str(&text);
            out.push(Delta::Text(text));
        }
        for it in delta.tool_calls.unwrap_or_default() {
            self.tool(it);
        }
        Ok(())
    }

    /// Merges a piece of a tool call. Endpoints disagree on index and id: some repeat index 0 for parallel calls, some
    /// send no index, some send the id once, some never.
    fn tool(&mut self, it: ToolDelta) {
        let id = it.id.filter(|it| !it.is_empty()).unwrap_or_default();
        let function = it.function;
        let name = function.as_ref().and_then(|it| it.name.clone()).filter(|it| !it.is_empty()).unwrap_or_default();
        let at = self.slot_for(it.index, &id, &name);
        let slot = &mut self.slots[at];
        if !id.is_empty() {
            slot.id = id;
        }
        if !name.is_empty() {
            slot.name = name;
        }
        if let Some(args) = function.and_then(|it| it.arguments) {
            match serde_json::from_str::<String>(args.get()) {
                Ok(text) => slot.args.push_str(&text),
                Err(_) if args.get() == "null" => {}
                Err(_) => slot.args.push_str(args.get()),
            }
        }
    }

    fn slot_for(&mut self, index: Option<i64>, id: &str, name: &str) -> usize {
        let known = (!id.is_empty()).then(|| self.slots.iter().rposition(|it| it.id == id)).flatten();
        let near = match index {
            Some(_) => self.slots.iter().rposition(|it| it.index == index),
            None => self.slots.len().checked_sub(1),
        };
        if let Some(at) = known {
            return at;
        }
        if let Some(at) = near {
            let slot = &self.slots[at];
            let other_id = !id.is_empty() && !slot.id.is_empty();
            let other_call = id.is_empty() && !name.is_empty() && slot.is_whole();
            let unindexed = index.is_none() && !id.is_empty() && slot.is_whole();
            if !other_id && !other_call && !unindexed {
                return at;
            }
        }
        self.slots.push(Slot { index, ..Slot::default() });
        self.slots.len() - 1
    }
}

/// A string, or an array of parts with a `text` each.
fn words(raw: &RawValue) -> Option<String> {
    #[derive(Deserialize)]
    struct Piece {
        #[serde(default)]
        text: Option<String>,
    }
    let text = match raw.get().as_bytes().first() {
        Some(b'"') => serde_json::from_str(raw.get()).ok()?,
        Some(b'[') => {
            let pieces: Vec<Piece> = serde_json::from_str(raw.get()).ok()?;
            pieces.into_iter().filter_map(|it| it.text).collect()
        }
        _ => return None,
    };
    Some(text).filter(|it: &String| !it.is_empty())
}

fn stream_error(error: &RawValue) -> Failure {
    let json = serde_json::from_str(error.get()).unwrap_or(serde_json::Value::Null);
    let said = message_in(&json).unwrap_or_else(|| "an error without words".to_owned());
    Failure { transient: true, ..Failure::fatal(said) }
}

/// Decodes a whole body that was not streamed.
pub(crate) fn whole(body: &str) -> Result<(Assistant, Vec<Delta>), Failure> {
    let (mut state, mut out) = (State::default(), Vec::new());
    state.event(body, &mut out)?;
    if state.finish.is_none() {
        return Err(Failure::fatal("the answer holds no choice"));
    }
    Ok((state.answer(), out))
}

/// Everything of a request body before the messages.
pub(crate) fn head(model: &str, system: &str, tools: &[ToolSpec], sampling: &Sampling) -> String {
    let mut out = String::from("{\"model\":");
    push_json(&mut out, model);
    out.push_str(&sampling.fields(Wire::Chat, model));
    if !tools.is_empty() {
        out.push_str(",\"tools\":[");
        for (n, tool) in tools.iter().enumerate() {
            out.push_str(if n == 0 {
                "{\"type\":\"function\",\"function\":{\"name\":"
            } else {
                ",{\"type\":\"function\",\"function\":{\"name\":"
            });
            push_json(&mut out, &tool.name);
            out.push_str(",\"description\":");
            push_json(&mut out, &tool.description);
            out.push_str(",\"parameters\":");
            out.push_str(&tool.schema);
            out.push_str("}}");
        }
        out.push_str("],\"tool_choice\":\"auto\"");
    }
    out.push_str(",\"messages\":[{\"role\":\"system\",\"content\":");
    push_json(&mut out, system);
    out.push('}');
    out
}

/// Appends one item as messages, each with a comma before it.
pub(crate) fn push(out: &mut String, item: &Item) {
    match item {
        Item::User(text) => {
            out.push_str(",{\"role\":\"user\",\"content\":");
            push_json(out, text);
            out.push('}');
        }
        Item::Assistant(it) => push_assistant(out, it),
        Item::Results(results) => {
            for (id, _, outcome, note) in results {
                out.push_str(",{\"role\":\"tool\",\"tool_call_id\":");
                push_json(out, &id.0);
                out.push_str(",\"content\":");
                push_json(out, &crate::body::result_text(outcome, note.as_deref()));
                out.push('}');
            }
        }
    }
}

fn push_assistant(out: &mut String, it: &Assistant) {
    let (text, calls) = (it.text(), it.calls().collect::<Vec<_>>());
    if text.is_empty() && calls.is_empty() {
        return;
    }
    out.push_str(",{\"role\":\"assistant\",\"content\":");
    if text.is_empty() {
        out.push_str("null");
    } else {
        push_json(out, &text);
    }
    if !calls.is_empty() {
        // Endpoints that reason between calls want their reasoning back with the calls, and only then.
        for part in &it.parts {
            let Part::Opaque(part) = part else { continue };
            let inner = part.json.get().trim_start_matches('{').trim_end_matches('}');
            if part.wire == NAME {
                out.push(',');
                out.push_str(inner);
            }
        }
        out.push_str(",\"tool_calls\":[");
        for (n, call) in calls.iter().enumerate() {
            out.push_str(if n == 0 { "{\"id\":" } else { ",{\"id\":" });
            push_json(out, &call.id.0);
            out.push_str(",\"type\":\"function\",\"function\":{\"name\":");
            push_json(out, &crate::body::sendable_name(&call.tool));
            out.push_str(",\"arguments\":");
            push_json(out, crate::body::sendable_args(&call.args));
            out.push_str("}}");
        }
        out.push(']');
    }
    out.push('}');
}

/// Everything of a request body after the messages.
pub(crate) fn tail(ask_usage: Asks) -> &'static str {
    match ask_usage {
        Asks::Usage => "],\"stream\":true,\"stream_options\":{\"include_usage\":true}}",
        Asks::Plain => "],\"stream\":true}",
    }
}

/// Whether the endpoint is asked to count tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Asks {
    Usage,
    Plain,
}

pub(crate) fn push_json(out: &mut String, text: &str) {
    // A string always serialises.
    out.push_str(&serde_json::to_string(text).unwrap_or_default());
}
