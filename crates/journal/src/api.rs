//! `api.jsonl`: what was asked of the model and what it answered, for people who look into it. What a request repeats of the one
//! before is not written again.
use std::{
    fs::File,
    hash::{DefaultHasher, Hash as _, Hasher as _},
    io::{self, Write as _},
    path::{Path, PathBuf},
};

use serde::Deserialize;
use serde_json::{Value, value::RawValue};

use crate::{
    journal::options,
    store::timestamp,
    tail::{ends_whole, last_lines, lines},
};

/// The file, made with its first line. It is auxiliary: what can't be written is left out, and the session goes on.
#[derive(Debug)]
pub struct Api {
    path: PathBuf,
    file: Option<File>,
    /// The numbers of the last line and of the last request.
    seq: u64,
    api_seq: u64,
    /// The last request: everything before its messages, those, and how many they were.
    head: u64,
    messages: (usize, u64),
    count: usize,
}

#[derive(Deserialize, PartialEq, Eq, PartialOrd, Ord)]
struct Numbers {
    seq: u64,
    api_seq: u64,
}

#[derive(Deserialize)]
struct Messages<'a> {
    #[serde(borrow)]
    messages: Vec<&'a RawValue>,
}

impl Api {
    /// Goes on with the file of the session in `dir`.
    #[must_use]
    pub fn open(dir: &Path) -> Self {
        let path = dir.join("api.jsonl");
        // A line that a crash tore has no numbers.
        let last = |lines: Vec<String>| lines.iter().filter_map(|it| serde_json::from_str::<Numbers>(it).ok()).max();
        // Where the last line is longer than what is looked at, all of them are.
        let found = last(last_lines(&path)).or_else(|| last(lines(&path)));
        let (seq, api_seq) = found.map_or((0, 0), |it| (it.seq, it.api_seq));
        Self { path, file: None, seq, api_seq, head: 0, messages: (0, hash("")), count: 0 }
    }

    /// A request: its body up to the messages, and the messages, joined by commas.
    pub fn request(&mut self, head: &str, messages: &str) {
        self.api_seq += 1;
        let same_head = std::mem::replace(&mut self.head, hash(head)) == self.head;
        let (len, before) = self.messages;
        let grown = messages.get(..len).is_some_and(|it| hash(it) == before);
        self.messages = (messages.len(), hash(messages));
        let rest = if same_head && grown { &messages[len..] } else { messages }.trim_start_matches(',');
        let left_out = if same_head && grown { self.count } else { 0 };
        let payload = if same_head && grown {
            format!("{{\"messages\":[{rest}]}}")
        } else {
            // A head may end in messages of its own.
            let comma = if head.ends_with('[') || rest.is_empty() { "" } else { "," };
            format!("{head}{comma}{rest}]}}")
        };
        self.count = left_out + serde_json::from_str::<Messages<'_>>(&payload).map_or(0, |it| it.messages.len());
        let before = if left_out > 0 { format!("\"messages_before\":{left_out},") } else { String::new() };
        self.line("request", &format!("{before}\"payload\":{payload}"));
    }

    /// The answer to the last request.
    pub fn response(&mut self, payload: &Value) {
        self.line("response", &format!("\"payload\":{payload}"));
    }

    fn line(&mut self, kind: &str, rest: &str) {
        self.seq += 1;
        let (seq, api_seq, ts) = (self.seq, self.api_seq, timestamp());
        let line = format!("{{\"seq\":{seq},\"ts\":\"{ts}\",\"kind\":\"{kind}\",\"api_seq\":{api_seq},{rest}}}\n");
        let mut write = || -> io::Result<()> {
            let file = match &mut self.file {
                Some(it) => it,
                none => {
                    // Whatever a crash left unfinished has a line of its own.
                    let torn = !ends_whole(&self.path);
                    let mut file = options().create(true).open(&self.path)?;
                    if torn {
                        file.write_all(b"\n")?;
                    }
                    none.insert(file)
                }
            };
            file.write_all(line.as_bytes())
        };
        let _full = write();
    }
}

fn hash(text: &str) -> u64 {
    let mut it = DefaultHasher::new();
    text.hash(&mut it);
    it.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn written(dir: &Path) -> Vec<Value> {
        let text = std::fs::read_to_string(dir.join("api.jsonl")).unwrap();
        text.lines().filter_map(|it| serde_json::from_str(it).ok()).collect()
    }

    #[test]
    fn what_is_repeated_is_written_once_and_numbers_go_on() {
        let dir = tempfile::tempdir().unwrap();
        let chat = r#"{"model":"m","messages":[{"role":"system"}"#;
        let mut it = Api::open(dir.path());
        it.request(chat, r#",{"n":1}"#);
        it.response(&json!({"content": "a"}));
        it.request(chat, r#",{"n":1},{"n":2},{"n":3}"#);
        it.request(chat, r#",{"n":9}"#);
        it.request(r#"{"model":"other","messages":["#, r#"{"n":9}"#);
        drop(it);
        std::fs::OpenOptions::new().append(true).open(dir.path().join("api.jsonl")).unwrap().write_all(b"{\"seq\":99,").unwrap();
        let mut it = Api::open(dir.path());
        it.request(chat, "");
        let all = written(dir.path());
        let numbers = |key: &str| all.iter().map(|it| it[key].as_u64().unwrap()).collect::<Vec<_>>();
        assert_eq!((numbers("seq"), numbers("api_seq")), (vec![1, 2, 3, 4, 5, 6], vec![1, 1, 2, 3, 4, 5]));
        assert_eq!(all[0]["payload"], json!({"model": "m", "messages": [{"role": "system"}, {"n": 1}]}));
        assert_eq!((&all[1]["kind"], &all[1]["payload"]), (&json!("response"), &json!({"content": "a"})));
        assert_eq!((&all[2]["messages_before"], &all[2]["payload"]), (&json!(2), &json!({"messages": [{"n": 2}, {"n": 3}]})));
        assert_eq!(all[3]["payload"], json!({"model": "m", "messages": [{"role": "system"}, {"n": 9}]}));
        assert_eq!(all[4]["payload"], json!({"model": "other", "messages": [{"n": 9}]}));
        assert_eq!(all[5]["payload"], json!({"model": "m", "messages": [{"role": "system"}]}));
        // A line longer than what is looked at first.
        it.response(&json!({"content": "x".repeat(3 << 20)}));
        drop(it);
        let mut it = Api::open(dir.path());
        it.response(&json!({}));
        let last = written(dir.path()).pop().unwrap();
        assert_eq!((&last["seq"], &last["api_seq"]), (&json!(8), &json!(5)));
    }
}
