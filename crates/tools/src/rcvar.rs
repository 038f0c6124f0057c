//! What an rc program is told: it answers `rcvar` with the names of variables, and is given those and no others, each as it is.
use std::{
    collections::BTreeSet,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use sid_sandbox::{Confined, Exit, Limits, Ran, SCRATCH, quoted};

use crate::shells::{OUTPUT, tail};

/// How long a program may take to answer.
const ANSWER: Duration = Duration::from_secs(5);
/// Bytes of what a program printed that an error repeats.
const SAID: usize = 2000;

/// What a variable holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Value {
    /// This.
    Text(String),
    /// What another variable holds.
    Variable(&'static str),
}

/// The file of a call's folder that sets its variables.
pub(crate) const ENVIRONMENT: &str = "environment";

/// What a program asked for; it is not asked again until it changes.
#[derive(Debug, Clone, Default)]
pub struct Asked(Arc<Mutex<Option<Answered>>>);

/// An answer, and the version of the program that gave it.
type Answered = (Stamp, Arc<BTreeSet<String>>);

/// What tells one version of a file from another.
type Stamp = (u64, u64, u64, i64, i64);

impl Asked {
    /// The names that the program wants, of those that begin with `prefix`.
    ///
    /// # Errors
    /// It gave no answer, in half a sentence.
    pub(crate) async fn names(&self, place: &Confined<'_>, program: &Path, prefix: &str) -> Result<Arc<BTreeSet<String>>, String> {
        let now = stamp(program);
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some((_, names)) = known.filter(|it| Some(it.0) == now) {
            return Ok(names);
        }
        let limits = Limits { time: ANSWER, grace: Duration::ZERO, output: OUTPUT };
        let failed = |why: String| format!("could not be prepared: `{} rcvar` {why}", shown(program));
        let before = place.before().ok_or_else(|| failed("is not covered by the permit".to_owned()))?;
        let ran = before.run_apart(limits).await.map_err(|why| failed(format!("failed to launch: {why}")))?;
        if let Some(why) = ended(&ran, ANSWER) {
            return Err(failed(format!("{why}{}", said(&ran))));
        }
        let names: BTreeSet<String> =
            ran.output.text.split_whitespace().filter(|it| it.starts_with(prefix)).map(str::to_owned).collect();
        let names = Arc::new(names);
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = now.map(|it| (it, Arc::clone(&names)));
        Ok(names)
    }
}

fn stamp(program: &Path) -> Option<Stamp> {
    let it = program.metadata().ok()?;
    Some((it.dev(), it.ino(), it.size(), it.mtime(), it.mtime_nsec()))
}

fn shown(program: &Path) -> String {
    program.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// How a program failed, in half a sentence; `None`: it did not.
pub(crate) fn ended(ran: &Ran, time: Duration) -> Option<String> {
    if ran.timed_out {
        return Some(format!("timed out after {} s", time.as_secs()));
    }
    match ran.exit {
        Exit::Code(0) => None,
        Exit::Code(code) => Some(format!("exited with status {code}")),
        Exit::Signal(signal) => Some(format!("was ended by signal {signal}")),
        Exit::NoSandbox => Some("could not be started: the sandbox could not be set up (`sid doctor` says more)".to_owned()),
    }
}

/// The end of what a program printed, complaints last.
pub(crate) fn said(ran: &Ran) -> String {
    let both = format!("{}\n{}", ran.output.text.trim(), ran.errors.text.trim());
    let text = both.trim();
    if text.is_empty() { String::new() } else { format!("\n{}", tail(text, 50, SAID)) }
}

/// The file that sets these.
pub(crate) fn environment(all: impl IntoIterator<Item = (String, Value)>) -> String {
    all.into_iter()
        .map(|(name, value)| match value {
            Value::Text(it) => format!("export {name}={}\n", quoted(&it)),
            Value::Variable(it) => format!("export {name}=\"${it}\"\n"),
        })
        .collect()
}

/// The command that asks a program which variables it wants.
pub(crate) fn question(program: &Path, prefix: &str) -> String {
    format!("export RCVAR_ARGV0={}\nexec {} rcvar", prefix.trim_end_matches('_'), quoted(&program.to_string_lossy()))
}

/// The command that a judge sees and that runs a program with its variables, which only the call's folder has.
pub(crate) fn command(program: &Path, subcommand: &str) -> String {
    format!(". \"${SCRATCH}/{ENVIRONMENT}\"\nexec {} {subcommand}", quoted(&program.to_string_lossy()))
}

/// The variables that every rc program has, whatever it asks for.
pub(crate) fn common(prefix: &str, scratch: &Path, workspace: &Path, conf: String, dir: PathBuf) -> Vec<(String, Value)> {
    let text = |it: &Path| Value::Text(it.to_string_lossy().into_owned());
    let temp = text(&scratch.join("tmp"));
    let all = [
        ("TMPDIR", temp.clone()),
        ("TEMP", temp.clone()),
        ("TMP", temp),
        ("PAGER", Value::Text("cat".to_owned())),
        ("RCVAR_ARGV0", Value::Text(prefix.trim_end_matches('_').to_owned())),
        ("RC_CONF_PATH", Value::Text(conf)),
        ("RC_D_PATH", text(&dir)),
        ("SID_WORKSPACE_ROOT", text(workspace)),
    ];
    all.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

pub(crate) fn prefix(service: &str) -> String {
    service.chars().map(|it| if it.is_alphanumeric() { it } else { '_' }).chain(['_']).collect()
}
