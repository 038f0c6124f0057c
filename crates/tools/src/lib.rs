//! Built-in tools, one file per operation. `plan` is pure and declares; the action acts inside a [`Confined`].
mod args;
mod create;
mod delete;
mod edit;
mod folder;
mod glob;
mod jobs;
mod list;
mod read;
mod search;
mod shell;
mod text;
mod todos;
pub mod walk;

use std::{
    collections::HashMap,
    path::{Path, PathBuf},
    pin::Pin,
    sync::Arc,
};

use sid_core::{Outcome, Seen};
use sid_policy::Access;
use sid_sandbox::Confined;

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
}

impl View {
    /// A path of the model, made absolute but not normalised.
    #[must_use]
    pub fn path(&self, spelled: &str) -> PathBuf {
        self.cwd.join(if spelled.is_empty() { "." } else { spelled })
    }
}

/// A tool of a surface.
pub trait Tool: Send + Sync {
    /// Its name on the surface.
    fn name(&self) -> &'static str;
    /// What it does, for the model.
    fn description(&self) -> &'static str;
    /// The JSON schema of its arguments.
    fn schema(&self) -> &'static str;
    /// Whether a reviewer, who may only look, can use it.
    fn for_reviewer(&self) -> bool {
        false
    }
    /// Reads the arguments and declares.
    ///
    /// # Errors
    /// What is wrong with the arguments, for the model.
    fn plan(&self, args: &str, view: &View) -> Result<Plan, String>;
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

/// A success that leaves the model knowing a file's content.
pub(crate) fn knowing(text: String, path: &Path, stamp: String) -> Outcome {
    Outcome { seen: vec![Seen { path: path.to_string_lossy().into_owned(), stamp }], ..Outcome::ok(text) }
}

#[cfg(test)]
mod tests;
