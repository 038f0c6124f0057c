//! `sid-editor-tool`: the editor of rc configurations as a program (sid's manual, SID-EDITOR-TOOL). It does what the built-in
//! tool does, asked by a file and answering in one.
use std::{
    collections::{BTreeMap, BTreeSet},
    ffi::OsString,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use serde::Deserialize;
use serde_json::{Map, Value, json};
use sid_core::{Outcome, Status};
use sid_policy::{Access, Exec, Mode, Rules, Verdict};
use sid_sandbox::{Confined, Environment, Exit, Host, Limits, quoted, resolve};
use sid_tools::{
    Plan, Tool, View,
    diff::{Color, Look, render},
};

const USAGE: &str =
    "usage: sid-editor-tool [--readonly] [run|confirm], asked by the file REQUEST_FILE and answering in RESULT_FILE";
/// A longer diff is not handed to a program of the user's: it goes by an argument.
const LONGEST: usize = 100_000;
/// How long such a program may take, and how much of what it prints is kept.
const RENDERING: Limits = Limits { time: Duration::from_secs(4), grace: Duration::ZERO, output: 1 << 20 };

#[derive(Deserialize)]
struct Request {
    protocol_version: Option<u64>,
    request_id: Option<String>,
    invocation: Invocation,
}

#[derive(Deserialize)]
struct Invocation {
    input: Map<String, Value>,
}

/// Which of the two tools.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Which {
    Edit,
    Read,
}

/// Does one request. What it returns is for standard output.
///
/// # Errors
/// It could not be read or answered at all.
pub fn edit(args: impl IntoIterator<Item = OsString>, vars: Vec<(OsString, OsString)>) -> Result<String, String> {
    let (mut which, mut confirm) = (Which::Edit, None);
    for arg in args {
        match arg.to_string_lossy().as_ref() {
            "--readonly" | "-readonly" => which = Which::Read,
            "run" if confirm.is_none() => confirm = Some(false),
            "confirm" if confirm.is_none() => confirm = Some(true),
            other => return Err(format!("'{}' is not understood; {USAGE}", other.escape_debug())),
        }
    }
    let var = |name: &str| vars.iter().find(|it| it.0 == name).map(|it| it.1.clone());
    let file = |name: &str| var(name).map(PathBuf::from).ok_or_else(|| format!("the variable {name} is not set; {USAGE}"));
    let (request, root) = (file("REQUEST_FILE")?, file("WORKSPACE_ROOT")?);
    let text = std::fs::read_to_string(&request).map_err(|err| format!("{}: {err}", request.display()))?;
    let it: Request = serde_json::from_str(&text).map_err(|err| format!("{}: {err}", request.display()))?;
    let editor = Editor::new(which, &root, &vars)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(|err| err.to_string())?;
    if confirm == Some(true) {
        return runtime.block_on(editor.confirm(
            it.invocation.input,
            var("DIFF"),
            if var("NO_COLOR").is_some() { Color::Off } else { Color::On },
        ));
    }
    let result = file("RESULT_FILE")?;
    let outcome = match it.protocol_version {
        Some(1) => runtime.block_on(editor.run(it.invocation.input)),
        _ => Err(("unsupported_tool_protocol_version", "only version 1 of the protocol is spoken".to_owned())),
    };
    let mut answer = json!({"protocol_version": 1, "request_id": it.request_id, "ok": outcome.is_ok()});
    match outcome {
        Ok(text) => answer["output"] = json!({"kind": "text", "text": text}),
        Err((code, message)) => answer["error"] = json!({"code": code, "message": message}),
    }
    answered(&result, &answer).map_err(|err| format!("{}: {err}", result.display()))?;
    Ok(String::new())
}

fn answered(path: &Path, answer: &Value) -> std::io::Result<()> {
    std::fs::write(path, format!("{answer}\n"))
}

struct Editor {
    which: Which,
    tool: Box<dyn Tool>,
    view: View,
    rules: Rules,
    host: Host,
}

impl Editor {
    fn new(which: Which, root: &Path, vars: &[(OsString, OsString)]) -> Result<Self, String> {
        let mut fence = sid_project::fence(root, &[], Vec::new())?;
        let skills = skills(vars)?;
        fence.readable.extend(skills.iter().map(|it| it.1.clone()));
        let cwd = fence.roots.first().cloned().unwrap_or_default();
        let tool = sid_tools::built_in(if which == Which::Read { "read" } else { "edit" }).ok_or("no such tool")?;
        let (tools, allow, deny) = (BTreeMap::new(), BTreeSet::new(), BTreeSet::new());
        let rules = Rules { mode: Mode::WorkspaceWrite, fence: Arc::new(fence), allow, deny, default: None, tools };
        let host = Host::new(Environment::new(vars.iter().cloned(), &[], &[]), std::env::temp_dir().join("sid-editor"));
        Ok(Self { which, tool, view: View { cwd, places: Vec::new(), skills }, rules, host })
    }

    /// The parameters of the editor's `view` are understood by the reader too.
    fn input(&self, mut input: Map<String, Value>) -> Result<String, String> {
        if self.which == Which::Read {
            if let Some(command) = input.remove("command").filter(|it| it != "view") {
                return Err(format!("read only views; {command} changes files"));
            }
            if let Some(range) = input.remove("view_range") {
                if input.contains_key("start_line") || input.contains_key("end_line") {
                    return Err("give view_range, or start_line and end_line, not both".to_owned());
                }
                input.extend([("start_line".to_owned(), range[0].clone()), ("end_line".to_owned(), range[1].clone())]);
            }
        }
        Ok(Value::Object(input).to_string())
    }

    async fn run(&self, input: Map<String, Value>) -> Result<String, (&'static str, String)> {
        let wrong = |why: String| ("invalid_input", why);
        let plan = self.input(input).and_then(|it| self.tool.plan(&it, &self.view)).map_err(wrong)?;
        let outcome = self.judged(plan).await;
        match outcome.status {
            Status::Ok => Ok(outcome.text),
            Status::Denied => Err(("permission_denied", outcome.text)),
            _ => Err(("failed", outcome.text)),
        }
    }

    async fn judged(&self, plan: Plan) -> Outcome {
        match self.rules.judge(resolve(plan.access)) {
            Verdict::Allow(permit) => (plan.action)(&Confined::enter(&self.host, permit), Arc::default()).await,
            Verdict::Deny(refusal) => Outcome::denied(refusal.0),
            _ => Outcome::denied("it may not be done here"),
        }
    }

    /// What a call would do.
    async fn confirm(&self, input: Map<String, Value>, diff: Option<OsString>, color: Color) -> Result<String, String> {
        let raw = self.input(input.clone())?;
        let Some(plan) = self.tool.preview(&raw, &self.view) else {
            self.tool.plan(&raw, &self.view)?;
            return Ok(viewing(self.which, &input));
        };
        let outcome = self.judged(plan).await;
        if outcome.status != Status::Ok {
            return Err(outcome.text);
        }
        let at = outcome.text.find("--- a/").unwrap_or(outcome.text.len());
        let (head, raw) = outcome.text.split_at(at);
        Ok(format!("{head}{}", self.rendered(raw, diff, color).await))
    }

    async fn rendered(&self, raw: &str, diff: Option<OsString>, color: Color) -> String {
        let Some(diff) = diff else {
            return render(raw, Look { width: 0, color });
        };
        let program = diff.to_string_lossy();
        if program.trim().is_empty() || raw.is_empty() || raw.len() > LONGEST {
            return raw.to_owned();
        }
        let command = format!("printf %s {} | {{ {program}\n}}", quoted(raw));
        let exec = Exec { command, cwd: self.view.cwd.clone(), escalate: None, shell: None };
        let rules = Rules { mode: Mode::FullAccess, ..self.rules.clone() };
        let Verdict::Allow(permit) = rules.judge(resolve(Access::none("DIFF", "shell").runs(exec))) else { return raw.to_owned() };
        match Confined::enter(&self.host, permit).run(RENDERING).await {
            Ok(ran) if ran.exit == Exit::Code(0) && !ran.timed_out && !ran.output.text.trim().is_empty() => ran.output.text,
            Ok(ran) if ran.exit == Exit::Code(0) && !ran.timed_out => raw.to_owned(),
            Ok(ran) => format!("diff renderer failed: {}\n{raw}", ran.output.text.trim()),
            Err(why) => format!("diff renderer failed: {why}\n{raw}"),
        }
    }
}

/// The skills that the model knows below `/skills`: names and folders, from the list that sid hands over.
fn skills(vars: &[(OsString, OsString)]) -> Result<Vec<(String, PathBuf)>, String> {
    #[derive(Deserialize)]
    struct Skill {
        id: String,
        virtual_path: String,
        content_path: PathBuf,
    }
    let Some((_, file)) = vars.iter().find(|it| it.0 == "SKILLS_MANIFEST_FILE" && !it.1.is_empty()) else { return Ok(Vec::new()) };
    let wrong = |why: String| format!("{}: {why}", file.display());
    let text = std::fs::read_to_string(file).map_err(|err| wrong(err.to_string()))?;
    let all: Vec<Skill> = serde_json::from_str(&text).map_err(|err| wrong(err.to_string()))?;
    all.into_iter()
        .map(|it| {
            let fits = !it.id.contains('/') && it.virtual_path == format!("/skills/{}/SKILL.md", it.id);
            let dir = it.content_path.parent().filter(|_| fits).and_then(|it| std::fs::canonicalize(it).ok());
            Ok((it.id.clone(), dir.ok_or_else(|| wrong(format!("`{}` is no skill", it.id.escape_debug())))?))
        })
        .collect()
}

fn viewing(which: Which, input: &Map<String, Value>) -> String {
    let verb = if which == Which::Read { "Read" } else { "View" };
    let end = |name: &str, n: usize| input.get(name).or_else(|| input.get("view_range")?.get(n)).and_then(Value::as_i64);
    let path = input.get("path").and_then(Value::as_str).unwrap_or_default();
    let lines = match (end("start_line", 0), end("end_line", 1)) {
        (None, None) => String::new(),
        (from, to) => {
            let to = to.filter(|it| *it >= 0).map_or_else(|| "end".to_owned(), |it| it.to_string());
            format!(" lines {}-{to}", from.unwrap_or(1))
        }
    };
    format!("{verb} workspace file: {path}{lines}\n")
}
