//! `tool-streams.jsonl`: what the programs of tools print, as it comes.
use std::{
    collections::HashMap,
    fs::File,
    io::Write as _,
    path::PathBuf,
    sync::{Mutex, PoisonError},
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde::Serialize;

use crate::{
    journal::options,
    store::timestamp,
    tail::{ends_whole, last_lines},
};

/// Bytes of one line, before they are written as JSON.
const CHUNK: usize = 8 << 10;
/// Bytes that the lines of one call may take; what a flood prints after that is only said to have been there.
const MOST: u64 = 4 << 20;

/// The file, made with its first line. It is auxiliary: what can't be written is left out, and the session goes on.
#[derive(Debug)]
pub struct Streams {
    path: PathBuf,
    secrets: Vec<String>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    file: Option<File>,
    taken: HashMap<u32, u64>,
}

#[derive(Serialize)]
struct Line<'a> {
    tool_seq: u32,
    ts: String,
    stream: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    data_b64: Option<String>,
    /// From here on the streams of this call are not kept.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    cut: bool,
}

impl<'a> Line<'a> {
    fn new(tool_seq: u32, stream: &'a str) -> Self {
        Self { tool_seq, ts: timestamp(), stream, text: None, data_b64: None, cut: false }
    }
}

impl Streams {
    /// For the session in `dir`; the exact values of `secrets` are never written.
    #[must_use]
    pub fn new(dir: &std::path::Path, secrets: Vec<String>) -> Self {
        Self { path: dir.join("tool-streams.jsonl"), secrets, state: Mutex::default() }
    }

    /// The number of the last call that is in the file.
    #[must_use]
    pub fn last_call(&self) -> u32 {
        // A line that a crash tore has no number.
        let number = |line: &String| serde_json::from_str::<serde_json::Value>(line).ok()?["tool_seq"].as_u64();
        last_lines(&self.path).iter().filter_map(number).max().and_then(|it| u32::try_from(it).ok()).unwrap_or(0)
    }

    /// Adds a piece of a stream of a call. A piece that is not UTF-8 by itself is written as base64.
    pub fn append(&self, call: u32, stream: &str, bytes: &[u8]) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let before = state.taken.get(&call).copied().unwrap_or(0);
        if before > MOST {
            return;
        }
        let mut out = Vec::new();
        for chunk in bytes.chunks(CHUNK) {
            let text = std::str::from_utf8(chunk).ok().map(|it| sid_core::redacted(it.to_owned(), &self.secrets));
            let data_b64 = text.is_none().then(|| STANDARD.encode(chunk));
            push(&mut out, &Line { text: text.as_deref(), data_b64, ..Line::new(call, stream) });
            if before + out.len() as u64 > MOST {
                push(&mut out, &Line { cut: true, ..Line::new(call, stream) });
                break;
            }
        }
        state.taken.insert(call, before + out.len() as u64);
        if state.file.is_none() {
            let torn = !ends_whole(&self.path);
            state.file = options().create(true).open(&self.path).ok();
            // What a crash left unfinished has a line of its own.
            if torn {
                out.insert(0, b'\n');
            }
        }
        let _full = state.file.as_mut().map(|it| it.write_all(&out));
    }
}

fn push(out: &mut Vec<u8>, line: &Line<'_>) {
    if serde_json::to_writer(&mut *out, line).is_ok() {
        out.push(b'\n');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(dir: &std::path::Path) -> Vec<serde_json::Value> {
        let text = std::fs::read_to_string(dir.join("tool-streams.jsonl")).unwrap();
        text.lines().map(|it| serde_json::from_str(it).unwrap()).collect()
    }

    #[test]
    fn pieces_are_text_or_base64_and_bounded() {
        let dir = tempfile::tempdir().unwrap();
        let it = Streams::new(dir.path(), vec!["hush-hush".to_owned(), "k".to_owned()]);
        assert!(!dir.path().join("tool-streams.jsonl").exists(), "nothing came yet");
        it.append(1, "stdout", "naïve 🙂\n".as_bytes());
        it.append(1, "stderr", &"é".as_bytes()[..1]);
        it.append(1, "stderr", &[0, 0xff, b'x']);
        it.append(2, "stdout", b"the key is hush-hush.");
        it.append(2, "confirm_stdout", &[b'x'; CHUNK + 1]);
        let all = lines(dir.path());
        assert_eq!((&all[0]["text"], &all[0]["tool_seq"], &all[0]["stream"]), (&"naïve 🙂\n".into(), &1.into(), &"stdout".into()));
        assert_eq!((&all[1]["data_b64"], &all[1]["text"]), (&"ww==".into(), &serde_json::Value::Null));
        assert_eq!(all[2]["data_b64"], "AP94");
        assert_eq!(all[3]["text"], "the key is [redacted].");
        assert_eq!((all[4]["text"].as_str().map(str::len), all[5]["text"].as_str()), (Some(CHUNK), Some("x")));
        let ts = all[0]["ts"].as_str().unwrap();
        assert!(ts.len() == 32 && &ts[10..11] == "T" && &ts[29..30] == ":", "{ts}");
        for _ in 0..70 {
            it.append(3, "stdout", &[b'y'; 64 << 10]);
        }
        let all = lines(dir.path());
        let third: Vec<_> = all.iter().filter(|it| it["tool_seq"] == 3).collect();
        assert!(third.last().unwrap()["cut"] == true && third.len() < 530, "{}", third.len());
    }
}
