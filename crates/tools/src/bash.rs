use std::time::Duration;

use serde::Deserialize;
use sid_core::Outcome;
use sid_policy::Access;
use sid_sandbox::{Confined, InShell, Limits};

use crate::{
    Plan, Tool, View, after, args, error,
    shells::{GRACE, OUTPUT, Permissions, declared, escalation},
};

/// The shell that stays between calls (sid's manual, TOOLS, `bash`).
#[derive(Debug, Clone)]
pub struct Bash {
    /// How long a command may take; `None`: for ever.
    pub timeout: Option<Duration>,
}

#[derive(Deserialize)]
struct Args {
    command: Option<String>,
    #[serde(default)]
    restart: bool,
    sandbox_permissions: Option<Permissions>,
    justification: Option<String>,
}

/// For commands that may run for ever.
const FOR_EVER: Duration = Duration::from_secs(1 << 30);

impl Tool for Bash {
    fn name(&self) -> &'static str {
        "bash"
    }
    fn description(&self) -> &'static str {
        "Runs a command in a bash that stays: the folder, variables, functions and aliases carry over to the next call. It has a terminal to print to \
         and no standard input. restart gives a fresh shell, before the command if there is one. The shell is in a sandbox: the workspace is \
         writable, the rest is read-only, /tmp is its own, there is no network. Set sandbox_permissions to require_escalated, with a \
         justification, only for a command that can't work inside; it then runs in a fresh shell of its own, in the working directory."
    }
    fn schema(&self) -> &'static str {
        r#"{"type":"object","properties":{"command":{"type":"string"},"restart":{"type":"boolean"},"sandbox_permissions":{"type":"string","enum":["use_default","require_escalated"]},"justification":{"type":"string"}},"additionalProperties":false}"#
    }
    fn auto_guidance(&self) -> Option<&'static str> {
        Some(crate::shells::ESCALATE)
    }
    fn plan(&self, raw: &str, view: &View) -> Result<Plan, String> {
        let args: Args = args::parse(raw)?;
        let time = self.timeout.unwrap_or(FOR_EVER);
        let Some(command) = args.command else {
            if !args.restart {
                return Err("command is missing (restart alone is fine)".to_owned());
            }
            return Ok(Plan {
                label: "restart the shell".to_owned(),
                access: Access::none(self.name(), "shell"),
                action: Box::new(|place, _| {
                    Box::pin(async move {
                        place.restart_shell().await;
                        Outcome::ok("The shell was restarted.")
                    })
                }),
            });
        };
        let escalate = escalation(args.sandbox_permissions, args.justification);
        let access = declared(self.name(), if command.trim().is_empty() { ":" } else { &command }, view.cwd.clone(), escalate)?;
        Ok(Plan {
            label: command,
            access,
            action: Box::new(move |place, _| {
                Box::pin(async move {
                    if args.restart {
                        place.restart_shell().await;
                    }
                    run(place, time).await
                })
            }),
        })
    }
}

async fn run(place: &Confined<'_>, time: Duration) -> Outcome {
    match place.in_shell(Limits { time, grace: GRACE, output: OUTPUT }).await {
        Ok(ran) => {
            let outcome = told(&ran, time);
            after(outcome, ran.aftermath)
        }
        Err(why) => error(why),
    }
}

fn told(ran: &InShell, time: Duration) -> Outcome {
    let mut text = ran.output.text.clone();
    let line = |text: &mut String, line: &str| {
        if !text.is_empty() && !text.ends_with('\n') {
            text.push('\n');
        }
        text.push_str(line);
    };
    match ran.exit {
        Some(0) if text.is_empty() => text.push_str("(no output)"),
        Some(0) => {}
        Some(code) => line(&mut text, &format!("exit status: {code}")),
        None => {
            let head = format!("Error: the command timed out after {} s and was stopped.", time.as_secs());
            text = if text.is_empty() { head } else { format!("{head}\n{text}") };
        }
    }
    ran.notes.iter().for_each(|it| line(&mut text, &format!("[{it}]")));
    if ran.exit == Some(0) { Outcome::ok(text) } else { Outcome::failed(text) }
}
