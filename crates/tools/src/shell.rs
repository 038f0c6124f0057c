use std::time::Duration;

use serde::Deserialize;
use sid_core::Outcome;
use sid_sandbox::{Confined, Exit, Limits, Ran};

use crate::{
    Plan, Tool, View, after, args, error,
    shells::{GRACE, OUTPUT, Permissions, declared, escalation},
};

/// Runs a command.
pub(crate) struct RunCommand;

#[derive(Deserialize)]
struct Args {
    command: String,
    cwd: Option<String>,
    #[serde(default)]
    run_in_background: bool,
    timeout_seconds: Option<u64>,
    sandbox_permissions: Option<Permissions>,
    justification: Option<String>,
}

const DEFAULT: u64 = 120;
const LONGEST: u64 = 600;

impl Tool for RunCommand {
    fn name(&self) -> &'static str {
        "run_command"
    }
    fn description(&self) -> &'static str {
        "Runs a command with sh -c. Each command starts in the working directory unless cwd is given; nothing carries over between commands. It has \
         no standard input. It is stopped after timeout_seconds (default 120, at most 600); what must run longer goes to the background: \
         its output is read with command_output, and it ends with the session. Commands run in a sandbox: the workspace is writable, the rest \
         is read-only, /tmp is private to each command, there is no network. Set sandbox_permissions to require_escalated, with a \
         justification, only for what can't work inside."
    }
    fn schema(&self) -> &'static str {
        r#"{"type":"object","properties":{"command":{"type":"string"},"cwd":{"type":"string"},"run_in_background":{"type":"boolean"},"timeout_seconds":{"type":"integer"},"sandbox_permissions":{"type":"string","enum":["use_default","require_escalated"]},"justification":{"type":"string"}},"required":["command"],"additionalProperties":false}"#
    }
    fn auto_guidance(&self) -> Option<&'static str> {
        Some(crate::shells::ESCALATE)
    }
    fn for_reviewer(&self) -> bool {
        true
    }
    fn plan(&self, raw: &str, view: &View) -> Result<Plan, String> {
        let args: Args = args::parse(raw)?;
        let spelled = args.cwd.unwrap_or_else(|| ".".to_owned());
        let seconds = args.timeout_seconds.unwrap_or(DEFAULT).clamp(1, LONGEST);
        let escalate = escalation(args.sandbox_permissions, args.justification);
        let access = declared(self.name(), &args.command, view.path(&spelled), escalate)?;
        let background = args.run_in_background;
        Ok(Plan {
            label: args.command,
            access,
            action: Box::new(move |place, _| {
                Box::pin(async move { if background { start(place).await } else { run(place, seconds, &spelled).await } })
            }),
        })
    }
}

async fn run(place: &Confined<'_>, seconds: u64, cwd: &str) -> Outcome {
    let limits = Limits { time: Duration::from_secs(seconds), grace: GRACE, output: OUTPUT };
    match place.run(limits).await {
        Ok(ran) => after(told(&ran, seconds, cwd), ran.aftermath),
        Err(why) => error(why),
    }
}

fn told(ran: &Ran, seconds: u64, cwd: &str) -> Outcome {
    let mut output = ran.output.text.clone();
    if !output.is_empty() && !output.ends_with('\n') {
        output.push('\n');
    }
    let place = format!("[cwd {cwd}]");
    if ran.timed_out {
        return error(format!(
            "the command timed out after {seconds} s and was stopped, with all it had started.\n{output}{place}"
        ));
    }
    match ran.exit {
        Exit::Code(0) if output.is_empty() => Outcome::ok(format!("Command succeeded (exit code 0) with no output.\n{place}")),
        Exit::Code(0) => Outcome::ok(format!("Exit code 0:\n{output}{place}")),
        Exit::Code(code) => Outcome::failed(format!("Command failed (exit code {code}):\n{output}{place}")),
        Exit::Signal(signal) => Outcome::failed(format!("Command failed (killed by signal {signal}):\n{output}{place}")),
        Exit::NoSandbox => {
            error(format!("the sandbox could not be set up, so the command did not run. `sid doctor` says more.\n{output}{place}"))
        }
    }
}

async fn start(place: &Confined<'_>) -> Outcome {
    match place.spawn(OUTPUT).await {
        Ok(id) => {
            Outcome::ok(format!("Started background task {id}. Read its output with command_output, stop it with kill_command."))
        }
        Err(why) => error(why),
    }
}
