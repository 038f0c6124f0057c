//! The headless printer: stdout is the answer or JSON lines, everything else is stderr.
use std::{
    borrow::Cow,
    io::{self, BufWriter, IsTerminal as _, Stdout, Write},
};

use serde::Serialize;
use serde_json::{Value, json};
use sid_core::{Delta, End, Event, Visible, inert, one_line};

use crate::{
    args::Output,
    paint::{Tone, say_as},
    say,
    signals::Stopper,
};

/// How much is said.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Style {
    /// The answer as it comes.
    Text,
    /// The final answer only.
    Quiet,
    /// The answer as it comes, and what the tools answered: for the demo.
    Tour,
    /// Events.
    Jsonl,
}

impl Style {
    pub(crate) fn new(output: Output, quiet: Quiet) -> Self {
        match (output, quiet) {
            (Output::Jsonl, _) => Self::Jsonl,
            (Output::Text, Quiet::Yes) => Self::Quiet,
            (Output::Text, Quiet::No) => Self::Text,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Quiet {
    Yes,
    No,
}

/// Prints what an engine tells.
pub(crate) struct Printer {
    style: Style,
    out: BufWriter<Stdout>,
    stopper: Option<Stopper>,
    closed: bool,
    id: Option<String>,
    visible: Visible,
    /// Stdout is a terminal, which control characters would drive.
    terminal: bool,
    /// Something visible was printed, and by which answer.
    shown: bool,
    shown_in_reply: bool,
}

impl Printer {
    pub(crate) fn new(style: Style) -> Self {
        Self {
            style,
            out: BufWriter::with_capacity(1 << 16, io::stdout()),
            stopper: None,
            closed: false,
            id: None,
            visible: Visible::default(),
            terminal: io::stdout().is_terminal(),
            shown: false,
            shown_in_reply: false,
        }
    }

    /// The id that errors before a session name.
    pub(crate) fn asked_for(&mut self, id: Option<String>) {
        self.id = id;
    }

    /// What to stop when nobody reads any more.
    pub(crate) fn stops(&mut self, stopper: Stopper) {
        self.stopper = Some(stopper);
    }

    /// Whether stdout was closed by its reader.
    pub(crate) fn closed(&self) -> bool {
        self.closed
    }

    pub(crate) fn event(&mut self, event: Event) {
        let more = matches!(event, Event::Delta(_) | Event::Reply);
        self.take(event);
        if !more {
            self.flush();
        }
    }

    fn take(&mut self, event: Event) {
        match event {
            Event::Session { id, resumed } => {
                self.id = Some(id.clone());
                match self.style {
                    Style::Jsonl => self.line("session", &json!({ "resumed": resumed })),
                    _ => say_as(Tone::Quiet, &format!("Session: {id}")),
                }
            }
            Event::Reply => {
                self.visible = Visible::default();
                self.shown_in_reply = false;
            }
            Event::Delta(Delta::Text(text)) => {
                let text = self.visible.feed(&text);
                self.words(&text);
            }
            Event::Delta(Delta::Reasoning(text)) => {
                if self.style == Style::Jsonl {
                    self.delta("reasoning_delta", "", &text);
                }
            }
            Event::Call { id, tool, args } => {
                self.end_of_words();
                self.flush();
                let breaks = self.style == Style::Tour || (self.style == Style::Text && self.terminal);
                if breaks && std::mem::take(&mut self.shown_in_reply) {
                    // What follows is on a line of its own; there is nothing to set the next answer off from.
                    self.write(b"\n");
                    self.flush();
                    self.shown = false;
                }
                match self.style {
                    Style::Jsonl => self.line("tool_call", &json!({ "tool_call_id": id.0, "name": tool, "arguments": args })),
                    Style::Text | Style::Tour => say_as(Tone::Quiet, &format!("→ {tool}({})", one_line(&args, 120))),
                    Style::Quiet => {}
                }
            }
            Event::Result { id, tool, content, error } => match self.style {
                Style::Jsonl => {
                    self.line("tool_result", &json!({ "tool_call_id": id.0, "name": tool, "content": content, "is_error": error }));
                }
                Style::Tour => content.lines().take(12).for_each(|line| say(&format!("  │ {line}"))),
                Style::Text if error => say_as(Tone::Bad, &format!("  {tool}: {}", one_line(&content, 160))),
                _ => {}
            },
            Event::Pause => {}
            Event::Notice(text) => {
                self.flush();
                say(&format!("sid: {text}"));
            }
        }
    }

    /// A piece of visible text. A new answer is set off from the one before by an empty line.
    fn words(&mut self, text: &str) {
        if text.is_empty() || self.style == Style::Quiet {
            return;
        }
        let gap = if self.shown && !self.shown_in_reply { "\n\n" } else { "" };
        self.shown = true;
        self.shown_in_reply = true;
        match self.style {
            Style::Jsonl => self.delta("assistant_delta", gap, text),
            _ => {
                let text = if self.terminal { inert(text) } else { Cow::Borrowed(text) };
                self.write(&[gap.as_bytes(), text.as_bytes()].concat());
            }
        }
    }

    fn end_of_words(&mut self) {
        let rest = self.visible.finish();
        self.words(&rest);
    }

    pub(crate) fn end(&mut self, end: &End, elapsed: std::time::Duration) {
        self.end_of_words();
        match self.style {
            Style::Jsonl => self.line(
                "result",
                &json!({
                    "text": end.text,
                    "tool_rounds": end.rounds,
                    "reason": end.reason,
                    "usage": {
                        "input_tokens": end.usage.input,
                        "output_tokens": end.usage.output,
                        "cache_read_tokens": end.usage.cache_read,
                        "cache_write_tokens": end.usage.cache_write,
                    },
                    "elapsed_ms": u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX),
                }),
            ),
            Style::Text | Style::Tour if self.shown => self.write(b"\n"),
            Style::Text | Style::Tour => {}
            Style::Quiet if end.text.is_empty() => {}
            Style::Quiet if self.terminal => self.write(format!("{}\n", inert(&end.text)).as_bytes()),
            Style::Quiet => self.write(format!("{}\n", end.text).as_bytes()),
        }
        self.flush();
        if self.style != Style::Jsonl && !matches!(end.reason.as_str(), "completed" | "interrupted") {
            say(&format!("sid: the turn ended early: {}", end.reason));
        }
    }

    pub(crate) fn error(&mut self, message: &str) {
        self.end_of_words();
        if self.style == Style::Jsonl {
            self.line("error", &json!({ "message": message }));
        } else {
            if self.shown {
                self.write(b"\n");
            }
            self.flush();
            say(&format!("sid: {message}"));
        }
        self.flush();
    }

    /// The line that is written most often.
    fn delta(&mut self, kind: &str, gap: &str, text: &str) {
        #[derive(Serialize)]
        struct Line<'a> {
            r#type: &'a str,
            session_id: Option<&'a str>,
            text: &'a str,
        }
        let joined = if gap.is_empty() { Cow::Borrowed(text) } else { Cow::Owned(format!("{gap}{text}")) };
        let line = Line { r#type: kind, session_id: self.id.as_deref(), text: &joined };
        let written = serde_json::to_writer(&mut self.out, &line).map_err(io::Error::from);
        let done = written.and_then(|()| self.out.write_all(b"\n"));
        self.check(&done);
    }

    fn line(&mut self, kind: &str, fields: &Value) {
        let mut line = json!({ "type": kind, "session_id": self.id });
        if let (Value::Object(line), Value::Object(fields)) = (&mut line, fields) {
            line.extend(fields.clone());
        }
        self.write(format!("{line}\n").as_bytes());
    }

    fn write(&mut self, bytes: &[u8]) {
        let done = self.out.write_all(bytes);
        self.check(&done);
    }

    fn flush(&mut self) {
        let done = self.out.flush();
        self.check(&done);
    }

    /// A reader that left is a clean end: the turn stops, nothing is reported.
    fn check(&mut self, done: &io::Result<()>) {
        if done.is_err()
            && !std::mem::replace(&mut self.closed, true)
            && let Some(it) = &self.stopper
        {
            it.stop();
        }
    }
}
