//! What the shells of all surfaces share: a command is declared in one way, waited for in one way, and told of in the words of
//! its family.
use std::{
    path::PathBuf,
    time::{Duration, Instant},
};

use serde::Deserialize;
use sid_core::Outcome;
use sid_policy::{Access, Exec};
use sid_sandbox::{Confined, Exit, Io, Job, JobId, JobState};

use crate::{Plan, after, error};

/// Bytes of output kept, head and tail.
pub(crate) const OUTPUT: usize = 50_000;
/// Between asking a command to stop and killing it.
pub(crate) const GRACE: Duration = Duration::from_secs(2);
/// How long a start in the background is watched: long enough to see a command fall over.
pub(crate) const STARTING: Duration = Duration::from_secs(3);
/// How long input is waited on when nobody says otherwise.
pub(crate) const ANSWERING: u64 = 250;

/// When to ask for more than the sandbox gives.
pub(crate) const ESCALATE: &str = "Ask to run a command outside the sandbox only after the sandbox has stopped work that is needed, for that one command, \
     with a concrete reason. It is reviewed and may be refused; a refusal is not to be worked around.";

/// The escalation field of Codex, Grok and sid itself.
#[derive(Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Permissions {
    UseDefault,
    RequireEscalated,
}

/// The reason to leave the sandbox, if that is asked for.
pub(crate) fn escalation(asked: Option<Permissions>, reason: Option<String>) -> Option<String> {
    (asked == Some(Permissions::RequireEscalated)).then(|| reason.unwrap_or_else(|| "no reason was given".to_owned()))
}

/// A command's access.
pub(crate) fn declared(tool: &str, command: &str, cwd: PathBuf, escalate: Option<String>) -> Result<Access, String> {
    if command.trim().is_empty() {
        return Err("command is empty".to_owned());
    }
    if command.contains('\0') {
        return Err("command holds a NUL character, which no command line can".to_owned());
    }
    let exec = Exec { command: command.to_owned(), cwd: cwd.components().collect(), escalate, shell: None };
    Ok(Access::none(tool, "shell").runs(exec))
}

/// The streams of a command that may be written to later.
pub(crate) fn streams((terminal, input): (bool, bool)) -> Io {
    match (terminal, input) {
        (true, _) => Io::Terminal,
        (false, true) => Io::Pipes,
        (false, false) => Io::NoInput,
    }
}

/// Starts the judged command and waits; a command that could not begin is an outcome already.
pub(crate) async fn begin(place: &Confined<'_>, io: Io, wait: Duration) -> Result<(JobId, Job), Outcome> {
    let (id, job) = place.begin(OUTPUT, io, wait).await.map_err(error)?;
    if job.state == JobState::Ended(Exit::NoSandbox) {
        return Err(error(format!(
            "the sandbox could not be set up, so the command did not run. `sid doctor` says more.\n{}",
            job.output.text
        )));
    }
    Ok((id, job))
}

/// The exit code as shells tell it.
pub(crate) fn code(exit: Exit) -> i32 {
    match exit {
        Exit::Code(it) => it,
        Exit::Signal(it) => 128 + it,
        Exit::NoSandbox => 1,
    }
}

/// The end of a command, if it is known.
pub(crate) fn ended(job: &Job) -> Option<i32> {
    match job.state {
        JobState::Ended(exit) => Some(code(exit)),
        JobState::Running | JobState::Killed => None,
    }
}

/// A wait in milliseconds that a family bounds.
pub(crate) fn millis(asked: Option<u64>, default: u64, most: u64) -> Duration {
    Duration::from_millis(asked.unwrap_or(default).min(most))
}

/// The last lines of a text, and no more bytes than that.
pub(crate) fn tail(text: &str, lines: usize, bytes: usize) -> String {
    let mut from = text.len() - text.len().min(bytes);
    while !text.is_char_boundary(from) {
        from += 1;
    }
    let cut = &text[from..];
    let over = cut.lines().count().saturating_sub(lines);
    let at = if over == 0 { 0 } else { cut.match_indices('\n').nth(over - 1).map_or(0, |(at, _)| at + 1) };
    let left_out = from + at;
    if left_out == 0 { text.to_owned() } else { format!("[… {left_out} bytes left out …]\n{}", &cut[at..]) }
}

/// The plan of running a command, told with how long it was waited for in the words of a family.
pub(crate) fn run_plan(
    command: String,
    access: Access,
    io: Io,
    wait: Duration,
    told: impl FnOnce(JobId, Job, Duration) -> Outcome + 'static,
) -> Plan {
    Plan {
        label: command,
        access,
        action: Box::new(move |place, _| {
            Box::pin(async move {
                let begun = Instant::now();
                match begin(place, io, wait).await {
                    Ok((id, job)) => told(id, job, begun.elapsed()),
                    Err(outcome) => outcome,
                }
            })
        }),
    }
}

/// The plan of ending a running command, and telling of it.
pub(crate) fn stop_plan(tool: &str, what: &'static str, id: Id, tell: fn(JobId, &str) -> serde_json::Value) -> Plan {
    Plan {
        label: format!("end {what} {id}"),
        access: Access::none(tool, "kill"),
        action: Box::new(move |place, _| {
            Box::pin(async move {
                let number = id.number().unwrap_or(0);
                match place.stop(number, GRACE).await {
                    None => unknown(what, id),
                    Some(None) => error(format!("{what} {id} is not running.")),
                    Some(Some(command)) => Outcome::ok(tell(number, &command).to_string()),
                }
            })
        }),
    }
}

/// The plan of writing to a running command and reading what it answers, told in the words of a family.
pub(crate) fn input_plan(
    tool: &str,
    what: &'static str,
    id: Id,
    input: String,
    wait: Duration,
    tell: fn(JobId, &Job) -> serde_json::Value,
) -> Plan {
    let number = id.number().unwrap_or(0);
    Plan {
        label: format!("input to {what} {id}"),
        access: Access::none(tool, "input").feeds(&input, number),
        action: Box::new(move |place, _| {
            Box::pin(async move {
                match place.send(number, &input, wait).await {
                    Some(Ok(job)) => after(Outcome::ok(tell(number, &job).to_string()), job.aftermath),
                    Some(Err(why)) => error(why),
                    None => unknown(what, id),
                }
            })
        }),
    }
}

/// A task that is not there.
pub(crate) fn unknown(what: &str, id: impl std::fmt::Display) -> Outcome {
    error(format!("there is no {what} with id {id} (they end with the session that started them)."))
}

/// Ids that some models spell as text.
#[derive(Deserialize)]
#[serde(untagged)]
pub(crate) enum Id {
    Number(JobId),
    Text(String),
}

impl Id {
    pub(crate) fn number(&self) -> Option<JobId> {
        match self {
            Self::Number(it) => Some(*it),
            Self::Text(it) => it.trim().parse().ok(),
        }
    }
}

impl std::fmt::Display for Id {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Number(it) => it.fmt(f),
            Self::Text(it) => sid_core::one_line(it, 40).fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::tail;

    #[test]
    fn the_end_of_a_text_in_lines_and_bytes() {
        assert_eq!(tail("a\nb\nc\n", 10, 100), "a\nb\nc\n");
        assert_eq!(tail("a\nb\nc\n", 2, 100), "[… 2 bytes left out …]\nb\nc\n");
        assert_eq!(tail("日本", 10, 4), "[… 3 bytes left out …]\n本");
    }
}
