use std::time::Duration;

use serde_json::{Value, json};

/// The wire of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wire {
    /// OpenAI Chat Completions.
    Chat,
    /// Anthropic Messages.
    Messages,
}

/// What the fake answers to one request.
#[derive(Debug, Clone)]
pub enum Reply {
    /// Words, streamed in these pieces.
    Text(Vec<String>),
    /// Words, then calls: tool and arguments as the model would write them.
    Calls(String, Vec<(String, String)>),
    /// The same with another reason to stop than usual (`length`, `stop`, … in the words of Chat Completions).
    Stops(Box<Reply>, &'static str),
    /// A status with headers and a body.
    Status(u16, Vec<(&'static str, String)>, String),
    /// A streamed body in exactly these pieces.
    Raw(Vec<Vec<u8>>),
    /// A streamed body that breaks off after these pieces.
    Cut(Vec<Vec<u8>>),
    /// A whole body of this content type.
    Whole(&'static str, String),
    /// Nothing, for this long; then the connection ends.
    Silence(Duration),
    /// Wait, then answer.
    Late(Duration, Box<Reply>),
}

impl Reply {
    /// Words in one piece.
    #[must_use]
    pub fn text(text: &str) -> Self {
        Self::Text(vec![text.to_owned()])
    }

    /// One call.
    #[must_use]
    pub fn call(tool: &str, args: &Value) -> Self {
        Self::Calls(String::new(), vec![(tool.to_owned(), args.to_string())])
    }

    /// Several calls.
    #[must_use]
    pub fn calls<const N: usize>(calls: [(&str, Value); N]) -> Self {
        Self::Calls(String::new(), calls.map(|(tool, args)| (tool.to_owned(), args.to_string())).to_vec())
    }

    /// The events of a streamed answer, each one frame. `n` makes ids unique.
    pub(crate) fn frames(&self, wire: Wire, n: usize) -> Vec<Vec<u8>> {
        let (reply, stop) = match self {
            Self::Stops(inner, stop) => (inner.as_ref(), Some(*stop)),
            other => (other, None),
        };
        let (texts, calls) = match reply {
            Self::Text(texts) => (texts.clone(), Vec::new()),
            Self::Calls(text, calls) => (vec![text.clone()], calls.clone()),
            _ => return Vec::new(),
        };
        let texts: Vec<String> = texts.into_iter().filter(|it| !it.is_empty()).collect();
        match wire {
            Wire::Chat => chat(&texts, &calls, stop, n),
            Wire::Messages => messages(&texts, &calls, stop, n),
        }
    }
}

fn chat(texts: &[String], calls: &[(String, String)], stop: Option<&str>, n: usize) -> Vec<Vec<u8>> {
    let chunk = |delta: Value, finish: Option<&str>| json!({"id": "x", "object": "chat.completion.chunk", "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]});
    let mut events = vec![chunk(json!({"role": "assistant", "content": ""}), None)];
    events.extend(texts.iter().map(|it| chunk(json!({ "content": it }), None)));
    for (index, (tool, args)) in calls.iter().enumerate() {
        let head = json!([{"index": index, "id": format!("call_{n}_{index}"), "type": "function", "function": {"name": tool, "arguments": ""}}]);
        events.push(chunk(json!({ "tool_calls": head }), None));
        events.push(chunk(json!({"tool_calls": [{"index": index, "function": {"arguments": args}}]}), None));
    }
    events.push(chunk(json!({}), Some(stop.unwrap_or(if calls.is_empty() { "stop" } else { "tool_calls" }))));
    events.push(json!({"choices": [], "usage": {"prompt_tokens": 100, "completion_tokens": 10, "prompt_tokens_details": {"cached_tokens": 40}}}));
    let mut frames: Vec<Vec<u8>> = events.iter().map(|it| format!("data: {it}\n\n").into_bytes()).collect();
    frames.push(b"data: [DONE]\n\n".to_vec());
    frames
}

fn messages(texts: &[String], calls: &[(String, String)], stop: Option<&str>, n: usize) -> Vec<Vec<u8>> {
    let usage = json!({"input_tokens": 60, "cache_read_input_tokens": 40, "cache_creation_input_tokens": 0, "output_tokens": 1});
    let mut events = vec![
        json!({"type": "message_start", "message": {"id": format!("msg_{n}"), "type": "message", "role": "assistant", "content": [], "usage": usage}}),
    ];
    let mut index = 0;
    if !texts.is_empty() {
        events.push(json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}));
        events.extend(
            texts.iter().map(|it| json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": it}})),
        );
        events.push(json!({"type": "content_block_stop", "index": 0}));
        index = 1;
    }
    for (at, (tool, args)) in calls.iter().enumerate() {
        let block = json!({"type": "tool_use", "id": format!("toolu_{n}_{at}"), "name": tool, "input": {}});
        events.push(json!({"type": "content_block_start", "index": index, "content_block": block}));
        events.push(
            json!({"type": "content_block_delta", "index": index, "delta": {"type": "input_json_delta", "partial_json": args}}),
        );
        events.push(json!({"type": "content_block_stop", "index": index}));
        index += 1;
    }
    let reason = match stop {
        Some("length") => "max_tokens",
        Some("content_filter") => "refusal",
        Some("stop") => "end_turn",
        Some(other) => other,
        None if calls.is_empty() => "end_turn",
        None => "tool_use",
    };
    events.push(json!({"type": "message_delta", "delta": {"stop_reason": reason}, "usage": {"output_tokens": 10}}));
    events.push(json!({"type": "message_stop"}));
    let frame = |it: &Value| format!("event: {}\ndata: {it}\n\n", it["type"].as_str().unwrap_or_default()).into_bytes();
    events.iter().map(frame).collect()
}
