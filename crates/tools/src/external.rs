//! Programs of the user's as tools: rc services that read a request from a file and write a result to one (protocol 1).
use std::{path::PathBuf, time::Duration};

use serde::Deserialize;
use serde_json::{Map, Value, json};
use sid_core::Outcome;
use sid_policy::{Access, Exec};
use sid_sandbox::{Confined, Exit, Limits, Ran, SCRATCH, Scratch, quoted};

use crate::{Plan, Tool, View, after, args, error, shells::OUTPUT};

/// When a call's folder stays.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keep {
    /// Never.
    Never,
    /// After a failure.
    Failed,
    /// Always.
    Always,
}

/// A service of `tools.conf` with a program of its own.
#[derive(Debug, Clone)]
pub struct External {
    /// The name that the model sees.
    pub name: String,
    /// The service that the name means, and what that is in the end.
    pub service: String,
    /// See [`Self::service`].
    pub canonical: String,
    /// What the model is told.
    pub description: String,
    /// The JSON schema of its input.
    pub schema: String,
    /// The program.
    pub program: PathBuf,
    /// How long it may run.
    pub timeout: Option<Duration>,
    /// Whether it shows what it would do, before a person is asked.
    pub confirm: bool,
    /// Fields of the service that are its own.
    pub variables: Vec<(String, String)>,
    /// Every service of the configuration, for programs that call others.
    pub services: Vec<String>,
    /// The configuration's folder.
    pub root: PathBuf,
    /// The agent that calls.
    pub agent: String,
    /// When the call's folder stays.
    pub keep: Keep,
}

/// A limit for programs that have none.
const FOR_EVER: Duration = Duration::from_secs(1 << 30);
/// Between asking a program to stop and killing it.
const GRACE: Duration = Duration::from_secs(5);
/// How long a preview may take.
const CONFIRM: Duration = Duration::from_secs(5);
/// Bytes of a result.
const RESULT: u64 = 8 << 20;
/// Bytes of what a program printed that an error repeats.
const SAID: usize = 2000;

#[derive(Deserialize)]
struct Answer {
    protocol_version: Option<u64>,
    request_id: Option<String>,
    ok: Option<bool>,
    output: Option<Output>,
    error: Option<Failure>,
}

#[derive(Deserialize)]
struct Output {
    kind: Option<String>,
    text: Option<String>,
}

#[derive(Deserialize)]
struct Failure {
    message: Option<String>,
}

impl Tool for External {
    fn name(&self) -> &str {
        &self.name
    }
    fn description(&self) -> &str {
        &self.description
    }
    fn schema(&self) -> &str {
        &self.schema
    }
    fn preview(&self, raw: &str, view: &View) -> Option<Plan> {
        let input: Map<String, Value> = args::parse(raw).ok().filter(|_| self.confirm)?;
        let exec = Exec { command: self.script(view, "confirm"), cwd: view.cwd.clone(), escalate: None, shell: None };
        let (it, workspace) = (self.clone(), view.cwd.clone());
        Some(Plan {
            label: format!("preview of {}", self.name),
            access: Access::none("preview", "preview").looks(exec),
            action: Box::new(move |place, _| Box::pin(async move { it.show(place, &input, workspace).await })),
        })
    }
    fn plan(&self, raw: &str, view: &View) -> Result<Plan, String> {
        let input: Map<String, Value> = args::parse(raw)?;
        let exec = Exec { command: self.script(view, "run"), cwd: view.cwd.clone(), escalate: None, shell: None };
        let label = format!("{} {}", self.name, Value::Object(input.clone()));
        let access = Access::none(&self.name, "external").runs(exec).described(format!("running the tool {label}"));
        let (it, workspace) = (self.clone(), view.cwd.clone());
        Ok(Plan {
            label,
            access,
            action: Box::new(move |place, _| Box::pin(async move { it.run(place, &input, workspace).await })),
        })
    }
}

impl External {
    /// The shell's part: the variables, every value as it is, then the program with its subcommand.
    fn script(&self, view: &View, subcommand: &str) -> String {
        let mut out = format!("S=${SCRATCH}\n");
        let prefix = prefix(&self.service);
        let own = self.bindings(&prefix, &view.cwd.to_string_lossy());
        let more = [
            ("TMPDIR", Shown::Scratch("/tmp")),
            ("TEMP", Shown::Scratch("/tmp")),
            ("TMP", Shown::Scratch("/tmp")),
            ("PAGER", Shown::Text("cat".to_owned())),
            ("RCVAR_ARGV0", Shown::Text(prefix.trim_end_matches('_').to_owned())),
            ("RC_CONF_PATH", self.conf_path()),
            ("RC_D_PATH", Shown::Text(self.root.join("tools").to_string_lossy().into_owned())),
            ("SID_WORKSPACE_ROOT", Shown::Text(view.cwd.to_string_lossy().into_owned())),
        ];
        let custom = self.variables.iter().map(|(name, value)| (format!("{prefix}{name}"), Shown::Text(value.clone())));
        let all = custom.chain(own).chain(more.into_iter().map(|(name, value)| (name.to_owned(), value)));
        for (name, value) in all {
            out.push_str(&format!("export {name}={}\n", value.for_shell()));
        }
        out + &format!("unset S\nexec {} {subcommand}", quoted(&self.program.to_string_lossy()))
    }

    fn conf_path(&self) -> Shown {
        Shown::Both(format!("{}:", self.root.join("tools.conf").display()), "/tool-invoke.conf")
    }

    /// What a service finds under its own prefix.
    fn bindings(&self, prefix: &str, workspace: &str) -> Vec<(String, Shown)> {
        let text = |it: &str| Shown::Text(it.to_owned());
        let all = [
            ("REQUEST_FILE", Shown::Scratch("/request.json")),
            ("RESULT_FILE", Shown::Scratch("/result.json")),
            ("SCRATCH_DIR", Shown::Scratch("")),
            ("TEMP_DIR", Shown::Scratch("/tmp")),
            ("TMPDIR", Shown::Scratch("/tmp")),
            ("WORKSPACE_ROOT", text(workspace)),
            ("SESSION_ID", Shown::Variable("SID_SESSION_ID")),
            ("SESSION_DIR", Shown::Variable("SID_SESSION_DIR")),
            ("AGENT_ID", text(&self.agent)),
            ("TOOL_ID", text(&self.canonical)),
            ("TOOL_NAME", text(&self.service)),
            ("TOOL_PROTOCOL", text("1")),
            ("RC_CONF_PATH", self.conf_path()),
            ("RC_D_PATH", text(&self.root.join("tools").to_string_lossy())),
        ];
        all.into_iter().map(|(name, value)| (format!("{prefix}{name}"), value)).collect()
    }

    async fn run(self, place: &Confined<'_>, input: &Map<String, Value>, workspace: PathBuf) -> Outcome {
        let name = self.name.clone();
        let mut scratch = match place.scratch() {
            Ok(it) => it,
            Err(why) => return error(why),
        };
        let outcome = self.ask(place, &scratch, input, &workspace.to_string_lossy()).await;
        let outcome = outcome.unwrap_or_else(|why| Outcome::failed(format!("Error: tool '{name}' {why}")));
        if self.keep == Keep::Always || (self.keep == Keep::Failed && outcome.is_error()) {
            scratch.keep();
        }
        outcome
    }

    /// Has the program show what a call would do.
    async fn show(&self, place: &Confined<'_>, input: &Map<String, Value>, workspace: PathBuf) -> Outcome {
        let scratch = match place.scratch() {
            Ok(it) => it,
            Err(why) => return error(why),
        };
        let ran = match self.request(&scratch, input, &workspace.to_string_lossy()) {
            Ok(_) => place.run_in(&scratch, Limits { time: CONFIRM, grace: Duration::ZERO, output: OUTPUT }).await,
            Err(why) => return error(why),
        };
        match ran {
            Ok(ran) if ran.exit == Exit::Code(0) && !ran.timed_out => Outcome::ok(ran.output.text.trim()),
            Ok(ran) => error(said(&ran)),
            Err(why) => error(why),
        }
    }

    /// Asks the program, and reads its answer. An error is what the model reads after the tool's name.
    async fn ask(
        &self,
        place: &Confined<'_>,
        scratch: &Scratch,
        input: &Map<String, Value>,
        workspace: &str,
    ) -> Result<Outcome, String> {
        let id = self.request(scratch, input, workspace)?;
        let limits = Limits { time: self.timeout.unwrap_or(FOR_EVER), grace: GRACE, output: OUTPUT };
        let ran = place.run_in(scratch, limits).await.map_err(|why| format!("failed to launch: {why}"))?;
        let aftermath = ran.aftermath.clone();
        let outcome = self.answer(&ran, scratch, &id).map_err(|why| format!("{why}{}", said(&ran)));
        outcome.map(|it| after(it, aftermath))
    }

    /// Writes the request and what services find under their prefixes; returns the request's id.
    fn request(&self, scratch: &Scratch, input: &Map<String, Value>, workspace: &str) -> Result<String, String> {
        let dir = scratch.dir().to_string_lossy().into_owned();
        let id = format!("sidreq_{}", scratch.dir().file_name().unwrap_or_default().to_string_lossy());
        let request = json!({
            "protocol_version": 1,
            "request_id": id,
            "tool": {"id": self.canonical},
            "invocation": {"tool_use_id": id, "input": input},
            "agent": {"id": self.agent},
            "workspace": {"root": workspace, "cwd": workspace},
            "files": {"scratch_dir": dir, "temp_dir": format!("{dir}/tmp"), "result_file": format!("{dir}/result.json")},
        });
        let overlay: String = self
            .services
            .iter()
            .flat_map(|it| self.bindings(&prefix(it), workspace))
            .filter_map(|(name, value)| Some(format!("{name}={}\n", value.for_rc(&dir)?)))
            .collect();
        let written = scratch.write("request.json", &serde_json::to_vec_pretty(&request).unwrap_or_default());
        written
            .and_then(|()| scratch.write("tool-invoke.conf", overlay.as_bytes()))
            .map_err(|err| format!("could not be asked: {err}"))?;
        Ok(id)
    }

    fn answer(&self, ran: &Ran, scratch: &Scratch, id: &str) -> Result<Outcome, String> {
        if ran.timed_out {
            return Err(format!("timed out after {} s", self.timeout.unwrap_or(FOR_EVER).as_secs()));
        }
        match ran.exit {
            Exit::Code(0) => {}
            Exit::Code(code) => return Err(format!("exited with status {code}")),
            Exit::Signal(signal) => return Err(format!("was ended by signal {signal}")),
            Exit::NoSandbox => {
                return Err("could not be started: the sandbox could not be set up (`sid doctor` says more)".to_owned());
            }
        }
        let wrong = |what: String| format!("protocol error: {what}");
        let bytes = scratch.read("result.json", RESULT).map_err(|err| wrong(format!("result.json can't be read: {err}")))?;
        let it: Answer = serde_json::from_slice(&bytes).map_err(|err| wrong(format!("result.json is no result: {err}")))?;
        match it.protocol_version {
            Some(1) => {}
            Some(version) => return Err(wrong(format!("unsupported result protocol version {version}"))),
            None => return Err(wrong("missing protocol_version".to_owned())),
        }
        if it.request_id.as_deref() != Some(id) {
            return Err(wrong(format!("request_id mismatch (expected {id}, got {})", it.request_id.as_deref().unwrap_or("none"))));
        }
        match it.ok {
            None => Err(wrong("missing ok".to_owned())),
            Some(true) => {
                let output = it.output.ok_or_else(|| wrong("missing success output".to_owned()))?;
                match (output.kind.as_deref(), output.text) {
                    (Some("text"), Some(text)) => Ok(Outcome::ok(text)),
                    (Some("text"), None) => Err(wrong("missing output.text".to_owned())),
                    (kind, _) => Err(wrong(format!("unsupported output kind '{}'", kind.unwrap_or("none")))),
                }
            }
            Some(false) => {
                let failure = it.error.ok_or_else(|| wrong("missing error object".to_owned()))?;
                failure.message.map(Outcome::failed).ok_or_else(|| wrong("missing error.message".to_owned()))
            }
        }
    }
}

/// The end of what a program printed.
fn said(ran: &Ran) -> String {
    let text = ran.output.text.trim();
    if text.is_empty() { String::new() } else { format!("\n{}", crate::shells::tail(text, 50, SAID)) }
}

/// A value, as far as it is known before the call has a folder.
pub(crate) enum Shown {
    Text(String),
    Scratch(&'static str),
    /// What another variable holds.
    Variable(&'static str),
    Both(String, &'static str),
}

impl Shown {
    pub(crate) fn for_shell(&self) -> String {
        match self {
            Self::Text(it) => quoted(it),
            Self::Scratch(below) => format!("\"$S\"{below}"),
            Self::Variable(name) => format!("\"${name}\""),
            Self::Both(before, below) => format!("{}\"$S\"{below}", quoted(before)),
        }
    }

    /// As a word of an rc file; `None`: no such word can hold it.
    fn for_rc(&self, dir: &str) -> Option<String> {
        let whole = match self {
            Self::Text(it) => it.clone(),
            Self::Scratch(below) => format!("{dir}{below}"),
            // Programs that call others hand it on themselves.
            Self::Variable(_) => return None,
            Self::Both(before, below) => format!("{before}{dir}{below}"),
        };
        let mark = if whole.contains('\'') { '"' } else { '\'' };
        (!whole.contains(mark) && !whole.contains(['\\', '\n', '\r'])).then(|| format!("{mark}{whole}{mark}"))
    }
}

pub(crate) fn prefix(service: &str) -> String {
    service.chars().map(|it| if it.is_alphanumeric() { it } else { '_' }).chain(['_']).collect()
}
