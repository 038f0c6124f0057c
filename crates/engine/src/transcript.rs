//! `transcript.json`: what the model sees, for people and programs that know sid's manual; made from the journal, never read by sid.
use serde_json::{Value, json};
use sid_core::{Item, Part};

/// The conversation in the form of the manual, version 1.
pub(crate) fn transcript(items: &[Item]) -> Value {
    let messages: Vec<Value> = items.iter().map(message).filter(|it| it["content"] != json!([])).collect();
    json!({ "version": 1, "messages": messages })
}

fn message(item: &Item) -> Value {
    match item {
        Item::User(text) => json!({ "role": "user", "content": text }),
        Item::Assistant(it) => {
            let blocks: Vec<Value> = it.parts.iter().filter_map(block).collect();
            json!({ "role": "assistant", "content": blocks })
        }
        Item::Results(all) => {
            let blocks = all.iter().map(|(id, _, outcome, _)| {
                let mut it = json!({ "type": "tool_result", "tool_use_id": id.0, "content": outcome.text });
                if outcome.is_error() {
                    it["is_error"] = json!(true);
                }
                it
            });
            json!({ "role": "user", "content": blocks.collect::<Vec<_>>() })
        }
    }
}

fn block(part: &Part) -> Option<Value> {
    match part {
        Part::Text(text) => Some(json!({ "type": "text", "text": text })),
        Part::Call(call) => {
            let input: Value = serde_json::from_str(&call.args).unwrap_or_else(|_| json!({}));
            Some(json!({ "type": "tool_use", "id": call.id.0, "name": call.tool, "input": input }))
        }
        Part::Opaque(it) => serde_json::from_str(it.json.get()).ok(),
    }
}
