//! `transcript.json`: what the model sees, for people and programs that know sid's manual; made from the journal, and read when a
//! person loads one.
use serde::Deserialize;
use serde_json::{Value, json};
use sid_core::{Assistant, Call, CallId, Finished, Item, Outcome, Part, Record, Status, User};

use crate::{Engine, clock::now};

/// The conversation in the form of the manual, version 1.
pub(crate) fn transcript(items: &[Item]) -> Value {
    let messages: Vec<Value> = items.iter().map(message).filter(|it| it["content"] != json!([])).collect();
    json!({ "version": 1, "messages": messages })
}

fn message(item: &Item) -> Value {
    match item {
        Item::User(text) => json!({ "role": "user", "content": text }),
        Item::Assistant(it) => json!({ "role": "assistant", "content": blocks(it) }),
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

/// An answer's parts as content blocks.
pub(crate) fn blocks(it: &Assistant) -> Vec<Value> {
    it.parts.iter().filter_map(block).collect()
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

#[derive(Deserialize)]
struct Transcript {
    version: u64,
    messages: Vec<Message>,
}

#[derive(Deserialize)]
struct Message {
    role: String,
    content: Content,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Content {
    Text(String),
    Blocks(Vec<Block>),
}

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Block {
    Text {
        text: String,
    },
    ToolUse {
        id: String,
        name: String,
        input: Value,
    },
    ToolResult {
        tool_use_id: String,
        #[serde(default)]
        content: Option<Content>,
        #[serde(default)]
        is_error: bool,
    },
    /// Thinking is bound to the model that thought it; pictures and the like are not kept.
    #[serde(other)]
    Other,
}

impl Content {
    fn blocks(self) -> Vec<Block> {
        match self {
            Self::Text(text) => vec![Block::Text { text }],
            Self::Blocks(it) => it,
        }
    }

    fn text(self) -> String {
        let texts = self.blocks().into_iter().filter_map(|it| if let Block::Text { text } = it { Some(text) } else { None });
        texts.collect::<Vec<_>>().join("\n")
    }
}

/// The records of a transcript. A call without a result counts as cancelled: it is not to be run now.
fn records(text: &str) -> Result<Vec<Record>, String> {
    let it: Transcript = serde_json::from_str(text).map_err(|err| format!("it is no transcript: {err}"))?;
    if it.version != 1 {
        return Err(format!("it is a transcript of version {}; sid reads version 1", it.version));
    }
    let (mut out, mut open): (Vec<Record>, Vec<CallId>) = (Vec::new(), Vec::new());
    let finished = |call: CallId, outcome: Outcome| Record::Finished(Finished { at: now(), call, outcome, note: None });
    for (n, message) in it.messages.into_iter().enumerate() {
        let (mut texts, mut parts) = (Vec::new(), Vec::new());
        for block in message.content.blocks() {
            match (message.role.as_str(), block) {
                ("user", Block::Text { text }) => texts.push(text),
                ("user", Block::ToolResult { tool_use_id, content, is_error }) => {
                    let call = CallId(tool_use_id);
                    if !open.contains(&call) {
                        return Err(format!("message {}: a result of `{}`, which is no open call", n + 1, call.0.escape_debug()));
                    }
                    open.retain(|it| *it != call);
                    let status = if is_error { Status::Failed } else { Status::Ok };
                    out.push(finished(call, Outcome::new(status, content.map(Content::text).unwrap_or_default())));
                }
                ("assistant", Block::Text { text }) => parts.push(Part::Text(text)),
                ("assistant", Block::ToolUse { id, name, input }) => {
                    parts.push(Part::Call(Call { id: CallId(id), tool: name, args: input.to_string() }));
                }
                ("user" | "assistant", _) => {}
                (role, _) => {
                    return Err(format!("message {}: the role `{}` is neither user nor assistant", n + 1, role.escape_debug()));
                }
            }
        }
        if !texts.is_empty() || !parts.is_empty() {
            out.extend(open.drain(..).map(|it| finished(it, Outcome::new(Status::Cancelled, "user cancelled action"))));
        }
        if !texts.is_empty() {
            out.push(Record::User(User { at: now(), text: texts.join("\n\n"), ..User::default() }));
        }
        if !parts.is_empty() {
            let answer = Assistant { at: now(), parts, ..Assistant::default() };
            open.extend(answer.calls().map(|it| it.id.clone()));
            out.push(Record::Assistant(answer));
        }
    }
    out.extend(open.into_iter().map(|it| finished(it, Outcome::new(Status::Cancelled, "user cancelled action"))));
    if out.is_empty() { Err("it has no messages".to_owned()) } else { Ok(out) }
}

/// Whether a text is a transcript that can be loaded, before anything is given up for it.
///
/// # Errors
/// Why not, in half a sentence.
pub fn check_transcript(text: &str) -> Result<(), String> {
    records(text).map(drop)
}

impl Engine {
    /// The conversation so far, in the form of the manual.
    ///
    /// # Errors
    /// The journal can't be read.
    pub fn transcript(&self) -> Result<Value, String> {
        Ok(transcript(&self.items()?))
    }

    /// Begins a session that is new with the messages of a transcript.
    ///
    /// # Errors
    /// It is none, or the journal can't be written.
    pub fn load(&mut self, text: &str) -> Result<(), String> {
        for record in records(text)? {
            let unwritable = |err: std::io::Error| format!("the session's journal can't be written: {err}");
            self.commit(record).map_err(unwritable)?;
        }
        let end = Record::Ended { at: now(), reason: "loaded".to_owned(), error: None };
        self.commit(end).map_err(|err| err.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sid_core::{Next, Session};

    #[test]
    fn a_transcript_comes_back_as_it_was() {
        let text = json!({"version": 1, "messages": [
            {"role": "user", "content": "go"},
            {"role": "assistant", "content": [{"type": "thinking", "thinking": "hm", "signature": "x"}, {"type": "text", "text": "I look"},
                {"type": "tool_use", "id": "a", "name": "read", "input": {"path": "f"}}, {"type": "tool_use", "id": "b", "name": "read", "input": {}}]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "b", "content": [{"type": "text", "text": "no"}], "is_error": true},
                {"type": "tool_result", "tool_use_id": "a", "content": "yes"}]},
            {"role": "assistant", "content": [{"type": "text", "text": "more"}, {"type": "tool_use", "id": "c", "name": "bash", "input": {"command": "rm x"}}]},
            {"role": "user", "content": [{"type": "text", "text": "stop"}, {"type": "image", "source": {}}]},
            {"role": "assistant", "content": [{"type": "tool_use", "id": "d", "name": "bash", "input": {}}]},
        ]});
        let (session, items) = Session::replay(records(&text.to_string()).unwrap());
        assert!(session.open_calls().is_empty(), "nothing is run because a file says so");
        assert!(!matches!(session.next(9), Next::Run(_) | Next::Interrupted(_)));
        let said = transcript(&items);
        assert_eq!(said["messages"][0], text["messages"][0]);
        assert_eq!(said["messages"][1]["content"], json!(text["messages"][1]["content"].as_array().unwrap()[1..]));
        let results = said["messages"][2]["content"].as_array().unwrap();
        assert_eq!((&results[0]["content"], &results[1]["content"]), (&json!("yes"), &json!("no")));
        assert_eq!(said["messages"][4]["content"][0]["content"], "user cancelled action");
        assert_eq!(said["messages"][5], json!({"role": "user", "content": "stop"}));
    }

    #[test]
    fn what_is_no_transcript_is_said() {
        for (text, want) in [
            ("{", "it is no transcript"),
            (r#"{"version": 2, "messages": []}"#, "version 2"),
            (r#"{"version": 1, "messages": []}"#, "no messages"),
            (r#"{"version": 1, "messages": [{"role": "system", "content": "x"}]}"#, "message 1: the role `system`"),
            (
                r#"{"version": 1, "messages": [{"role": "user", "content": [{"type": "tool_result", "tool_use_id": "z"}]}]}"#,
                "a result of `z`",
            ),
        ] {
            assert!(check_transcript(text).unwrap_err().contains(want), "{text}");
        }
    }
}
