//! The shells that Codex models know: sessions with `exec_command` and `write_stdin`.
use std::{
    path::PathBuf,
    time::{Duration, Instant},
};

use serde::Deserialize;
use serde_json::json;
use sid_core::Outcome;
use sid_policy::Access;
use sid_sandbox::Job;

use crate::{
    Plan, Tool, View, after, args, error,
    shells::{ANSWERING, ESCALATE, Id, Permissions, declared, ended, escalation, millis, run_plan, stop_plan, streams, unknown},
};

/// Runs a command.
pub(crate) struct ExecCommand;
/// Writes to a session, or reads it.
pub(crate) struct WriteStdin;
/// Ends a session.
pub(crate) struct KillSession;

#[derive(Deserialize)]
struct Exec {
    cmd: String,
    workdir: Option<String>,
    yield_time_ms: Option<u64>,
    max_output_tokens: Option<usize>,
    shell: Option<PathBuf>,
    #[serde(default)]
    tty: bool,
    sandbox_permissions: Option<Permissions>,
    justification: Option<String>,
}

impl Tool for ExecCommand {
    fn name(&self) -> &'static str {
        "exec_command"
    }
    fn description(&self) -> &'static str {
        "Runs a command with sh -c and waits yield_time_ms (250 to 30000, default 10000) for it. A command that runs longer goes on as a session: \
         read and write it with write_stdin, end it with kill_session; you are told when it ends. Nothing carries over between commands. Commands run \
         in a sandbox: the workspace is writable, the rest read-only, /tmp private to each command. sandbox_permissions require_escalated, with a \
         justification, asks for one run without it. tty gives it a terminal, for programs that need one."
    }
    fn schema(&self) -> &'static str {
        r#"{"type":"object","properties":{"cmd":{"type":"string"},"workdir":{"type":"string"},"yield_time_ms":{"type":"integer"},"max_output_tokens":{"type":"integer"},"shell":{"type":"string"},"tty":{"type":"boolean"},"sandbox_permissions":{"type":"string","enum":["use_default","require_escalated"]},"justification":{"type":"string"}},"required":["cmd"],"additionalProperties":false}"#
    }
    fn auto_guidance(&self) -> Option<&'static str> {
        Some(ESCALATE)
    }
    fn for_reviewer(&self) -> bool {
        true
    }
    fn plan(&self, raw: &str, view: &View) -> Result<Plan, String> {
        let it: Exec = args::parse(raw)?;
        let escalate = escalation(it.sandbox_permissions, it.justification);
        let mut access = declared(self.name(), &it.cmd, view.path(it.workdir.as_deref().unwrap_or(".")), escalate)?;
        if let Some(exec) = &mut access.exec {
            exec.shell = it.shell;
        }
        let wait = Duration::from_millis(it.yield_time_ms.unwrap_or(10_000).clamp(250, 30_000));
        let (io, tokens) = (streams((it.tty, true)), it.max_output_tokens);
        Ok(run_plan(it.cmd, access, io, wait, move |id, job, took| told(id, job, took, tokens)))
    }
}

/// Tokens of output when nobody says, and characters at least and per token.
const TOKENS: usize = 10_000;
const LEAST: usize = 4000;
const PER_TOKEN: usize = 4;

fn told(id: u32, job: Job, took: Duration, tokens: Option<usize>) -> Outcome {
    let all = job.output.text.len() as u64 + job.output.omitted;
    let count = all.div_ceil(PER_TOKEN as u64);
    let code = ended(&job);
    let state = match (code, job.is_running()) {
        (Some(code), _) => format!("Process exited with code {code}"),
        (None, true) => format!("Process running with session ID {id}"),
        (None, false) => "Process was killed".to_owned(),
    };
    let output = within(&job.output.text, tokens.unwrap_or(TOKENS).saturating_mul(PER_TOKEN).max(LEAST), count);
    let text = format!("Wall time: {:.4} seconds\n{state}\nOriginal token count: {count}\nOutput:\n{output}", took.as_secs_f64());
    let outcome = if code.is_none_or(|it| it == 0) { Outcome::ok(text) } else { Outcome::failed(text) };
    after(outcome, job.aftermath)
}

/// `text` in so many characters: its beginning and its end.
fn within(text: &str, most: usize, tokens: u64) -> String {
    if text.chars().count() <= most {
        return text.to_owned();
    }
    let lines = text.lines().count();
    let head: String = text.chars().take(most / 2).collect();
    let tail: Vec<char> = text.chars().rev().take(most / 2).collect();
    let tail: String = tail.into_iter().rev().collect();
    let left = text.chars().count() - 2 * (most / 2);
    format!(
        "Warning: shortened output (original token count: {tokens})\nTotal output lines: {lines}\n\n{head}\n…{left} characters left out…\n{tail}"
    )
}

#[derive(Deserialize)]
struct Write {
    session_id: u32,
    #[serde(default)]
    chars: String,
    yield_time_ms: Option<u64>,
    max_output_tokens: Option<usize>,
}

impl Tool for WriteStdin {
    fn name(&self) -> &'static str {
        "write_stdin"
    }
    fn description(&self) -> &'static str {
        "Writes chars to a session, waits yield_time_ms (default 250, at most 30000) and returns what it printed since the last time. Empty chars only \
         read (default 5000, at most 300000). \\u0003 interrupts, as Ctrl-C would."
    }
    fn schema(&self) -> &'static str {
        r#"{"type":"object","properties":{"session_id":{"type":"integer"},"chars":{"type":"string"},"yield_time_ms":{"type":"integer"},"max_output_tokens":{"type":"integer"}},"required":["session_id"],"additionalProperties":false}"#
    }
    fn plan(&self, raw: &str, _: &View) -> Result<Plan, String> {
        let it: Write = args::parse(raw)?;
        let (default, most) = if it.chars.is_empty() { (5000, 300_000) } else { (ANSWERING, 30_000) };
        let wait = millis(it.yield_time_ms, default, most);
        Ok(Plan {
            label: format!("input to session {}", it.session_id),
            access: Access::none(self.name(), "input").feeds(&it.chars, it.session_id),
            action: Box::new(move |place, _| {
                Box::pin(async move {
                    let begun = Instant::now();
                    match place.send(it.session_id, &it.chars, wait).await {
                        Some(Ok(job)) => told(it.session_id, job, begun.elapsed(), it.max_output_tokens),
                        Some(Err(why)) => error(why),
                        None => unknown("session", it.session_id),
                    }
                })
            }),
        })
    }
}

#[derive(Deserialize)]
struct Kill {
    session_id: u32,
}

impl Tool for KillSession {
    fn name(&self) -> &'static str {
        "kill_session"
    }
    fn description(&self) -> &'static str {
        "Ends a session and everything it started."
    }
    fn schema(&self) -> &'static str {
        r#"{"type":"object","properties":{"session_id":{"type":"integer"}},"required":["session_id"],"additionalProperties":false}"#
    }
    fn plan(&self, raw: &str, _: &View) -> Result<Plan, String> {
        let Kill { session_id: id } = args::parse(raw)?;
        Ok(stop_plan(
            self.name(),
            "session",
            Id::Number(id),
            |id, command| json!({"command": command, "message": format!("session {id} was ended"), "session_id": id}),
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::within;

    #[test]
    fn long_output_keeps_both_ends() {
        let text: String = (0..5000).map(|n| format!("{n}\n")).collect();
        let it = within(&text, 4000, 6000);
        assert!(it.starts_with("Warning: shortened output (original token count: 6000)\nTotal output lines: 5000\n\n0\n1\n"));
        assert!(it.ends_with("4998\n4999\n") && it.contains("…19") && it.chars().count() < 4200, "{}", it.len());
        assert_eq!(within("short", 4000, 2), "short");
    }
}
