//! Programs of the user's as tools: rc services that read a request from a file and write a result to one (protocol 1).
use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use serde::Deserialize;
use serde_json::{Map, Value as Json, json};
use sid_core::Outcome;
use sid_policy::{Access, Exec};
use sid_sandbox::{Confined, Kept, Limits, Ran, Scratch};

use crate::{
    Plan, Tool, View, after, args, error,
    rcvar::{Asked, ENVIRONMENT, Value, command, common, ended, environment, prefix, question, said},
    shells::OUTPUT,
};

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
    /// Which variables it wants.
    pub asked: Asked,
    /// Every service of the configuration, for programs that call others.
    pub services: Vec<String>,
    /// Those that a person is asked about. Nobody could be asked when a program calls one, so they are off there.
    pub manual: Vec<String>,
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
/// The file that lists the agent's skills.
const SKILLS: &str = "skills-manifest.json";
/// Bytes of a result.
const RESULT: u64 = 8 << 20;

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
        let input: Map<String, Json> = args::parse(raw).ok().filter(|_| self.confirm)?;
        let exec = Exec { command: command(&self.program, "confirm"), cwd: view.cwd.clone(), escalate: None, shell: None };
        let (it, view) = (self.clone(), view.clone());
        Some(Plan {
            label: format!("preview of {}", self.name),
            access: Access::none("preview", "preview").looks(exec).asks(question(&self.program, &prefix(&self.service))),
            action: Box::new(move |place, _| Box::pin(async move { it.show(place, &input, &view).await })),
        })
    }
    fn plan(&self, raw: &str, view: &View) -> Result<Plan, String> {
        let input: Map<String, Json> = args::parse(raw)?;
        let exec = Exec { command: command(&self.program, "run"), cwd: view.cwd.clone(), escalate: None, shell: None };
        let label = format!("{} {}", self.name, Json::Object(input.clone()));
        let access = Access::none(&self.name, "external").runs(exec).described(format!("running the tool {label}"));
        let access = access.asks(question(&self.program, &prefix(&self.service)));
        let (it, view) = (self.clone(), view.clone());
        Ok(Plan { label, access, action: Box::new(move |place, _| Box::pin(async move { it.run(place, &input, &view).await })) })
    }
}

impl External {
    /// What a service finds under its own prefix, by the rest of the names.
    fn bindings(&self, scratch: &Path, workspace: &Path) -> Vec<(&'static str, Value)> {
        let text = |it: &str| Value::Text(it.to_owned());
        let path = |it: &Path| Value::Text(it.to_string_lossy().into_owned());
        vec![
            ("REQUEST_FILE", path(&scratch.join("request.json"))),
            ("RESULT_FILE", path(&scratch.join("result.json"))),
            ("SCRATCH_DIR", path(scratch)),
            ("TEMP_DIR", path(&scratch.join("tmp"))),
            ("TMPDIR", path(&scratch.join("tmp"))),
            ("WORKSPACE_ROOT", path(workspace)),
            ("SKILLS_MANIFEST_FILE", path(&scratch.join(SKILLS))),
            ("SESSION_ID", Value::Variable("SID_SESSION_ID")),
            ("SESSION_DIR", Value::Variable("SID_SESSION_DIR")),
            ("AGENT_ID", text(&self.agent)),
            ("TOOL_ID", text(&self.canonical)),
            ("TOOL_NAME", text(&self.service)),
            ("TOOL_PROTOCOL", text("1")),
            ("RC_CONF_PATH", Value::Text(self.conf_path(scratch))),
            ("RC_D_PATH", path(&self.root.join("tools"))),
        ]
    }

    fn conf_path(&self, scratch: &Path) -> String {
        format!("{}:{}", self.root.join("tools.conf").display(), scratch.join("tool-invoke.conf").display())
    }

    /// Asks the program what it wants to be told, and writes that where its command looks.
    async fn prepare(&self, place: &Confined<'_>, scratch: &Scratch, view: &View) -> Result<(), String> {
        let prefix = prefix(&self.service);
        let names = self.asked.names(place, &self.program, &prefix).await?;
        let custom = self.variables.iter().map(|(name, value)| (name.as_str(), Value::Text(value.clone())));
        let known = custom.chain(self.bindings(scratch.dir(), &view.cwd));
        let own = known.map(|(name, value)| (format!("{prefix}{name}"), value)).filter(|it| names.contains(&it.0));
        let conf = self.conf_path(scratch.dir());
        let common = common(&prefix, scratch.dir(), &view.cwd, conf, self.root.join("tools"));
        let file = environment(own.chain(common));
        let skills: Vec<Json> = view.skills.iter().map(skill).collect();
        scratch
            .write(ENVIRONMENT, file.as_bytes())
            .and_then(|()| scratch.write(SKILLS, Json::from(skills).to_string().as_bytes()))
            .map_err(|err| format!("could not be asked: {err}"))
    }

    async fn run(&self, place: &Confined<'_>, input: &Map<String, Json>, view: &View) -> Outcome {
        let name = self.name.clone();
        let mut scratch = match place.scratch() {
            Ok(it) => it,
            Err(why) => return error(why),
        };
        let outcome = self.ask(place, &scratch, input, view).await;
        let outcome = outcome.unwrap_or_else(|why| Outcome::failed(format!("Error: tool '{name}' {why}")));
        if self.keep == Keep::Always || (self.keep == Keep::Failed && outcome.is_error()) {
            scratch.keep();
        }
        outcome
    }

    /// Has the program show what a call would do.
    async fn show(&self, place: &Confined<'_>, input: &Map<String, Json>, view: &View) -> Outcome {
        let scratch = match place.scratch() {
            Ok(it) => it,
            Err(why) => return error(why),
        };
        let limits = Limits { time: CONFIRM, grace: Duration::ZERO, output: OUTPUT };
        let shown = async {
            self.prepare(place, &scratch, view).await?;
            self.request(&scratch, input, &view.cwd)?;
            let ran = place.run_in(&scratch, Kept::Preview, limits).await?;
            ended(&ran, CONFIRM).map_or_else(|| Ok(Outcome::ok(ran.output.text.trim())), |why| Err(why + &said(&ran)))
        };
        shown.await.unwrap_or_else(|why: String| error(why))
    }

    /// Asks the program, and reads its answer. An error is what the model reads after the tool's name.
    async fn ask(
        &self,
        place: &Confined<'_>,
        scratch: &Scratch,
        input: &Map<String, Json>,
        view: &View,
    ) -> Result<Outcome, String> {
        self.prepare(place, scratch, view).await?;
        let id = self.request(scratch, input, &view.cwd)?;
        let limits = Limits { time: self.timeout.unwrap_or(FOR_EVER), grace: GRACE, output: OUTPUT };
        let ran = place.run_in(scratch, Kept::Run, limits).await.map_err(|why| format!("failed to launch: {why}"))?;
        let aftermath = ran.aftermath.clone();
        let outcome = self.answer(&ran, scratch, &id).map_err(|why| format!("{why}{}", said(&ran)));
        outcome.map(|it| after(it, aftermath))
    }

    /// Writes the request and what services find under their prefixes; returns the request's id.
    fn request(&self, scratch: &Scratch, input: &Map<String, Json>, workspace: &Path) -> Result<String, String> {
        let (dir, root) = (scratch.dir().to_string_lossy(), workspace.to_string_lossy());
        let id = format!("sidreq_{}", scratch.dir().file_name().unwrap_or_default().to_string_lossy());
        let request = json!({
            "protocol_version": 1,
            "request_id": id,
            "tool": {"id": self.canonical},
            "invocation": {"tool_use_id": id, "input": input},
            "agent": {"id": self.agent},
            "workspace": {"root": root, "cwd": root},
            "files": {"scratch_dir": dir, "temp_dir": format!("{dir}/tmp"), "result_file": format!("{dir}/result.json")},
        });
        let overlay: String = self
            .services
            .iter()
            .flat_map(|it| self.bindings(scratch.dir(), workspace).into_iter().map(|(name, value)| (prefix(it) + name, value)))
            .filter_map(|(name, value)| Some(format!("{name}={}\n", word(&value)?)))
            .chain(self.manual.iter().map(|it| format!("{}ENABLED=NO\n", prefix(it))))
            .collect();
        let written = scratch.write("request.json", &serde_json::to_vec_pretty(&request).unwrap_or_default());
        written
            .and_then(|()| scratch.write("tool-invoke.conf", overlay.as_bytes()))
            .map_err(|err| format!("could not be asked: {err}"))?;
        Ok(id)
    }

    fn answer(&self, ran: &Ran, scratch: &Scratch, id: &str) -> Result<Outcome, String> {
        if let Some(why) = ended(ran, self.timeout.unwrap_or(FOR_EVER)) {
            return Err(why);
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

/// Where a program finds a skill that the model knows below `/skills`.
fn skill((id, dir): &(String, PathBuf)) -> Json {
    json!({"id": id, "virtual_path": format!("/skills/{id}/SKILL.md"), "content_path": dir.join("SKILL.md")})
}

/// A value as a word of an rc file; `None`: no such word can hold it, or programs that call others hand it on themselves.
fn word(it: &Value) -> Option<String> {
    let Value::Text(text) = it else { return None };
    let mark = if text.contains('\'') { '"' } else { '\'' };
    (!text.contains(mark) && !text.contains(['\\', '\n', '\r'])).then(|| format!("{mark}{text}{mark}"))
}
