//! Words as people see them.
use std::borrow::Cow;

/// Streams the visible part of an answer: `<think>…</think>` is left out, and white space is trimmed at both ends.
///
/// White space at the end is held back until something visible follows, so the pieces joined are the trimmed text.
#[derive(Debug, Default)]
pub struct Visible {
    held: String,
    thinking: bool,
    begun: bool,
}

const OPEN: &str = "<think>";
const CLOSE: &str = "</think>";

impl Visible {
    /// Takes a piece of the answer and returns what may be shown now.
    pub fn feed(&mut self, text: &str) -> String {
        self.held.push_str(text);
        let mut out = String::new();
        loop {
            let mark = if self.thinking { CLOSE } else { OPEN };
            if let Some(at) = self.held.find(mark) {
                let rest = self.held.split_off(at + mark.len());
                let before = std::mem::replace(&mut self.held, rest);
                if !self.thinking {
                    out.push_str(&before[..at]);
                }
                self.thinking = !self.thinking;
                continue;
            }
            let keep = suffix_of(&self.held, mark);
            let rest = self.held.split_off(self.held.len() - keep);
            let ready = std::mem::replace(&mut self.held, rest);
            if !self.thinking {
                out.push_str(&ready);
            }
            break;
        }
        self.trim(out)
    }

    /// The answer is over: what was held back because it might have become a tag.
    pub fn finish(&mut self) -> String {
        let rest = std::mem::take(&mut self.held);
        if self.thinking { String::new() } else { self.trim(rest).trim_end().to_owned() }
    }

    fn trim(&mut self, out: String) -> String {
        let out = if self.begun { out } else { out.trim_start().to_owned() };
        if out.is_empty() {
            return out;
        }
        self.begun = true;
        let end = out.trim_end().len();
        if end < out.len() && !self.thinking {
            self.held.insert_str(0, &out[end..]);
        }
        out[..end].to_owned()
    }
}

/// The length of the longest end of `text` that begins `mark`, white space before it included.
fn suffix_of(text: &str, mark: &str) -> usize {
    let tag = (1..mark.len()).rev().find(|n| text.ends_with(&mark[..*n])).unwrap_or(0);
    let body = &text[..text.len() - tag];
    tag + body.len() - body.trim_end().len()
}

/// The visible part of a whole answer.
#[must_use]
pub fn visible(text: &str) -> String {
    let mut it = Visible::default();
    let mut out = it.feed(text);
    out.push_str(&it.finish());
    out
}

/// `text` without the control characters that could drive a terminal; line feeds and tabs stay.
#[must_use]
pub fn inert(text: &str) -> Cow<'_, str> {
    let harmless = |it: char| !it.is_control() || matches!(it, '\n' | '\t');
    if text.chars().all(harmless) { Cow::Borrowed(text) } else { Cow::Owned(text.chars().filter(|it| harmless(*it)).collect()) }
}

/// `text` on one line: white space runs become one space, control characters are dropped, at most `max` characters.
#[must_use]
pub fn one_line(text: &str, max: usize) -> String {
    let mut out = String::new();
    for word in text.split_whitespace() {
        if !out.is_empty() {
            out.push(' ');
        }
        out.extend(word.chars().filter(|it| !it.is_control()));
        if out.chars().count() > max {
            let cut: String = out.chars().take(max.saturating_sub(1)).collect();
            return cut + "…";
        }
    }
    out
}

/// `text` without these exact values. Shorter ones than keys are would be found everywhere.
#[must_use]
pub fn redacted(text: String, secrets: &[String]) -> String {
    let hits = secrets.iter().filter(|it| it.len() >= SECRET);
    hits.fold(text, |text, secret| if text.contains(secret.as_str()) { text.replace(secret.as_str(), "[redacted]") } else { text })
}

/// Bytes that a key has at least.
const SECRET: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn pieces(parts: &[&str]) -> Vec<String> {
        let mut it = Visible::default();
        let mut out: Vec<String> = parts.iter().map(|part| it.feed(part)).collect();
        out.push(it.finish());
        out
    }

    #[test]
    fn white_space_moves_to_the_next_piece() {
        assert_eq!(pieces(&["Hello ", "world"]), ["Hello", " world", ""]);
        assert_eq!(pieces(&["\n\nHi", " \n"]), ["Hi", "", ""]);
    }

    #[test]
    fn thinking_is_left_out() {
        assert_eq!(pieces(&["<thi", "nk>secret</th", "ink>\n\nyes <b", ">"]).concat(), "yes <b>");
        assert_eq!(pieces(&["a <think>b", "c"]).concat(), "a");
        assert_eq!(pieces(&["1 <", " 2"]).concat(), "1 < 2");
    }

    proptest! {
        #[test]
        fn any_chunking_shows_the_same(text in "[ab <>/think\n]{0,60}", cuts in prop::collection::vec(0usize..60, 0..6)) {
            let mut cuts: Vec<usize> = cuts.into_iter().filter(|it| *it < text.len()).collect();
            cuts.sort_unstable();
            let (mut it, mut out, mut from) = (Visible::default(), String::new(), 0);
            for to in cuts { out += &it.feed(&text[from..to]); from = to; }
            out += &it.feed(&text[from..]);
            out += &it.finish();
            prop_assert_eq!(out, visible(&text));
        }
    }

    #[test]
    fn what_a_terminal_would_obey_is_left_out() {
        assert_eq!(inert("a\x1b]0;x\x07b\r\n\tc\u{9b}2J"), "a]0;xb\n\tc2J");
        assert!(matches!(inert("naïve\n"), Cow::Borrowed(_)));
    }

    #[test]
    fn one_line_is_bounded_and_inert() {
        assert_eq!(one_line("a\n b\x1b[2J  c", 80), "a b[2J c");
        assert_eq!(one_line("abcdef", 4), "abc…");
    }
}
