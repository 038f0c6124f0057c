//! The services of `agents.conf`.
use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use sid_config::{
    Complaint,
    rc::{Rc, Switch, prefix, split},
};

use super::{Skill, ToolService, find_file};

/// A tool as an agent names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolUse {
    /// The name that the model sees.
    pub exposed: String,
    /// The service.
    pub service: String,
}

/// A service of `agents.conf`.
#[derive(Debug, Clone, PartialEq)]
pub struct Agent {
    /// Its name, in the spelling of the file.
    pub id: String,
    /// Whether it may start.
    pub switch: Switch,
    /// A name for people.
    pub name: Option<String>,
    /// What it is for.
    pub description: Option<String>,
    /// Its tools, each once.
    pub tools: Vec<ToolUse>,
    /// Names of skills; `*` is all.
    pub skills: Vec<String>,
    /// Its model.
    pub model: Option<String>,
    /// Its system prompt: the field, else the prompt file.
    pub system: Option<String>,
    /// The most tokens of an answer.
    pub max_tokens: Option<u32>,
    /// Sampling.
    pub temperature: Option<f64>,
    /// Sampling.
    pub top_p: Option<f64>,
    /// Sampling.
    pub top_k: Option<u32>,
    /// Texts that end an answer.
    pub stop: Vec<String>,
    /// Tokens of thinking; 0 is none.
    pub thinking: Option<u32>,
    /// Whether lines on a terminal have colours; `None`: as the terminal has it.
    pub color: Option<bool>,
    /// Tokens of a whole session.
    pub session_budget: Option<u64>,
    /// Whether the provider caches the prompt.
    pub caching: bool,
    /// Whether the hook runs.
    pub user_instructions: bool,
    /// Whether AGENTS.md files are read.
    pub agents_md: bool,
    /// Which, instead of the usual ones.
    pub agents_md_path: Option<String>,
    /// The hook's program.
    pub hook: Option<PathBuf>,
    /// How long the hook may take, if it says so.
    pub hook_timeout: Option<Duration>,
}

/// Whole sets of tools, as model families know them.
const SURFACES: &[&str] = &["@sigit", "@claude", "@codex", "@grok"];

/// Tokens of thinking when it is only switched on.
const THINKING: u32 = 1024;

/// Yes or no, in all the words that people use.
pub(super) fn boolean(text: &str) -> Option<bool> {
    match text.trim().to_ascii_lowercase().as_str() {
        "1" | "on" | "true" | "yes" | "enable" | "enabled" => Some(true),
        "0" | "off" | "false" | "no" | "disable" | "disabled" => Some(false),
        _ => None,
    }
}

/// All services of `agents.conf`.
pub(super) fn agents(
    root: &Path,
    rc: &Rc,
    tools_rc: &Rc,
    (tools, skills): (&[ToolService], &[Skill]),
    env: &dyn Fn(&str) -> Option<String>,
    wrong: &mut Vec<Complaint>,
) -> Vec<Agent> {
    let ids: Vec<String> = rc.services().into_iter().map(str::to_owned).collect();
    ids.iter().map(|id| Reader { root, rc, tools_rc, tools, skills, env, wrong, id }.agent()).collect()
}

struct Reader<'a> {
    root: &'a Path,
    rc: &'a Rc,
    tools_rc: &'a Rc,
    tools: &'a [ToolService],
    skills: &'a [Skill],
    env: &'a dyn Fn(&str) -> Option<String>,
    wrong: &'a mut Vec<Complaint>,
    id: &'a str,
}

impl Reader<'_> {
    fn agent(&mut self) -> Agent {
        let chain = self.rc.chain(self.id);
        let prompt = find_file(&self.root.join("agents"), &chain, ".md");
        let prompt = prompt.and_then(|path| match super::text(&path) {
            Ok(it) => it,
            Err(err) => {
                self.wrong.push(Complaint { file: path, line: 0, text: err.to_string(), hint: None });
                None
            }
        });
        let unit = |it: &f64| (0.0..=1.0).contains(it);
        Agent {
            id: self.id.to_owned(),
            switch: self.rc.switch(self.id),
            name: self.text("NAME"),
            description: self.text("DESC"),
            tools: self.tools(),
            skills: self.skills(),
            model: self.text("MODEL").filter(|it| !it.trim().is_empty()),
            system: self.text("SYSTEM").or(prompt),
            max_tokens: self.parsed("MAX_TOKENS", "a whole number above 0", |it| it.parse().ok().filter(|it| *it > 0)),
            temperature: self.parsed("TEMPERATURE", "a number from 0 to 1", |it| it.parse().ok().filter(unit)),
            top_p: self.parsed("TOP_P", "a number from 0 to 1", |it| it.parse().ok().filter(unit)),
            top_k: self.parsed("TOP_K", "a whole number", |it| it.parse().ok()),
            stop: self.words("STOP_SEQUENCES"),
            thinking: self.parsed("THINKING", "on, off, or a number of tokens", |it| match boolean(it) {
                // 1 and 0 are words for on and off elsewhere; here they are numbers too small to think with.
                Some(on) => Some(if on { THINKING } else { 0 }),
                None => it.parse().ok(),
            }),
            color: self.color(),
            session_budget: self.parsed("SESSION_BUDGET", "a whole number of tokens", |it| it.parse().ok()),
            caching: self.parsed("CACHING_ENABLED", "YES or NO", boolean).unwrap_or(true),
            user_instructions: self.parsed("USER_INSTRUCTIONS", "YES or NO", boolean).unwrap_or(true),
            agents_md: self.parsed("AGENTS_MD", "YES or NO", boolean).unwrap_or(true),
            agents_md_path: self.text("AGENTS_MD_PATH"),
            hook: self.hook(),
            hook_timeout: self.hook_timeout(),
        }
    }

    fn complain(&mut self, key: &str, text: String) {
        let at = self.rc.field(self.id, key);
        let (file, line) = at.map_or_else(|| (self.root.join(super::AGENTS), 0), |it| (it.file.clone(), it.line));
        self.wrong.push(Complaint { file, line, text, hint: None });
    }

    fn text(&mut self, key: &str) -> Option<String> {
        match self.rc.expanded(self.id, key, self.env) {
            Ok(it) => it,
            Err(it) => {
                self.wrong.push(it);
                None
            }
        }
    }

    fn parsed<T>(&mut self, key: &str, what: &str, read: impl Fn(&str) -> Option<T>) -> Option<T> {
        let text = self.text(key).filter(|it| !it.trim().is_empty())?;
        let found = read(text.trim());
        if found.is_none() {
            self.complain(key, format!("`{}{key}` is \"{}\"; it must be {what}", prefix(self.id), text.escape_debug()));
        }
        found
    }

    fn words(&mut self, key: &str) -> Vec<String> {
        let Some(text) = self.text(key) else { return Vec::new() };
        match split(&text) {
            Ok(it) => it,
            Err(why) => {
                self.complain(key, format!("`{}{key}`: {why}", prefix(self.id)));
                Vec::new()
            }
        }
    }

    /// `NO_COLOR` counts more than `USE_COLOR`.
    fn color(&mut self) -> Option<bool> {
        let wanted = self.parsed("USE_COLOR", "YES or NO", boolean);
        let not = self.parsed("NO_COLOR", "YES or NO", boolean);
        not.map(|it| !it).or(wanted)
    }

    fn tools(&mut self) -> Vec<ToolUse> {
        let mut out: Vec<ToolUse> = Vec::new();
        for name in self.words("TOOLS") {
            if name.starts_with('@') {
                if SURFACES.contains(&name.as_str()) {
                    out.push(ToolUse { exposed: name, service: String::new() });
                } else {
                    let text = format!("the agent `{}` lists `{name}`; the surfaces are {}", self.id, SURFACES.join(", "));
                    self.complain("TOOLS", text);
                }
                continue;
            }
            let Some(service) = self.tools_rc.find(&name).map(str::to_owned) else {
                self.complain("TOOLS", format!("the agent `{}` lists `{name}`, which is no tool of tools.conf", self.id));
                continue;
            };
            if self.tools_rc.switch(&service) == Switch::No {
                self.complain("TOOLS", format!("the agent `{}` lists `{name}`, which is switched off in tools.conf", self.id));
                continue;
            }
            // One with a mistake of its own is complained about already.
            let known = self.tools.iter().any(|it| it.id == service);
            if known && !out.iter().any(|it| it.exposed == name) {
                out.push(ToolUse { exposed: name, service });
            }
        }
        out
    }

    fn skills(&mut self) -> Vec<String> {
        let named = self.words("SKILLS");
        for name in named.iter().filter(|it| *it != "*") {
            if !self.skills.iter().any(|it| it.id == *name) {
                let near = self.skills.iter().map(|it| it.id.as_str()).collect::<Vec<_>>().join(", ");
                let there = if near.is_empty() { "there are none".to_owned() } else { format!("there are {near}") };
                self.complain("SKILLS", format!("the agent `{}` lists the skill `{name}`; {there}", self.id));
            }
        }
        named
    }

    fn hook_timeout(&mut self) -> Option<Duration> {
        let name = prefix(self.text("USER_INSTRUCTIONS_HOOK")?.trim()) + "TIMEOUT";
        let at = self.rc.get(&name)?;
        let seconds = at.value.trim().parse().ok().filter(|it| *it > 0);
        if seconds.is_none() {
            let text = format!("`{name}` is \"{}\"; it must be whole seconds above 0", at.value.escape_debug());
            self.wrong.push(Complaint { file: at.file.clone(), line: at.line, text, hint: None });
        }
        seconds.map(Duration::from_secs)
    }

    fn hook(&mut self) -> Option<PathBuf> {
        use std::os::unix::fs::PermissionsExt as _;
        let name = self.text("USER_INSTRUCTIONS_HOOK").filter(|it| !it.trim().is_empty())?;
        let Some(path) = find_file(&self.root.join("agents"), &self.rc.chain(name.trim()), "") else {
            let path = self.root.join("agents").join(name.trim());
            self.complain("USER_INSTRUCTIONS_HOOK", format!("the hook {} is missing", path.display()));
            return None;
        };
        if path.metadata().is_ok_and(|it| it.permissions().mode() & 0o111 == 0) {
            self.complain("USER_INSTRUCTIONS_HOOK", format!("{} is not executable; `chmod +x` makes it so", path.display()));
            return None;
        }
        Some(path)
    }
}
