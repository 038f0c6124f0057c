use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Component, Path},
    sync::Arc,
};

use crate::{
    Access, Acts, Bounds, Fence, Lifted, Mode, Permit, Question, Refusal, Request, Resolved, ResolvedPath, Reviewed, Verdict,
};

/// What settings say of a tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Default {
    /// Run without asking.
    Allow,
    /// Ask a person.
    Ask,
    /// Refuse.
    Deny,
}

/// Everything a verdict depends on besides the access itself.
#[derive(Debug, Clone)]
pub struct Rules {
    /// Boundary and approver.
    pub mode: Mode,
    /// The walls.
    pub fence: Arc<Fence>,
    /// `--allow-tool` and grants of this session, by surface name or operation. They never elevate.
    pub allow: BTreeSet<String>,
    /// `--deny-tool` and denials of this session. They win.
    pub deny: BTreeSet<String>,
    /// `SIGIT_PERMISSIONS` or `[permissions] default`; covers mutating tools only.
    pub default: Option<Default>,
    /// `[permissions.tools]`.
    pub tools: BTreeMap<String, Default>,
}

/// A boundary that an access crosses.
enum Crossing {
    /// It could be allowed for one execution; half a sentence.
    Open(String),
    /// Only full access allows it.
    Closed(String),
}

impl Rules {
    /// The one decision, in the order of DESIGN §3.2.
    #[must_use]
    pub fn judge(&self, resolved: Resolved) -> Verdict {
        let access = &resolved.access;
        let tool = &access.tool;
        if names(&self.deny, access) {
            return Verdict::Deny(Refusal(format!("Permission denied: `{tool}` is switched off for this session.")));
        }
        let setting = self.setting(access);
        if setting == Some(Default::Deny) {
            return Verdict::Deny(Refusal(format!("Permission denied: the settings deny `{tool}`.")));
        }
        if let Some(refusal) = self.unseen(&resolved).or_else(|| self.mode_refuses(access)) {
            return Verdict::Deny(refusal);
        }
        let crossing = self.crossing(&resolved);
        if let Some(Crossing::Closed(why)) = crossing {
            return Verdict::Deny(Refusal(format!("Permission denied: {why}.")));
        }
        let elevated = matches!(crossing, Some(Crossing::Open(_)));
        let granted = names(&self.allow, access) || setting == Some(Default::Allow);
        let must_ask = setting == Some(Default::Ask) || (access.mutates && self.asks_by_default());
        if must_ask && (elevated || !granted) {
            return self.ask(resolved, crossing);
        }
        if let Some(it) = self.review(&resolved, crossing.as_ref()) {
            return it.map_or_else(Verdict::Fault, |(why, bounds)| {
                Verdict::Review(Request { permit: Permit::new(resolved, bounds, &self.fence), why })
            });
        }
        match (crossing, self.mode) {
            (None, mode) => {
                let looks = resolved.access.looks && mode != Mode::FullAccess;
                let bounds = if looks { Bounds::ReadOnly } else { self.bounds() };
                Verdict::Allow(Permit::new(resolved, bounds, &self.fence))
            }
            (crossing, Mode::Manual) => self.ask(resolved, crossing),
            (Some(Crossing::Open(why) | Crossing::Closed(why)), mode) => {
                Verdict::Deny(Refusal(format!("Permission denied: {why}, and mode {mode} stays inside the workspace.")))
            }
        }
    }

    /// Whether `auto` has this reviewed: why, and how far it reaches if it is allowed. A tool that wants a review and can't say of
    /// what is in error.
    fn review(&self, resolved: &Resolved, crossing: Option<&Crossing>) -> Option<Result<(String, Bounds), String>> {
        let access = &resolved.access;
        let wanted = access.reviewed == Reviewed::Always || access.acts == Acts::Elsewhere;
        if self.mode != Mode::Auto || !(wanted || crossing.is_some()) {
            return None;
        }
        let Some(action) = &access.action else {
            return Some(Err(format!(
                "`{}` needs a review and does not say of what; that is a defect of the tool. It was not run.",
                access.tool
            )));
        };
        let why = match crossing {
            Some(Crossing::Open(why) | Crossing::Closed(why)) => why.clone(),
            None => action.clone(),
        };
        let lifts = access.lifted == Lifted::Boundary && (crossing.is_some() || access.acts == Acts::Elsewhere);
        Some(Ok((why, if lifts { Bounds::Unbounded } else { self.bounds() })))
    }

    /// How far what is allowed without a crossing reaches.
    #[must_use]
    pub fn bounds(&self) -> Bounds {
        bounds_of(self.mode)
    }

    fn ask(&self, resolved: Resolved, crossing: Option<Crossing>) -> Verdict {
        let tool = resolved.access.tool.clone();
        let (why, hint, bounds) = match crossing {
            Some(Crossing::Open(why) | Crossing::Closed(why)) => {
                (why, "Grants never reach outside the workspace; `--mode full_access` would.".to_owned(), Bounds::Unbounded)
            }
            None => (
                format!("`{tool}` needs a person's approval in mode {}", self.mode),
                format!("Whoever starts sid can allow it with `--allow-tool {tool}`, or all tools with SIGIT_PERMISSIONS=allow."),
                self.bounds(),
            ),
        };
        Verdict::Ask(Question::new(Permit::new(resolved, bounds, &self.fence), why, hint))
    }

    fn setting(&self, access: &Access) -> Option<Default> {
        self.tools.get(&access.tool).or_else(|| self.tools.get(access.operation)).copied()
    }

    /// Whether a mutation is asked about when neither a grant nor a per-tool setting says otherwise. A default of `deny`
    /// asks here too: grants beat defaults, and nobody but a person can give one.
    fn asks_by_default(&self) -> bool {
        match self.default {
            Some(Default::Allow) => false,
            Some(Default::Ask | Default::Deny) => true,
            None => self.mode == Mode::Manual,
        }
    }

    fn mode_refuses(&self, access: &Access) -> Option<Refusal> {
        let refuses_elsewhere = self.mode.is_read_only() || self.mode == Mode::WorkspaceWrite;
        if access.acts == Acts::Elsewhere && refuses_elsewhere {
            return Some(Refusal(format!(
                "Permission denied: `{}` requires auto or full_access, because it can act outside sid's sandbox; the mode is {}.",
                access.tool, self.mode
            )));
        }
        if access.exec.as_ref().is_some_and(|it| it.shell.is_some()) && self.mode != Mode::FullAccess {
            return Some(Refusal("Permission denied: a shell of one's own choice is available in full_access only.".to_owned()));
        }
        if !self.mode.is_read_only() || !access.mutates || access.exec.is_some() || access.input {
            return None;
        }
        let advice = if self.mode == Mode::Plan { " Present a plan instead of making changes." } else { "" };
        Some(Refusal(format!("Permission denied: mode {} is read only, so `{}` may not run.{advice}", self.mode, access.tool)))
    }

    /// What can't be resolved can't be judged; hidden files and sid's own secrets are refused by every route, in every mode.
    fn unseen(&self, resolved: &Resolved) -> Option<Refusal> {
        resolved.paths.iter().find_map(|it| {
            if it.canonical.is_none() {
                let shown = it.lexical.to_string_lossy().escape_debug().to_string();
                return Some(Refusal(format!(
                    "{shown} can't be resolved to a place on disk: a loop of links, no permission, or no legal name."
                )));
            }
            let spellings = [Some(&it.lexical), it.canonical.as_ref()].into_iter().flatten();
            for path in spellings {
                if self.fence.hidden.hides(path, it.kind) {
                    return Some(Refusal(format!("{} is hidden from you by an ignore file of this workspace.", path.display())));
                }
                if self.fence.secret.iter().any(|secret| path.starts_with(secret)) {
                    return Some(Refusal(format!("{} holds sid's own keys or sessions; no tool may touch it.", path.display())));
                }
            }
            None
        })
    }

    fn crossing(&self, resolved: &Resolved) -> Option<Crossing> {
        let readable = |it: &ResolvedPath| {
            it.canonical.as_ref().is_some_and(|path| self.fence.readable.iter().any(|dir| path.starts_with(dir)))
        };
        let leaves = |it: &&ResolvedPath| !self.inside(it) && (it.touch.changes() || !readable(it));
        if let Some(it) = resolved.paths.iter().find(|it| resolved.access.stays && leaves(it)) {
            let shown = it.lexical.display();
            return Some(Crossing::Closed(format!("{shown} leads out of the workspace, which is all that this tool reaches")));
        }
        if self.mode == Mode::FullAccess {
            return None;
        }
        let paths = resolved.paths.iter().filter(|_| resolved.access.exec.is_none());
        if let Some(found) = paths.clone().filter(|it| it.touch.changes()).find_map(|it| self.write_crossing(it)) {
            return Some(found);
        }
        if self.mode == Mode::Auto && !resolved.access.mutates {
            let outside = paths.clone().find(leaves);
            if let Some(it) = outside {
                return Some(Crossing::Open(format!("reading {} leaves the workspace", it.lexical.display())));
            }
        }
        let exec = resolved.access.exec.as_ref()?;
        let escalates = exec.escalate.is_some() && matches!(self.mode, Mode::Manual | Mode::Auto);
        escalates.then(|| Crossing::Open("the command asks to run without the sandbox".to_owned()))
    }

    fn write_crossing(&self, it: &ResolvedPath) -> Option<Crossing> {
        let shown = it.lexical.display();
        let spellings = || [Some(&it.lexical), it.canonical.as_ref()].into_iter().flatten();
        if spellings().any(|path| is_git_control(path)) {
            return Some(Crossing::Closed(format!("{shown} is a Git control path, which file tools never change")));
        }
        if spellings().any(|path| self.is_protected(path)) {
            return Some(Crossing::Open(format!("{shown} is a protected path of this workspace")));
        }
        (!self.inside(it)).then(|| Crossing::Open(format!("writing {shown} leaves the workspace")))
    }

    fn inside(&self, it: &ResolvedPath) -> bool {
        it.canonical.as_ref().is_some_and(|path| self.fence.roots.iter().any(|root| path.starts_with(root)))
    }

    fn is_protected(&self, path: &Path) -> bool {
        self.fence.roots.iter().any(|root| {
            let Ok(rest) = path.strip_prefix(root) else { return false };
            self.fence.protected.iter().any(|name| starts_with_ignoring_case(rest, Path::new(name)))
        })
    }
}

/// How far what a mode allows by itself reaches.
#[must_use]
pub fn bounds_of(mode: Mode) -> Bounds {
    match mode {
        Mode::Plan | Mode::ReadOnly => Bounds::ReadOnly,
        Mode::Manual | Mode::WorkspaceWrite | Mode::Auto => Bounds::Workspace,
        Mode::FullAccess => Bounds::Unbounded,
    }
}

fn names(set: &BTreeSet<String>, access: &Access) -> bool {
    set.contains(&access.tool) || set.contains(access.operation)
}

/// `.git`, `.gitconfig` and `.gitmodules`, at any depth and in any case.
fn is_git_control(path: &Path) -> bool {
    path.components().any(|it| match it {
        Component::Normal(name) => {
            let name = name.to_string_lossy().to_ascii_lowercase();
            matches!(name.as_str(), ".git" | ".gitconfig" | ".gitmodules")
        }
        _ => false,
    })
}

fn starts_with_ignoring_case(path: &Path, prefix: &Path) -> bool {
    let mut parts = path.components();
    prefix.components().all(|want| parts.next().is_some_and(|it| it.as_os_str().eq_ignore_ascii_case(want.as_os_str())))
}

#[cfg(test)]
mod tests;
