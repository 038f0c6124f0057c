//! Anthropic Messages and compatible endpoints: decode and encode.
use serde::Deserialize;
use serde_json::{Map, Value, value::RawValue};
use sid_core::{Assistant, Call, CallId, Delta, Item, Opaque, Part, Stop, Usage};

use crate::{Failure, Sampling, ToolSpec, Wire, chat::push_json, failure::message_in};

/// The wire's name in journals.
pub(crate) const NAME: &str = "messages";

#[derive(Deserialize)]
struct Event<'a> {
    #[serde(rename = "type", default)]
    kind: String,
    #[serde(default)]
    index: usize,
    #[serde(borrow, default)]
    message: Option<&'a RawValue>,
    #[serde(default)]
    content_block: Option<Map<String, Value>>,
    #[serde(borrow, default)]
    delta: Option<&'a RawValue>,
    #[serde(default)]
    usage: Option<WireUsage>,
    #[serde(default)]
    error: Option<Value>,
}

#[derive(Deserialize, Default)]
struct WireUsage {
    #[serde(default)]
    input_tokens: Option<u64>,
    #[serde(default)]
    output_tokens: Option<u64>,
    #[serde(default)]
    cache_read_input_tokens: Option<u64>,
    #[serde(default)]
    cache_creation_input_tokens: Option<u64>,
}

#[derive(Deserialize)]
struct Start {
    #[serde(default)]
    id: String,
    #[serde(default)]
    usage: Option<WireUsage>,
}

#[derive(Deserialize)]
struct Fields {
    #[serde(rename = "type", default)]
    kind: String,
    #[serde(default)]
    text: Option<String>,
    #[serde(default)]
    partial_json: Option<String>,
    #[serde(default)]
    stop_reason: Option<String>,
}

#[derive(Debug, Default)]
struct Block {
    fields: Map<String, Value>,
    text: String,
    json: String,
}

/// What of a response has come.
#[derive(Debug, Default)]
pub(crate) struct State {
    id: String,
    blocks: Vec<(usize, Block)>,
    stop: Option<String>,
    ended: bool,
    usage: Option<Usage>,
}

impl State {
    pub(crate) fn is_over(&self) -> bool {
        self.ended || self.stop.is_some()
    }

    pub(crate) fn answer(self) -> Assistant {
        let stop = match self.stop.as_deref() {
            Some("max_tokens" | "model_context_window_exceeded") => Stop::Length,
            Some("refusal") => Stop::Refusal,
            _ => Stop::End,
        };
        let mut parts = Vec::new();
        for (_, block) in self.blocks {
            block.into_parts(&mut parts);
        }
        Assistant { parts, stop, usage: self.usage, ..Assistant::default() }
    }
}

impl State {
    pub(crate) fn event(&mut self, text: &str, out: &mut Vec<Delta>) -> Result<(), Failure> {
        let Ok(event) = serde_json::from_str::<Event>(text) else { return Ok(()) };
        match event.kind.as_str() {
            "message_start" => self.start(event.message),
            "content_block_start" => {
                self.blocks.retain(|(at, _)| *at != event.index);
                let mut block = Block { fields: event.content_block.unwrap_or_default(), ..Block::default() };
                if let Some(Value::String(text)) = block.fields.get_mut("text") {
                    block.text = std::mem::take(text);
                }
                if block.is("text") && !block.text.is_empty() {
                    out.push(Delta::Text(block.text.clone()));
                }
                self.blocks.push((event.index, block));
            }
            "content_block_delta" => self.delta(event.index, event.delta, out),
            "message_delta" => {
                let fields = event.delta.and_then(|it| serde_json::from_str::<Fields>(it.get()).ok());
                self.stop = fields.and_then(|it| it.stop_reason).or_else(|| self.stop.take());
                self.count(event.usage);
            }
            "message_stop" => self.ended = true,
            "error" => {
                let error = event.error.unwrap_or(Value::Null);
                let said = message_in(&error).unwrap_or_else(|| "an error without words".to_owned());
                return Err(Failure { transient: true, ..Failure::fatal(said) });
            }
            _ => {}
        }
        Ok(())
    }

    /// A second start with another id takes the place of an answer that was given up in between.
    fn start(&mut self, message: Option<&RawValue>) {
        let Some(start) = message.and_then(|it| serde_json::from_str::<Start>(it.get()).ok()) else { return };
        if start.id != self.id {
            self.blocks.clear();
        }
        self.id = start.id;
        self.count(start.usage);
    }

    fn count(&mut self, usage: Option<WireUsage>) {
        let Some(it) = usage else { return };
        let mine = self.usage.get_or_insert_default();
        mine.input = it.input_tokens.unwrap_or(mine.input);
        mine.output = it.output_tokens.unwrap_or(mine.output);
        mine.cache_read = it.cache_read_input_tokens.unwrap_or(mine.cache_read);
        mine.cache_write = it.cache_creation_input_tokens.unwrap_or(mine.cache_write);
    }

    fn delta(&mut self, index: usize, delta: Option<&RawValue>, out: &mut Vec<Delta>) {
        let Some(raw) = delta else { return };
        let Ok(fields) = serde_json::from_str::<Fields>(raw.get()) else { return };
        if !self.blocks.iter().any(|(at, _)| *at == index) {
            let kind = if fields.kind == "text_delta" { "text" } else { return };
            let fields = Map::from_iter([("type".to_owned(), Value::from(kind))]);
            self.blocks.push((index, Block { fields, ..Block::default() }));
        }
        let Some((_, block)) = self.blocks.iter_mut().rfind(|(at, _)| *at == index) else { return };
        match (fields.kind.as_str(), fields.text, fields.partial_json) {
            ("text_delta", Some(text), _) => {
                block.text.push_str(&text);
                out.push(Delta::Text(text));
            }
            ("input_json_delta", _, Some(json)) => block.json.push_str(&json),
            _ => block.merge(raw, out),
        }
    }
}

impl Block {
    fn is(&self, kind: &str) -> bool {
        self.fields.get("type").and_then(Value::as_str) == Some(kind)
    }

    /// Any other delta, known today or not: strings grow, `citation` joins `citations`, the rest replaces.
    fn merge(&mut self, raw: &RawValue, out: &mut Vec<Delta>) {
        let Ok(Value::Object(delta)) = serde_json::from_str(raw.get()) else { return };
        for (key, value) in delta.into_iter().filter(|(key, _)| key != "type") {
            if let ("thinking", Value::String(text)) = (key.as_str(), &value) {
                out.push(Delta::Reasoning(text.clone()));
            }
            if key == "citation" {
                let list = self.fields.entry("citations").or_insert(Value::Null);
                if let Value::Array(list) = list {
                    list.push(value);
                } else {
                    *list = Value::Array(vec![value]);
                }
                continue;
            }
            match (self.fields.get_mut(&key), value) {
                (Some(Value::String(old)), Value::String(more)) => old.push_str(&more),
                (_, value) => {
                    self.fields.insert(key, value);
                }
            }
        }
    }

    fn into_parts(mut self, parts: &mut Vec<Part>) {
        let string = |it: Option<&Value>| it.and_then(Value::as_str).unwrap_or_default().to_owned();
        if self.is("tool_use") {
            let given = self.fields.get("input").filter(|it| it.as_object().is_some_and(|it| !it.is_empty()));
            let args = match given {
                Some(input) if self.json.is_empty() => input.to_string(),
                _ => self.json,
            };
            let (id, tool) = (CallId(string(self.fields.get("id"))), string(self.fields.get("name")));
            parts.push(Part::Call(Call { id, tool, args }));
            return;
        }
        if self.is("text") {
            self.fields.retain(|key, value| !matches!(key.as_str(), "type" | "text") && !value.is_null());
            if !self.text.is_empty() {
                parts.push(Part::Text(self.text));
            }
            if self.fields.is_empty() {
                return;
            }
        } else if let Ok(input) = serde_json::from_str::<Value>(&self.json) {
            self.fields.insert("input".to_owned(), input);
        }
        if let Ok(json) = serde_json::value::to_raw_value(&self.fields) {
            parts.push(Part::Opaque(Opaque { wire: NAME.into(), json }));
        }
    }
}

/// Decodes a whole body that was not streamed.
pub(crate) fn whole(body: &str) -> Result<(Assistant, Vec<Delta>), Failure> {
    #[derive(Deserialize)]
    struct Body {
        content: Vec<Map<String, Value>>,
        #[serde(default)]
        stop_reason: Option<String>,
        #[serde(default)]
        usage: Option<WireUsage>,
    }
    let body: Body = serde_json::from_str(body).map_err(|_| Failure::fatal("the answer is not a message"))?;
    let mut state = State { stop: body.stop_reason, ..State::default() };
    state.count(body.usage);
    let mut out = Vec::new();
    for (at, mut fields) in body.content.into_iter().enumerate() {
        let text = match fields.get_mut("text") {
            Some(Value::String(text)) => std::mem::take(text),
            _ => String::new(),
        };
        if !text.is_empty() {
            out.push(Delta::Text(text.clone()));
        }
        state.blocks.push((at, Block { fields, text, json: String::new() }));
    }
    Ok((state.answer(), out))
}

/// Everything of a request body before the messages. The end of the system prompt is a cache breakpoint.
pub(crate) fn head(model: &str, system: &str, tools: &[ToolSpec], sampling: &Sampling) -> String {
    let mut out = String::from("{\"model\":");
    push_json(&mut out, model);
    out.push_str(&sampling.fields(Wire::Messages, model));
    if !tools.is_empty() {
        out.push_str(",\"tools\":[");
        for (n, tool) in tools.iter().enumerate() {
            out.push_str(if n == 0 { "{\"name\":" } else { ",{\"name\":" });
            push_json(&mut out, &tool.name);
            out.push_str(",\"description\":");
            push_json(&mut out, &tool.description);
            out.push_str(",\"input_schema\":");
            out.push_str(&tool.schema);
            out.push('}');
        }
        out.push(']');
    }
    out.push_str(",\"system\":[{\"type\":\"text\",\"text\":");
    push_json(&mut out, system);
    out.push_str(if sampling.caching { BREAKPOINT } else { "" });
    out.push_str("}],\"messages\":[");
    out
}

/// The output limit each model family accepts (Anthropic's model overview); enough for a large file in one call.
pub(crate) fn max_tokens(model: &str) -> u32 {
    if model.contains("claude-3-5") {
        8192
    } else if model.contains("claude-3-opus") || model.contains("claude-3-haiku") || model.contains("claude-3-sonnet") {
        4096
    } else {
        32_000
    }
}

/// Appends one item as a message, with a comma before it unless it is the first.
pub(crate) fn push(out: &mut String, item: &Item) {
    let mut blocks = String::new();
    let role = match item {
        Item::User(text) => {
            push_text(&mut blocks, text);
            "user"
        }
        Item::Assistant(it) => {
            for part in &it.parts {
                push_part(&mut blocks, part);
            }
            "assistant"
        }
        Item::Results(results) => {
            for (id, _, outcome, note) in results {
                comma(&mut blocks);
                blocks.push_str("{\"type\":\"tool_result\",\"tool_use_id\":");
                push_json(&mut blocks, &wire_id(id));
                blocks.push_str(",\"content\":");
                push_json(&mut blocks, &crate::body::result_text(outcome, note.as_deref()));
                blocks.push_str(if outcome.is_error() { ",\"is_error\":true}" } else { "}" });
            }
            "user"
        }
    };
    if blocks.is_empty() {
        return;
    }
    comma(out);
    out.push_str("{\"role\":\"");
    out.push_str(role);
    out.push_str("\",\"content\":[");
    out.push_str(&blocks);
    out.push_str("]}");
}

fn push_part(blocks: &mut String, part: &Part) {
    match part {
        Part::Text(text) if text.trim().is_empty() => {}
        Part::Text(text) => push_text(blocks, text),
        Part::Call(call) => {
            comma(blocks);
            blocks.push_str("{\"type\":\"tool_use\",\"id\":");
            push_json(blocks, &wire_id(&call.id));
            blocks.push_str(",\"name\":");
            push_json(blocks, &crate::body::sendable_name(&call.tool));
            blocks.push_str(",\"input\":");
            blocks.push_str(crate::body::sendable_args(&call.args));
            blocks.push('}');
        }
        Part::Opaque(it) if it.wire == NAME => {
            let json = it.json.get();
            if json.starts_with("{\"type\":") || json.contains("\"type\":") && !json.starts_with("{\"citations\"") {
                comma(blocks);
                blocks.push_str(json);
            } else if blocks.ends_with('}') && json.len() > 2 {
                // Fields of the text block before it.
                blocks.pop();
                blocks.push(',');
                blocks.push_str(&json[1..]);
            }
        }
        Part::Opaque(_) => {}
    }
}

fn push_text(blocks: &mut String, text: &str) {
    comma(blocks);
    blocks.push_str("{\"type\":\"text\",\"text\":");
    push_json(blocks, text);
    blocks.push('}');
}

fn comma(out: &mut String) {
    if out.ends_with(['}', ']']) {
        out.push(',');
    }
}

/// Ids of other wires may hold characters that this one refuses.
fn wire_id(id: &CallId) -> String {
    id.0.chars().map(|it| if it.is_ascii_alphanumeric() || "_-".contains(it) { it } else { '_' }).collect()
}

/// Everything of a request body after the messages.
pub(crate) fn tail(tools: crate::body::Tools) -> &'static str {
    match tools {
        crate::body::Tools::Offered => "],\"stream\":true}",
        crate::body::Tools::Withheld => "],\"tool_choice\":{\"type\":\"none\"},\"stream\":true}",
    }
}

/// The cache breakpoint goes on the last block of the last message.
pub(crate) const BREAKPOINT: &str = ",\"cache_control\":{\"type\":\"ephemeral\"}";
