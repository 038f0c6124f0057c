//! The shells that Grok models know: `run_terminal_command` and its companions.
use std::time::Duration;

use futures_util::future::join_all;
use serde::Deserialize;
use serde_json::json;
use sid_core::Outcome;
use sid_policy::Access;
use sid_sandbox::{Aftermath, Exit, Job, JobState};

use crate::{
    Plan, Tool, View, after, args, error,
    shells::{
        ANSWERING, ESCALATE, GRACE, Id, Permissions, STARTING, declared, ended, escalation, input_plan, millis, run_plan, streams,
    },
};

/// Runs a command.
pub(crate) struct Run;
/// Reads commands.
pub(crate) struct Output;
/// Writes to a command.
pub(crate) struct Input;
/// Ends a command.
pub(crate) struct Kill;

#[derive(Deserialize)]
struct Command {
    command: String,
    description: Option<String>,
    #[serde(default)]
    background: bool,
    timeout: Option<u64>,
    #[serde(default)]
    tty: bool,
    sandbox_permissions: Option<Permissions>,
}

impl Tool for Run {
    fn name(&self) -> &'static str {
        "run_terminal_command"
    }
    fn description(&self) -> &'static str {
        "Runs a command with sh -c in the working directory; nothing carries over between commands. timeout (milliseconds, at most 300000; 0 or none: \
         120000) is how long the call waits: a command that runs longer goes on and gets a task_id. background starts it that way at once. You are \
         told when one ends. Commands run in a sandbox: the workspace is writable, the rest read-only, /tmp private to each command. \
         sandbox_permissions require_escalated, with the reason in description, asks for one run without it."
    }
    fn schema(&self) -> &'static str {
        r#"{"type":"object","properties":{"command":{"type":"string"},"description":{"type":"string"},"background":{"type":"boolean"},"timeout":{"type":"integer","minimum":0,"maximum":300000},"tty":{"type":"boolean"},"sandbox_permissions":{"type":"string","enum":["use_default","require_escalated"]}},"required":["command","description","background"]}"#
    }
    fn auto_guidance(&self) -> Option<&'static str> {
        Some(ESCALATE)
    }
    fn for_reviewer(&self) -> bool {
        true
    }
    fn plan(&self, raw: &str, view: &View) -> Result<Plan, String> {
        let it: Command = args::parse(raw)?;
        let escalate = escalation(it.sandbox_permissions, it.description);
        let access = declared(self.name(), &it.command, view.path("."), escalate)?;
        let wait = if it.background { STARTING } else { millis(it.timeout.filter(|it| *it > 0), 120_000, 300_000) };
        let io = streams((it.tty, it.background));
        Ok(run_plan(it.command, access, io, wait, |id, job, _| told(id, job)))
    }
}

fn told(id: u32, job: Job) -> Outcome {
    let text = if job.output.text.is_empty() { "(no output)".to_owned() } else { job.output.text.clone() };
    let outcome = match ended(&job) {
        Some(0) => Outcome::ok(text),
        Some(code) => error(format!("the command exited with code {code}.\n{text}")),
        None => Outcome::ok(format!("{}\nStill running, task_id: {id}", text.trim_end_matches('\n'))),
    };
    after(outcome, job.aftermath)
}

fn status(job: &Job) -> &'static str {
    match job.state {
        JobState::Running => "running",
        JobState::Ended(Exit::Code(0)) => "completed",
        JobState::Ended(_) => "failed",
        JobState::Killed => "cancelled",
    }
}

#[derive(Deserialize)]
struct Look {
    task_ids: Vec<Id>,
    timeout_ms: Option<u64>,
}

impl Tool for Output {
    fn name(&self) -> &'static str {
        "get_command_or_subagent_output"
    }
    fn description(&self) -> &'static str {
        "Reads what running commands printed since the last time; with timeout_ms it waits up to that long for all of them to end."
    }
    fn schema(&self) -> &'static str {
        r#"{"type":"object","properties":{"task_ids":{"type":"array","items":{"type":["string","integer"]},"minItems":1,"maxItems":20},"timeout_ms":{"type":"integer","minimum":0,"maximum":3600000}},"required":["task_ids"]}"#
    }
    fn plan(&self, raw: &str, _: &View) -> Result<Plan, String> {
        let it: Look = args::parse(raw)?;
        if it.task_ids.is_empty() || it.task_ids.len() > 20 {
            return Err("task_ids must hold 1 to 20 ids".to_owned());
        }
        let wait = Duration::from_millis(it.timeout_ms.unwrap_or(0).min(3_600_000));
        Ok(Plan {
            label: "output of running commands".to_owned(),
            access: Access::none(self.name(), "output"),
            action: Box::new(move |place, _| {
                Box::pin(async move {
                    let ids: Vec<u32> = it.task_ids.iter().map(|it| it.number().unwrap_or(0)).collect();
                    let found = join_all(ids.iter().map(|id| place.watch(*id, wait))).await;
                    let mut rest = Aftermath::default();
                    let tasks = it.task_ids.iter().zip(found).map(|(id, job)| match job {
                        None => json!({"task_id": id.to_string(), "status": "not_found"}),
                        Some(job) => {
                            let said = json!({"task_id": id.to_string(), "status": status(&job), "exit_code": ended(&job), "output": job.output.text});
                            rest.notes.extend(job.aftermath.notes);
                            rest.contacts.extend(job.aftermath.contacts);
                            said
                        }
                    });
                    let tasks: Vec<_> = tasks.collect();
                    after(Outcome::ok(json!({"tasks": tasks}).to_string()), rest)
                })
            }),
        })
    }
}

#[derive(Deserialize)]
struct Write {
    task_id: Id,
    input: String,
    timeout_ms: Option<u64>,
}

impl Tool for Input {
    fn name(&self) -> &'static str {
        "send_command_input"
    }
    fn description(&self) -> &'static str {
        "Writes to the input of a command that was started with background or tty, waits timeout_ms (default 250, at most 30000) and reads what it \
         printed. \\u0003 interrupts it, as Ctrl-C would."
    }
    fn schema(&self) -> &'static str {
        r#"{"type":"object","properties":{"task_id":{"type":["string","integer"]},"input":{"type":"string"},"timeout_ms":{"type":"integer","minimum":0,"maximum":30000}},"required":["task_id","input"]}"#
    }
    fn plan(&self, raw: &str, _: &View) -> Result<Plan, String> {
        let it: Write = args::parse(raw)?;
        let wait = millis(it.timeout_ms, ANSWERING, 30_000);
        let tell =
            |id, job: &Job| json!({"task_id": id, "status": status(job), "exit_code": ended(job), "output": job.output.text});
        Ok(input_plan(self.name(), "command", it.task_id, it.input, wait, tell))
    }
}

#[derive(Deserialize)]
struct Stop {
    task_id: Id,
}

impl Tool for Kill {
    fn name(&self) -> &'static str {
        "kill_command_or_subagent"
    }
    fn description(&self) -> &'static str {
        "Ends a running command and everything it started."
    }
    fn schema(&self) -> &'static str {
        r#"{"type":"object","properties":{"task_id":{"type":["string","integer"]}},"required":["task_id"]}"#
    }
    fn plan(&self, raw: &str, _: &View) -> Result<Plan, String> {
        let it: Stop = args::parse(raw)?;
        Ok(Plan {
            label: format!("end command {}", it.task_id),
            access: Access::none(self.name(), "kill"),
            action: Box::new(move |place, _| {
                Box::pin(async move {
                    let stopped = place.stop(it.task_id.number().unwrap_or(0), GRACE).await.flatten();
                    let (outcome, message) = match &stopped {
                        Some(command) => ("killed", format!("ended: {}", sid_core::one_line(command, 120))),
                        None => ("not_found", "no such command runs".to_owned()),
                    };
                    Outcome::ok(json!({"task_id": it.task_id.to_string(), "outcome": outcome, "message": message}).to_string())
                })
            }),
        })
    }
}
