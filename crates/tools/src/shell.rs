use std::time::Duration;

use serde::Deserialize;
use sid_core::Outcome;
use sid_policy::{Access, Exec};
use sid_sandbox::{Confined, Exit, Limits, Ran};

use crate::{Plan, Tool, View, args, error};

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

#[derive(Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
enum Permissions {
    UseDefault,
    RequireEscalated,
}

/// Bytes of output kept, head and tail.
pub(crate) const OUTPUT: usize = 50_000;
const DEFAULT: u64 = 120;
const LONGEST: u64 = 600;
/// Between asking a command to stop and killing it.
pub(crate) const GRACE: Duration = Duration::from_secs(2);

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
    fn for_reviewer(&self) -> bool {
        true
    }
    fn plan(&self, raw: &str, view: &View) -> Result<Plan, String> {
        let args: Args = args::parse(raw)?;
        if args.command.trim().is_empty() {
            return Err("command is empty".to_owned());
        }
        if args.command.contains('\0') {
            return Err("command holds a NUL character, which no command line can".to_owned());
        }
        let spelled = args.cwd.unwrap_or_else(|| ".".to_owned());
        let seconds = args.timeout_seconds.unwrap_or(DEFAULT).clamp(1, LONGEST);
        let escalate = (args.sandbox_permissions == Some(Permissions::RequireEscalated))
            .then(|| args.justification.unwrap_or_else(|| "no reason was given".to_owned()));
        let cwd = view.path(&spelled).components().collect();
        let access = Access::none(self.name(), "shell").runs(Exec { command: args.command.clone(), cwd, escalate });
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
        Ok(ran) => told(&ran, seconds, cwd),
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
