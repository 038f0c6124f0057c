//! What a real endpoint refuses.
use std::collections::BTreeSet;

use serde_json::Value;

use crate::Wire;

/// Largest body an endpoint takes.
const LARGEST: usize = 32 << 20;

/// Why a real endpoint would answer 400, or nothing.
#[must_use]
pub fn check(wire: Wire, headers: &[(String, String)], body: &[u8]) -> Option<String> {
    let header = |name: &str| headers.iter().find(|(it, _)| it == name).map(|(_, value)| value.as_str());
    if body.len() > LARGEST {
        return Some("the body is too large".into());
    }
    let Ok(json) = serde_json::from_slice::<Value>(body) else { return Some("the body is not JSON".into()) };
    if json["model"].as_str().is_none_or(str::is_empty) {
        return Some("model is missing".into());
    }
    if json["stream"] != Value::Bool(true) {
        return Some("stream is not set".into());
    }
    if header("content-type") != Some("application/json") {
        return Some("the content type is not JSON".into());
    }

    match wire {
        Wire::Chat => tools(&json, "/function/name", "/function/parameters").or_else(|| chat(&json)),
        Wire::Messages => {
            if header("anthropic-version").is_none() {
                return Some("anthropic-version is missing".into());
            }
            tools(&json, "/name", "/input_schema").or_else(|| messages(&json))
        }
    }
}

fn legal_name(name: &str) -> bool {
    (1..=64).contains(&name.len()) && name.chars().all(|it| it.is_ascii_alphanumeric() || "_-".contains(it))
}

fn tools(json: &Value, name_at: &str, schema_at: &str) -> Option<String> {
    let list = match &json["tools"] {
        Value::Null => return json.get("tools").map(|_| "tools is null".to_owned()),
        Value::Array(list) if list.is_empty() => return Some("tools is empty".into()),
        Value::Array(list) => list,
        _ => return Some("tools is no list".into()),
    };
    let mut names = BTreeSet::new();
    for tool in list {
        let name = tool.pointer(name_at).and_then(Value::as_str).unwrap_or_default();
        if !legal_name(name) || !names.insert(name) {
            return Some(format!("tool name '{name}' is illegal or repeated"));
        }
        let schema = tool.pointer(schema_at).unwrap_or(&Value::Null);
        if schema["type"] != "object" || !schema["properties"].is_object() {
            return Some(format!("the schema of {name} is no object"));
        }
        let required = schema["required"].as_array().cloned().unwrap_or_default();
        if let Some(lost) = required.iter().find(|it| schema["properties"].get(it.as_str().unwrap_or_default()).is_none()) {
            return Some(format!("{name} requires {lost}, which it does not describe"));
        }
    }
    None
}

fn chat(json: &Value) -> Option<String> {
    let list = json["messages"].as_array()?;
    if list.first().is_none_or(|it| it["role"] != "system") {
        return Some("the first message is not the system's".into());
    }
    let mut open: Vec<String> = Vec::new();
    for (n, message) in list.iter().enumerate() {
        let role = message["role"].as_str().unwrap_or_default();
        if role == "tool" {
            let id = message["tool_call_id"].as_str().unwrap_or_default();
            let Some(at) = open.iter().position(|it| it == id) else {
                return Some(format!("message {n}: result of '{id}', which is not open"));
            };
            open.remove(at);
            if message["content"].as_str().is_none_or(str::is_empty) {
                return Some(format!("message {n}: an empty result"));
            }
            continue;
        }
        if !open.is_empty() {
            return Some(format!("message {n}: calls {open:?} have no result"));
        }
        let calls = message["tool_calls"].as_array();
        let has_text = message["content"].as_str().is_some_and(|it| !it.is_empty());
        match role {
            "system" | "user" if has_text => {}
            "assistant" if has_text || (message["content"].is_null() && calls.is_some()) => {}
            _ => return Some(format!("message {n}: role '{role}' with illegal content")),
        }
        for call in calls.into_iter().flatten() {
            let id = call["id"].as_str().unwrap_or_default().to_owned();
            if id.is_empty() || open.contains(&id) || call["type"] != "function" {
                return Some(format!("message {n}: call id '{id}' is missing or repeated"));
            }
            let args = call.pointer("/function/arguments").and_then(Value::as_str).unwrap_or_default();
            if !serde_json::from_str::<Value>(args).is_ok_and(|it| it.is_object()) {
                return Some(format!("message {n}: arguments of {id} are no JSON object: {args}"));
            }
            if !legal_name(call.pointer("/function/name").and_then(Value::as_str).unwrap_or_default()) {
                return Some(format!("message {n}: the function of {id} has an illegal name"));
            }
            open.push(id);
        }
    }
    (!open.is_empty()).then(|| format!("calls {open:?} have no result"))
}

fn messages(json: &Value) -> Option<String> {
    if json["max_tokens"].as_u64().is_none_or(|it| it == 0) {
        return Some("max_tokens is missing".into());
    }
    let list = json["messages"].as_array()?;
    if list.first().is_none_or(|it| it["role"] != "user") {
        return Some("the first message is not the user's".into());
    }
    if json.to_string().matches("\"cache_control\"").count() > 4 {
        return Some("more than four cache breakpoints".into());
    }
    let mut open: BTreeSet<String> = BTreeSet::new();
    for (n, message) in list.iter().enumerate() {
        let Some(blocks) = message["content"].as_array().filter(|it| !it.is_empty()) else {
            return Some(format!("message {n}: no content"));
        };
        let mut answered = BTreeSet::new();
        let mut asked = BTreeSet::new();
        for block in blocks {
            match (block["type"].as_str().unwrap_or_default(), message["role"].as_str().unwrap_or_default()) {
                ("text", "user" | "assistant") if block["text"].as_str().is_some_and(|it| !it.trim().is_empty()) => {}
                ("tool_use", "assistant")
                    if block["input"].is_object() && legal_name(block["name"].as_str().unwrap_or_default()) =>
                {
                    let id = block["id"].as_str().unwrap_or_default();
                    if !legal_name(id) || !asked.insert(id.to_owned()) {
                        return Some(format!("message {n}: id '{id}' is illegal or repeated"));
                    }
                }
                ("tool_result", "user") if block["content"].as_str().is_some_and(|it| !it.is_empty()) => {
                    answered.insert(block["tool_use_id"].as_str().unwrap_or_default().to_owned());
                }
                ("thinking" | "redacted_thinking", "assistant") => {}
                (kind, role) => return Some(format!("message {n}: an illegal {kind} block of {role}: {block}")),
            }
        }
        if answered != open {
            return Some(format!("message {n}: calls {open:?} were answered by {answered:?}"));
        }
        open = asked;
    }
    (!open.is_empty()).then(|| format!("calls {open:?} have no result"))
}
