use std::{path::PathBuf, sync::Arc};

use crate::{Access, Exec, Hidden, Network, Resolved, ResolvedPath};

/// What the walls of a workspace are, whatever the mode.
#[derive(Debug, Default)]
pub struct Fence {
    /// Canonical roots: the working directory first, then the added ones.
    pub roots: Vec<PathBuf>,
    /// Names under each root that only a person changes (`.sid`, `sid.toml`, …).
    pub protected: Vec<String>,
    /// sid's own files that no tool may see: keys, other sessions.
    pub secret: Vec<PathBuf>,
    /// Files hidden by ignore files.
    pub hidden: Hidden,
    /// Folders outside the roots that file tools read without a review: the user's skills.
    pub readable: Vec<PathBuf>,
    /// Folders that commands see even where the rest is covered, read-only: the configuration that programs are part of.
    pub shown: Vec<PathBuf>,
    /// What sandboxed commands may reach.
    pub network: Arc<Network>,
}

/// How far a permitted action reaches, narrowest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Bounds {
    /// Nothing but temporary folders is writable.
    ReadOnly,
    /// The roots are writable.
    Workspace,
    /// No sandbox.
    Unbounded,
}

impl Bounds {
    /// The name in journals.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::ReadOnly => "read_only",
            Self::Workspace => "workspace",
            Self::Unbounded => "unbounded",
        }
    }
}

/// Proof that an access was judged. Its fields are private: no other crate can make one, and it can't be copied.
#[derive(Debug)]
pub struct Permit {
    resolved: Resolved,
    bounds: Bounds,
    fence: Arc<Fence>,
}

impl Permit {
    pub(crate) fn new(resolved: Resolved, bounds: Bounds, fence: &Arc<Fence>) -> Self {
        Self { resolved, bounds, fence: Arc::clone(fence) }
    }

    /// The permit of the command that the access has run before its own: in the same place, with nothing writable and no network.
    /// Where there is no boundary there is none for it either. `None`: it declares none.
    #[must_use]
    pub fn before(&self) -> Option<Self> {
        let access = &self.resolved.access;
        let (command, exec) = (access.before.clone()?, access.exec.as_ref()?);
        let exec = Exec { command, cwd: exec.cwd.clone(), escalate: None, shell: None };
        let access = Access::none(&access.tool, access.operation).looks(exec);
        let bounds = if self.bounds == Bounds::Unbounded { self.bounds } else { Bounds::ReadOnly };
        Some(Self { resolved: Resolved { access, paths: Vec::new() }, bounds, fence: Arc::clone(&self.fence) })
    }

    /// What was judged.
    #[must_use]
    pub fn access(&self) -> &Access {
        &self.resolved.access
    }

    /// Its paths.
    #[must_use]
    pub fn paths(&self) -> &[ResolvedPath] {
        &self.resolved.paths
    }

    /// How far it reaches.
    #[must_use]
    pub fn bounds(&self) -> Bounds {
        self.bounds
    }

    /// The walls.
    #[must_use]
    pub fn fence(&self) -> &Fence {
        &self.fence
    }
}

/// Why a call may not run, in words for the model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal(pub String);

/// What a person (or whoever stands in for one) says to a question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// Run this one call.
    Once,
    /// Run it, and whatever the same tool does inside the workspace in this session.
    Always,
    /// Don't.
    Deny,
    /// Don't, and let the tool alone in this session.
    Never,
    /// Nobody is there to ask.
    Nobody,
}

/// A question to a person. Answering consumes it: "ask once, use twice" does not compile.
#[derive(Debug)]
pub struct Question {
    permit: Permit,
    /// Why it is asked, as half a sentence: "`run_command` needs a person's approval in manual mode".
    pub why: String,
    /// How somebody who is absent could have allowed it; empty when nothing could.
    pub hint: String,
}

impl Question {
    pub(crate) fn new(permit: Permit, why: String, hint: String) -> Self {
        Self { permit, why, hint }
    }

    /// Whether a yes lets the call leave the workspace.
    #[must_use]
    pub fn elevates(&self) -> bool {
        self.permit.bounds() == Bounds::Unbounded
    }

    /// The access in question.
    #[must_use]
    pub fn access(&self) -> &Access {
        self.permit.access()
    }

    /// The only way from a question to a permit.
    ///
    /// # Errors
    /// The refusal that the model reads.
    pub fn answer(self, answer: Answer) -> Result<Permit, Refusal> {
        match answer {
            Answer::Once | Answer::Always => Ok(self.permit),
            Answer::Deny | Answer::Never => Err(Refusal(format!("Permission denied by the user: {}.", self.why))),
            Answer::Nobody => Err(Refusal(
                format!("Permission denied: {}, and nobody is there to ask. {}", self.why, self.hint).trim().to_owned(),
            )),
        }
    }
}

/// A crossing that automatic review has to judge. Deciding consumes it.
#[derive(Debug)]
pub struct Request {
    pub(crate) permit: Permit,
    /// The boundary it crosses, as half a sentence.
    pub why: String,
}

/// The answer of [`crate::Rules::judge`].
#[derive(Debug)]
pub enum Verdict {
    /// It may run.
    Allow(Permit),
    /// A person decides.
    Ask(Question),
    /// A reviewer decides.
    Review(Request),
    /// It may not run.
    Deny(Refusal),
    /// Its tool is in error; a sentence for the model.
    Fault(String),
}
