//! `git_status` and `git_diff`: what changed, read-only in every mode, and whatever the repository's configuration says.
use std::time::Duration;

use serde::Deserialize;
use sid_core::Outcome;
use sid_policy::{Access, Exec};
use sid_sandbox::{Confined, Exit, Limits, quoted};

use crate::{
    Plan, Tool, View, after, args, error,
    shells::{GRACE, OUTPUT},
};

/// Shows the state of the work tree.
pub(crate) struct GitStatus;
/// Shows changes.
pub(crate) struct GitDiff;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Status {
    #[serde(default)]
    short: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Diff {
    #[serde(default)]
    staged: bool,
    path: Option<String>,
    #[serde(rename = "ref")]
    reference: Option<String>,
}

/// Nothing of a repository is run or written: no monitor, no hooks, no pager, no refreshed index.
const GIT: &str = "GIT_OPTIONAL_LOCKS=0 exec git --no-pager -c core.fsmonitor=false -c core.hooksPath=/dev/null -c color.ui=never";
const TIME: Duration = Duration::from_secs(60);

impl Tool for GitStatus {
    fn name(&self) -> &'static str {
        "git_status"
    }
    fn description(&self) -> &'static str {
        "Shows the state of the work tree of the Git repository."
    }
    fn schema(&self) -> &'static str {
        r#"{"type":"object","properties":{"short":{"type":"boolean"}},"additionalProperties":false}"#
    }
    fn for_reviewer(&self) -> bool {
        true
    }
    fn plan(&self, raw: &str, view: &View) -> Result<Plan, String> {
        let it: Status = args::parse(raw)?;
        let flag = if it.short { " --short" } else { "" };
        Ok(plan(self.name(), format!("{GIT} status{flag}"), view, "nothing to report"))
    }
}

impl Tool for GitDiff {
    fn name(&self) -> &'static str {
        "git_diff"
    }
    fn description(&self) -> &'static str {
        "Shows changes in the work tree, with staged those in the index, with ref those since a commit or branch; with path only of that file or folder."
    }
    fn schema(&self) -> &'static str {
        r#"{"type":"object","properties":{"staged":{"type":"boolean"},"path":{"type":"string"},"ref":{"type":"string"}},"additionalProperties":false}"#
    }
    fn for_reviewer(&self) -> bool {
        true
    }
    fn plan(&self, raw: &str, view: &View) -> Result<Plan, String> {
        let it: Diff = args::parse(raw)?;
        let mut command = format!("{GIT} diff --no-ext-diff --no-textconv");
        if it.staged {
            command.push_str(" --cached");
        }
        command.push_str(" --end-of-options");
        if let Some(reference) = it.reference.filter(|it| !it.is_empty()) {
            if reference.starts_with('-') || reference.contains(['\0', '\n']) {
                return Err("ref must name a commit or a branch, and can't begin with a dash".to_owned());
            }
            command.push_str(&format!(" {}", quoted(&reference)));
        }
        if let Some(path) = it.path.filter(|it| !it.is_empty()) {
            command.push_str(&format!(" -- {}", quoted(&path)));
        }
        Ok(plan(self.name(), command, view, "No differences found."))
    }
}

fn plan(tool: &str, command: String, view: &View, nothing: &'static str) -> Plan {
    let exec = Exec { command, cwd: view.cwd.clone(), escalate: None, shell: None };
    Plan {
        label: tool.replace('_', " "),
        access: Access::none(tool, "git").looks(exec),
        action: Box::new(move |place, _| Box::pin(async move { run(place, nothing).await })),
    }
}

async fn run(place: &Confined<'_>, nothing: &str) -> Outcome {
    let ran = match place.run(Limits { time: TIME, grace: GRACE, output: OUTPUT }).await {
        Ok(it) => it,
        Err(why) => return error(why),
    };
    let text = ran.output.text.trim_end();
    let outcome = match ran.exit {
        _ if ran.timed_out => error(format!("git took longer than {} s and was stopped.\n{text}", TIME.as_secs())),
        Exit::Code(0) if text.is_empty() => Outcome::ok(nothing),
        Exit::Code(0) => Outcome::ok(text),
        _ => error(format!("git failed.\n{text}")),
    };
    after(outcome, ran.aftermath)
}
