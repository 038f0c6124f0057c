use std::time::Duration;

use serde::Deserialize;
use sid_core::Outcome;
use sid_policy::Access;
use sid_sandbox::{Exit, Job, JobState};

use crate::{Plan, Tool, View, after, args, error, shells::GRACE};

/// Reads a background command's new output.
pub(crate) struct CommandOutput;
/// Stops a background command.
pub(crate) struct KillCommand;

#[derive(Deserialize)]
struct Look {
    task_id: u32,
    wait_seconds: Option<u64>,
}

#[derive(Deserialize)]
struct Kill {
    task_id: u32,
}

impl Tool for CommandOutput {
    fn name(&self) -> &'static str {
        "command_output"
    }
    fn description(&self) -> &'static str {
        "Reads what a background task printed since the last time, waiting up to wait_seconds (default 10, at most 30) for it to end."
    }
    fn schema(&self) -> &'static str {
        r#"{"type":"object","properties":{"task_id":{"type":"integer"},"wait_seconds":{"type":"integer"}},"required":["task_id"],"additionalProperties":false}"#
    }
    fn plan(&self, raw: &str, _: &View) -> Result<Plan, String> {
        let Look { task_id, wait_seconds } = args::parse(raw)?;
        let wait = Duration::from_secs(wait_seconds.unwrap_or(10).min(30));
        Ok(Plan {
            label: format!("output of task {task_id}"),
            access: Access::none(self.name(), "output"),
            action: Box::new(move |place, _| Box::pin(async move { told(task_id, place.watch(task_id, wait).await) })),
        })
    }
}

impl Tool for KillCommand {
    fn name(&self) -> &'static str {
        "kill_command"
    }
    fn description(&self) -> &'static str {
        "Stops a background task and everything it started."
    }
    fn schema(&self) -> &'static str {
        r#"{"type":"object","properties":{"task_id":{"type":"integer"}},"required":["task_id"],"additionalProperties":false}"#
    }
    fn plan(&self, raw: &str, _: &View) -> Result<Plan, String> {
        let Kill { task_id } = args::parse(raw)?;
        Ok(Plan {
            label: format!("stop task {task_id}"),
            access: Access::none(self.name(), "kill"),
            action: Box::new(move |place, _| Box::pin(async move { told(task_id, place.kill(task_id, GRACE).await) })),
        })
    }
}

fn told(id: u32, job: Option<Job>) -> Outcome {
    let Some(job) = job else {
        return error(format!("there is no background task with id {id} (tasks end with the session that started them)."));
    };
    let state = match job.state {
        JobState::Running => "is still running".to_owned(),
        JobState::Killed => "was killed".to_owned(),
        JobState::Ended(Exit::Code(code)) => format!("exited with code {code}"),
        JobState::Ended(Exit::Signal(signal)) => format!("was ended by signal {signal}"),
        JobState::Ended(Exit::NoSandbox) => "did not run: the sandbox could not be set up".to_owned(),
    };
    let output = if job.output.text.is_empty() { "(no new output)".to_owned() } else { job.output.text };
    let text = format!("Task {id} (`{}`) {state}.\n{output}", sid_core::one_line(&job.command, 120));
    after(Outcome::ok(text), job.aftermath)
}
