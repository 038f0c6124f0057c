//! The shells that Claude models know: `Bash` and its tasks.
use serde::Deserialize;
use serde_json::json;
use sid_core::Outcome;
use sid_policy::Access;
use sid_sandbox::{Job, JobState};

use crate::{
    Plan, Tool, View, after, args,
    shells::{ANSWERING, ESCALATE, Id, STARTING, declared, ended, input_plan, millis, run_plan, stop_plan, streams, tail, unknown},
};

/// Runs a command.
pub(crate) struct Bash;
/// Reads a task's new output.
pub(crate) struct TaskOutput;
/// Writes to a task.
pub(crate) struct TaskInput;
/// Stops a task.
pub(crate) struct TaskStop;

/// Lines and bytes of a result.
const SHOWN: (usize, usize) = (2000, 50 << 10);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Run {
    command: String,
    timeout: Option<u64>,
    description: Option<String>,
    #[serde(default)]
    run_in_background: bool,
    #[serde(default)]
    tty: bool,
    #[serde(default, rename = "dangerouslyDisableSandbox")]
    disable_sandbox: bool,
}

impl Tool for Bash {
    fn name(&self) -> &'static str {
        "Bash"
    }
    fn description(&self) -> &'static str {
        "Runs a command with sh -c in the working directory; nothing carries over between commands. timeout (milliseconds, default 120000, at most \
         600000) is how long the call waits: a command that runs longer is not stopped but goes on as a task. run_in_background starts a task at \
         once. Read tasks with TaskOutput, write to them with TaskInput, stop them with TaskStop; you are told when one ends. Commands run in a \
         sandbox: the workspace is writable, the rest read-only, /tmp private to each command. dangerouslyDisableSandbox asks for one run without it."
    }
    fn schema(&self) -> &'static str {
        r#"{"type":"object","properties":{"command":{"type":"string"},"timeout":{"type":"integer","minimum":0,"maximum":600000},"description":{"type":"string"},"run_in_background":{"type":"boolean"},"tty":{"type":"boolean"},"dangerouslyDisableSandbox":{"type":"boolean"}},"required":["command"],"additionalProperties":false}"#
    }
    fn auto_guidance(&self) -> Option<&'static str> {
        Some(ESCALATE)
    }
    fn for_reviewer(&self) -> bool {
        true
    }
    fn plan(&self, raw: &str, view: &View) -> Result<Plan, String> {
        let it: Run = args::parse(raw)?;
        if it.timeout.is_some_and(|it| it > 600_000) {
            return Err("timeout must be 0 to 600000 milliseconds".to_owned());
        }
        let reason = it.description.unwrap_or_else(|| "no reason was given".to_owned());
        let access = declared(self.name(), &it.command, view.path("."), it.disable_sandbox.then_some(reason))?;
        let wait = if it.run_in_background { STARTING } else { millis(it.timeout, 120_000, 600_000) };
        let io = streams((it.tty, it.run_in_background));
        Ok(run_plan(it.command, access, io, wait, |id, job, _| told(id, job)))
    }
}

fn told(id: u32, job: Job) -> Outcome {
    let mut text = tail(&job.output.text, SHOWN.0, SHOWN.1);
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
    match ended(&job) {
        Some(code) => text.push_str(&format!("exit_code: {code}")),
        None => text.push_str(&format!(
            "The command is still running as task {id}. Read it with TaskOutput, write to it with TaskInput, stop it with TaskStop."
        )),
    }
    after(Outcome::ok(text), job.aftermath)
}

#[derive(Deserialize)]
struct Look {
    task_id: Id,
    block: Option<bool>,
    timeout: Option<u64>,
}

impl Tool for TaskOutput {
    fn name(&self) -> &'static str {
        "TaskOutput"
    }
    fn description(&self) -> &'static str {
        "Reads what a task printed since the last time. With block (default true) it waits up to timeout milliseconds (default 30000) for its end."
    }
    fn schema(&self) -> &'static str {
        r#"{"type":"object","properties":{"task_id":{"type":["integer","string"]},"block":{"type":"boolean"},"timeout":{"type":"integer","minimum":0,"maximum":3600000}},"required":["task_id"]}"#
    }
    fn plan(&self, raw: &str, _: &View) -> Result<Plan, String> {
        let it: Look = args::parse(raw)?;
        let block = it.block.unwrap_or(true);
        let wait = if block { millis(it.timeout, 30_000, 3_600_000) } else { std::time::Duration::ZERO };
        Ok(Plan {
            label: format!("output of task {}", it.task_id),
            access: Access::none(self.name(), "output"),
            action: Box::new(move |place, _| {
                Box::pin(async move {
                    let id = it.task_id.number().unwrap_or(0);
                    match place.watch(id, wait).await {
                        Some(job) => looked(id, job, if block { "timeout" } else { "not_ready" }),
                        None => unknown("task", it.task_id),
                    }
                })
            }),
        })
    }
}

fn looked(id: u32, job: Job, if_running: &str) -> Outcome {
    let retrieval = if job.is_running() { if_running } else { "success" };
    let task = json!({
        "task_id": id, "task_type": "local_bash", "command": job.command, "description": job.command,
        "status": status(&job), "exitCode": ended(&job), "output": tail(&job.output.text, SHOWN.0, SHOWN.1),
    });
    after(Outcome::ok(json!({"retrieval_status": retrieval, "task": task}).to_string()), job.aftermath)
}

fn status(job: &Job) -> &'static str {
    match job.state {
        JobState::Running => "running",
        JobState::Ended(_) => "completed",
        JobState::Killed => "killed",
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Write {
    task_id: Id,
    input: String,
    timeout: Option<u64>,
}

impl Tool for TaskInput {
    fn name(&self) -> &'static str {
        "TaskInput"
    }
    fn description(&self) -> &'static str {
        "Writes to the input of a task that was started with run_in_background or tty, then waits timeout milliseconds (default 250) and reads \
         what it printed. \\u0003 interrupts it, as Ctrl-C would."
    }
    fn schema(&self) -> &'static str {
        r#"{"type":"object","properties":{"task_id":{"type":["integer","string"]},"input":{"type":"string"},"timeout":{"type":"integer","minimum":0,"maximum":30000}},"required":["task_id","input"],"additionalProperties":false}"#
    }
    fn plan(&self, raw: &str, _: &View) -> Result<Plan, String> {
        let it: Write = args::parse(raw)?;
        let wait = millis(it.timeout, ANSWERING, 30_000);
        let tell = |id, job: &Job| json!({"task_id": id, "status": status(job), "exitCode": ended(job), "output": job.output.text});
        Ok(input_plan(self.name(), "task", it.task_id, it.input, wait, tell))
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Stop {
    task_id: Id,
}

impl Tool for TaskStop {
    fn name(&self) -> &'static str {
        "TaskStop"
    }
    fn description(&self) -> &'static str {
        "Stops a task and everything it started."
    }
    fn schema(&self) -> &'static str {
        r#"{"type":"object","properties":{"task_id":{"type":["integer","string"]}},"required":["task_id"],"additionalProperties":false}"#
    }
    fn plan(&self, raw: &str, _: &View) -> Result<Plan, String> {
        let it: Stop = args::parse(raw)?;
        Ok(stop_plan(self.name(), "task", it.task_id, |id, command| {
            let message = format!("task {id} was stopped");
            json!({"command": command, "message": message, "task_id": id, "task_type": "local_bash"})
        }))
    }
}
