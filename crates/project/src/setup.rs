//! An rc configuration: `agents.conf`, `tools.conf`, and what they name. All of it is checked at once, used or not.
mod agent;
mod field;
mod skill;
mod tool;

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use sid_config::{
    Complaint,
    rc::{Rc, Switch},
};

pub use agent::{Agent, ToolUse};
pub use field::{AGENT_FIELDS, Field, SERVICE_FIELDS, TOOL_FIELDS};
pub use skill::{SKILL, Skill};
pub use tool::{BUILTIN, Manifest, ToolService};

/// The two files.
pub const AGENTS: &str = "agents.conf";
/// See [`AGENTS`].
pub const TOOLS: &str = "tools.conf";

/// A configuration in order.
#[derive(Debug, Clone)]
pub struct Setup {
    /// Its folder, canonical.
    pub root: PathBuf,
    /// All agents, by name.
    pub agents: Vec<Agent>,
    /// All tools, by name.
    pub tools: Vec<ToolService>,
    /// All skills, by name.
    pub skills: Vec<Skill>,
    /// `DEFAULT_AGENT`, if it is set.
    pub default: Option<String>,
    pub(crate) tools_rc: Rc,
    agents_rc: Rc,
}

/// A value in force, and where it comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InForce {
    /// The variable, with the prefix of its service.
    pub name: String,
    /// Its value, expanded.
    pub value: String,
    /// The file and line that say so.
    pub origin: String,
    /// What it does, if sid reads it.
    pub doc: Option<&'static str>,
}

impl Setup {
    /// Reads the configuration in `root`. `None`: neither file is there.
    ///
    /// # Errors
    /// Everything that is wrong with it, in the order of files and lines.
    pub fn load(root: &Path, env: &dyn Fn(&str) -> Option<String>) -> Result<Option<Self>, Vec<Complaint>> {
        let there = [AGENTS, TOOLS].map(|it| root.join(it).is_file());
        if there == [false, false] {
            return Ok(None);
        }
        if let Some(n) = there.iter().position(|it| !it) {
            let (missing, other) = if n == 0 { (AGENTS, TOOLS) } else { (TOOLS, AGENTS) };
            let text = format!("is missing, and {other} is there: a configuration needs both");
            return Err(vec![Complaint { file: root.join(missing), line: 0, text, hint: None }]);
        }
        let root = fs::canonicalize(root).unwrap_or_else(|_| root.to_owned());
        let mut read = |path: &Path| fs::read_to_string(path);
        let agents_rc = Rc::load(&[root.join(AGENTS)], &mut read);
        let tools_rc = Rc::load(&[root.join(TOOLS)], &mut read);
        let (agents_rc, tools_rc) = match (agents_rc, tools_rc) {
            (Ok(agents), Ok(tools)) => (agents, tools),
            (agents, tools) => return Err([agents.err(), tools.err()].into_iter().flatten().flatten().collect()),
        };
        let hooks = agents_rc.services().into_iter().filter_map(|it| agents_rc.field(it, "USER_INSTRUCTIONS_HOOK"));
        let hooks: Vec<String> = hooks.map(|it| sid_config::rc::prefix(it.value.trim())).collect();
        // What a hook is told besides is its own affair.
        let own = agents_rc.vars().map(|it| it.0).filter(|it| hooks.iter().any(|hook| it.starts_with(hook.as_str())));
        let bare: Vec<&str> = own.chain(["DEFAULT_AGENT"]).collect();
        let mut wrong = agents_rc.unknown(&field::names(AGENT_FIELDS), &bare);
        let tools = tool::tools(&root, &tools_rc, env, &mut wrong);
        let skills = skill::skills(&root, env("SID_SKILLS_PATH").as_deref());
        let agents = agent::agents(&root, &agents_rc, &tools_rc, (&tools, &skills), env, &mut wrong);
        let default = agents_rc.get("DEFAULT_AGENT").filter(|it| !it.value.trim().is_empty());
        if let Some(it) = default {
            let found = agents.iter().find(|agent| sid_config::rc::same(&agent.id, it.value.trim()));
            let text = match found.map(|it| it.switch) {
                None => Some(format!("`DEFAULT_AGENT` is \"{}\", and there is no such agent", it.value.escape_debug())),
                Some(Switch::No) => Some(format!("`DEFAULT_AGENT` is \"{}\", which is switched off", it.value.escape_debug())),
                Some(_) => None,
            };
            wrong.extend(text.map(|text| Complaint { file: it.file.clone(), line: it.line, text, hint: None }));
        } else if agents.iter().all(|it| it.switch == Switch::No) {
            let text = "no agent may start: set `<agent>_ENABLED` to YES or MANUAL".to_owned();
            wrong.push(Complaint { file: root.join(AGENTS), line: 0, text, hint: None });
        }
        if !wrong.is_empty() {
            wrong.sort_by(|a, b| (&a.file, a.line).cmp(&(&b.file, b.line)));
            return Err(wrong);
        }
        let default = default.map(|it| it.value.trim().to_owned());
        Ok(Some(Self { root, agents, tools, skills, default, tools_rc, agents_rc }))
    }

    /// A digest of everything in `root` that a configuration could run or be told by: both files, what they source, and all
    /// below `agents/` and `tools/`. `None`: there is no configuration.
    #[must_use]
    pub fn digest(root: &Path) -> Option<String> {
        let files = [root.join(AGENTS), root.join(TOOLS)];
        if !files.iter().any(|it| it.is_file()) {
            return None;
        }
        let mut all: Vec<(PathBuf, Vec<u8>)> = Vec::new();
        let mut read = |path: &Path| {
            let bytes = fs::read(path)?;
            let text = String::from_utf8_lossy(&bytes).into_owned();
            all.push((path.to_owned(), bytes));
            Ok(text)
        };
        for file in files {
            // One that is wrong is complained about when it is loaded.
            let _complaints = Rc::load(&[file], &mut read);
        }
        let mut todo = vec![root.join("agents"), root.join("tools")];
        while let Some(path) = todo.pop() {
            match fs::read_dir(&path) {
                Ok(entries) => todo.extend(entries.filter_map(Result::ok).map(|it| it.path())),
                // What can't be read can't be run; its name counts.
                Err(_) => all.push((path.clone(), fs::read(&path).unwrap_or_default())),
            }
        }
        all.sort();
        let whole: Vec<u8> = all
            .iter()
            .flat_map(|(path, bytes)| {
                let name = path.strip_prefix(root).unwrap_or(path).as_os_str().as_encoded_bytes();
                [&name.len().to_le_bytes(), name, &bytes.len().to_le_bytes(), bytes].concat()
            })
            .collect();
        Some(crate::trust::digest(&whole))
    }

    /// The agent of that name, or the one that starts by itself: the default, else the first that may, else the first that a person
    /// may let start.
    ///
    /// # Errors
    /// A sentence: there is none, or it may not start.
    pub fn agent(&self, name: Option<&str>) -> Result<&Agent, String> {
        let by_name = |name: &str| self.agents.iter().find(|it| sid_config::rc::same(&it.id, name));
        let names = || self.agents.iter().map(|it| it.id.as_str()).collect::<Vec<_>>().join(", ");
        let found = match name.or(self.default.as_deref()) {
            Some(name) => {
                by_name(name).ok_or_else(|| format!("there is no agent '{}'; there are {}", name.escape_debug(), names()))?
            }
            None => {
                let first = |switch: Switch| self.agents.iter().find(|it| it.switch == switch);
                first(Switch::Yes).or_else(|| first(Switch::Manual)).ok_or_else(|| "no agent may start".to_owned())?
            }
        };
        if found.switch == Switch::No {
            return Err(format!("the agent '{}' is switched off in {}", found.id, self.root.join(AGENTS).display()));
        }
        Ok(found)
    }

    /// Every field of every service that has a value, its own, inherited or a default for all.
    #[must_use]
    pub fn in_force(&self, env: &dyn Fn(&str) -> Option<String>) -> Vec<InForce> {
        let mut out = Vec::new();
        let mut of = |rc: &Rc, services: Vec<&str>, fields: &[Field]| {
            for id in services {
                let all = SERVICE_FIELDS.iter().chain(fields);
                let found = all.filter_map(|it| {
                    let at = rc.field(id, it.name)?;
                    let value = rc.expanded(id, it.name, env).ok()??;
                    let name = sid_config::rc::prefix(id) + it.name;
                    Some(InForce { name, value, origin: format!("{}:{}", at.file.display(), at.line), doc: Some(it.doc) })
                });
                out.extend(found);
                for (name, value) in if fields == TOOL_FIELDS { self.variables(id, env).unwrap_or_default() } else { Vec::new() } {
                    let at = rc.field(id, &name).map(|it| format!("{}:{}", it.file.display(), it.line));
                    out.push(InForce {
                        name: sid_config::rc::prefix(id) + &name,
                        value,
                        origin: at.unwrap_or_default(),
                        doc: None,
                    });
                }
            }
        };
        of(&self.agents_rc, self.agents_rc.services(), AGENT_FIELDS);
        of(&self.tools_rc, self.tools_rc.services(), TOOL_FIELDS);
        out
    }

    /// The skills that an agent is shown, in its order.
    #[must_use]
    pub fn skills_of(&self, agent: &Agent) -> Vec<Skill> {
        let all =
            |name: &String| -> Vec<Skill> { self.skills.iter().filter(|it| name == "*" || it.id == *name).cloned().collect() };
        let mut out: Vec<Skill> = Vec::new();
        for it in agent.skills.iter().flat_map(all) {
            if !out.contains(&it) {
                out.push(it);
            }
        }
        out
    }

    /// The fields of a tool that are its own, with their values, what it inherits included.
    ///
    /// # Errors
    /// One that can't be expanded.
    pub fn variables(&self, tool: &str, env: &dyn Fn(&str) -> Option<String>) -> Result<Vec<(String, String)>, Complaint> {
        variables(&self.tools_rc, tool, TOOL_FIELDS, env)
    }

    /// The same for a hook in `agents.conf`.
    ///
    /// # Errors
    /// One that can't be expanded.
    pub fn hook_variables(&self, hook: &str, env: &dyn Fn(&str) -> Option<String>) -> Result<Vec<(String, String)>, Complaint> {
        variables(&self.agents_rc, hook, &[], env)
    }

    /// The tool that a name means.
    #[must_use]
    pub fn tool(&self, name: &str) -> Option<&ToolService> {
        self.tools.iter().find(|it| sid_config::rc::same(&it.id, name))
    }
}

/// What a service of an rc file has besides these fields: its own, what it inherits, and what counts for all.
fn variables(
    rc: &Rc,
    service: &str,
    fields: &[Field],
    env: &dyn Fn(&str) -> Option<String>,
) -> Result<Vec<(String, String)>, Complaint> {
    let prefixes: Vec<String> = rc.chain(service).iter().map(|it| sid_config::rc::prefix(it)).collect();
    let fixed = |name: &str| SERVICE_FIELDS.iter().chain(fields).any(|it| it.name == name);
    let names: std::collections::BTreeSet<&str> =
        prefixes.iter().flat_map(|it| rc.fields_of(it)).chain(rc.bare()).filter(|it| !it.is_empty() && !fixed(it)).collect();
    let value = |name: &str| Ok(rc.expanded(service, name, env)?.map(|it| (name.to_owned(), it)));
    names.into_iter().filter_map(|it| value(it).transpose()).collect()
}

/// The file of a service in a folder: in the spelling of any of `names`, or with `-` for `_`.
pub(crate) fn find_file(dir: &Path, names: &[String], suffix: &str) -> Option<PathBuf> {
    names.iter().find_map(|name| {
        let spellings = [name.clone(), name.replace('_', "-"), name.replace('-', "_")];
        spellings.iter().map(|it| dir.join(format!("{it}{suffix}"))).find(|it| it.is_file())
    })
}

/// A file's text; `None`: it isn't there.
pub(crate) fn text(path: &Path) -> io::Result<Option<String>> {
    match fs::read_to_string(path) {
        Ok(it) => Ok(Some(it)),
        Err(err) if err.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(err) => Err(err),
    }
}

#[cfg(test)]
mod tests;
