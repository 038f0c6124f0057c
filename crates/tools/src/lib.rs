//! Built-in tools, one file per operation. `plan` is pure and declares; the action acts inside a [`Confined`].
mod args;
mod bash;
mod claude;
mod codex;
mod create;
mod delete;
pub mod diff;
mod edit;
mod editor;
mod external;
mod folder;
mod git;
mod glob;
mod grok;
mod hook;
mod jobs;
mod list;
mod rc;
mod rcvar;
mod read;
mod search;
mod shell;
mod shells;
mod text;
mod todos;
pub mod walk;

use std::{
    collections::HashMap,
    path::{Path, PathBuf},
    pin::Pin,
    sync::Arc,
};

pub use bash::Bash;
pub use editor::TextEditor;
pub use external::{External, Keep};
pub use hook::Hook;
pub use rcvar::Asked;
use sid_core::{Contact, Outcome, Seen};
use sid_policy::Access;
use sid_sandbox::{Aftermath, Confined};

/// What an action becomes once it is entered.
pub type Run<'a> = Pin<Box<dyn Future<Output = Outcome> + 'a>>;
/// Stamps of files when the model last saw them, by canonical path.
pub type Known = Arc<HashMap<String, String>>;
/// What a plan does, given a place to do it in and what the model knows of files at that moment.
pub type Action = Box<dyn for<'a> FnOnce(&'a Confined<'a>, Known) -> Run<'a>>;

/// A call that has been understood: what it would touch, and how to do it.
pub struct Plan {
    /// What it does, in words a person reads.
    pub label: String,
    /// What it would touch.
    pub access: Access,
    /// How to do it.
    pub action: Action,
}

/// What a plan may depend on besides the arguments.
#[derive(Debug, Clone)]
pub struct View {
    /// The primary root, where relative paths begin.
    pub cwd: PathBuf,
    /// Where commands find the roots if that is not where they are: pairs of the place the model knows and the real one.
    pub places: Vec<(PathBuf, PathBuf)>,
    /// Skills: their names and folders. The small readers see them below `/skills`.
    pub skills: Vec<(String, PathBuf)>,
}

impl View {
    /// A path of the model, made absolute but not normalised.
    #[must_use]
    pub fn path(&self, spelled: &str) -> PathBuf {
        let known = Path::new(spelled);
        let real = self.places.iter().find_map(|(known_as, real)| Some(real.join(known.strip_prefix(known_as).ok()?)));
        real.unwrap_or_else(|| self.cwd.join(if spelled.is_empty() { "." } else { spelled }))
    }
}

/// A tool of a surface.
pub trait Tool: Send + Sync {
    /// Its name on the surface.
    fn name(&self) -> &str;
    /// What it does, for the model.
    fn description(&self) -> &str;
    /// The JSON schema of its arguments.
    fn schema(&self) -> &str;
    /// What the model is told of it in `auto`: when leaving the sandbox is worth a review.
    fn auto_guidance(&self) -> Option<&'static str> {
        None
    }
    /// Whether a reviewer, who may only look, can use it.
    fn for_reviewer(&self) -> bool {
        false
    }
    /// What a person may see of a call before they are asked: a plan that only looks, whose outcome is shown to them. It goes by
    /// the name `preview`: what is asked about is the call.
    fn preview(&self, _args: &str, _view: &View) -> Option<Plan> {
        None
    }
    /// Reads the arguments and declares.
    ///
    /// # Errors
    /// What is wrong with the arguments, for the model.
    fn plan(&self, args: &str, view: &View) -> Result<Plan, String>;
}

/// Whose names and schemas the shell tools have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shells {
    /// `run_command`, `command_output`, `kill_command`.
    Sigit,
    /// `Bash`, `TaskOutput`, `TaskInput`, `TaskStop`.
    Claude,
    /// `exec_command`, `write_stdin`, `kill_session`.
    Codex,
    /// `run_terminal_command` and its companions.
    Grok,
}

impl Shells {
    /// All of them, by their names in settings.
    pub const ALL: [(&'static str, Self); 4] =
        [("sigit", Self::Sigit), ("claude", Self::Claude), ("codex", Self::Codex), ("grok", Self::Grok)];

    /// The tools, in the order the model sees them.
    #[must_use]
    pub fn tools(self) -> Vec<Box<dyn Tool>> {
        match self {
            Self::Sigit => vec![Box::new(shell::RunCommand), Box::new(jobs::CommandOutput), Box::new(jobs::KillCommand)],
            Self::Claude => {
                vec![Box::new(claude::Bash), Box::new(claude::TaskOutput), Box::new(claude::TaskInput), Box::new(claude::TaskStop)]
            }
            Self::Codex => vec![Box::new(codex::ExecCommand), Box::new(codex::WriteStdin), Box::new(codex::KillSession)],
            Self::Grok => vec![Box::new(grok::Run), Box::new(grok::Output), Box::new(grok::Input), Box::new(grok::Kill)],
        }
    }
}

/// The built-in tools of rc configurations, by the names of their services; `bash` is [`Bash`].
#[must_use]
pub fn built_in(service: &str) -> Option<Box<dyn Tool>> {
    Some(match service {
        "edit" => Box::new(TextEditor),
        "read" => Box::new(rc::Read),
        "search" => Box::new(rc::Search),
        "glob" => Box::new(rc::Glob),
        "git_status" => Box::new(git::GitStatus),
        "git_diff" => Box::new(git::GitDiff),
        _ => return None,
    })
}

/// The tools of the `sigit` surface with another family's shells.
#[must_use]
pub fn with_shells(shells: Shells) -> Vec<Box<dyn Tool>> {
    let mut all = sigit();
    let sigit = Shells::Sigit.tools();
    let own: Vec<&str> = sigit.iter().map(|it| it.name()).collect();
    let at = all.iter().position(|it| own.contains(&it.name())).unwrap_or(all.len());
    all.retain(|it| !own.contains(&it.name()));
    all.splice(at..at, shells.tools());
    all
}

/// The tools of the `sigit` surface, in the order the model sees them.
#[must_use]
pub fn sigit() -> Vec<Box<dyn Tool>> {
    vec![
        Box::new(read::ReadFile),
        Box::new(list::ListDirectory),
        Box::new(search::SearchFiles),
        Box::new(glob::Glob),
        Box::new(create::CreateFile),
        Box::new(edit::EditFile),
        Box::new(edit::MultiEdit),
        Box::new(folder::CreateDirectory),
        Box::new(delete::DeleteFile),
        Box::new(shell::RunCommand),
        Box::new(jobs::CommandOutput),
        Box::new(jobs::KillCommand),
        Box::new(todos::WriteTodos),
    ]
}

/// A failure in the words of the `sigit` surface.
pub(crate) fn error(text: impl std::fmt::Display) -> Outcome {
    Outcome::failed(format!("Error: {text}"))
}

/// An outcome with what else came of the command in it.
pub(crate) fn after(mut outcome: Outcome, it: Aftermath) -> Outcome {
    for note in it.notes {
        if !outcome.text.is_empty() && !outcome.text.ends_with('\n') {
            outcome.text.push('\n');
        }
        outcome.text.push_str(&note);
    }
    outcome.contacts = it
        .contacts
        .into_iter()
        .map(|it| Contact { host: it.host, port: it.port, refused: it.blocked.map(|it| it.name().to_owned()), times: it.times })
        .collect();
    outcome
}

/// A success that leaves the model knowing a file's content.
pub(crate) fn knowing(text: String, path: &Path, stamp: String) -> Outcome {
    Outcome { seen: vec![Seen { path: path.to_string_lossy().into_owned(), stamp }], ..Outcome::ok(text) }
}

#[cfg(test)]
mod tests;
