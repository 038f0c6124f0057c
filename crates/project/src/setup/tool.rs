//! The services of `tools.conf`.
use std::{
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    time::Duration,
};

use serde::Deserialize;
use serde_json::{Map, Value};
use sid_config::{
    Complaint,
    rc::{Assigned, Rc, Switch, prefix},
};

use super::find_file;

/// Tools that sid has built in, by their canonical ids.
pub const BUILTIN: &[&str] = &["bash", "edit", "read", "search", "glob", "git_status", "git_diff"];

/// How long a tool may run when nobody says otherwise.
const TIMEOUT: u64 = 270;
/// Letters of an id.
const LONGEST: usize = 64;

/// A service of `tools.conf`.
#[derive(Debug, Clone)]
pub struct ToolService {
    /// Its name, in the spelling of the file.
    pub id: String,
    /// What it is in the end: itself, or what it is an alias of.
    pub canonical: String,
    /// Whether it may be used.
    pub switch: Switch,
    /// Whether the program is asked for a preview before a person is.
    pub confirm: bool,
    /// How long it may run; `None`: as long as it likes.
    pub timeout: Option<Duration>,
    /// Its program; `None`: it is built in.
    pub program: Option<PathBuf>,
    /// What the model is told of it; `None`: it is built in.
    pub manifest: Option<Manifest>,
}

/// `tools/ID.json`.
#[derive(Debug, Clone, PartialEq)]
pub struct Manifest {
    /// For the model.
    pub description: String,
    /// The JSON schema of its input.
    pub input_schema: Map<String, Value>,
}

#[derive(Deserialize)]
struct Raw {
    protocol_version: Option<u64>,
    description: Option<String>,
    input_schema: Option<Value>,
}

/// All services of `tools.conf`.
pub(super) fn tools(root: &Path, rc: &Rc, env: &dyn Fn(&str) -> Option<String>, wrong: &mut Vec<Complaint>) -> Vec<ToolService> {
    rc.services().into_iter().filter_map(|id| Reader { root, rc, env, wrong }.tool(id)).collect()
}

struct Reader<'a> {
    root: &'a Path,
    rc: &'a Rc,
    env: &'a dyn Fn(&str) -> Option<String>,
    wrong: &'a mut Vec<Complaint>,
}

impl Reader<'_> {
    fn complain(&mut self, at: Option<&Assigned>, text: String) {
        let (file, line) = at.map_or_else(|| (self.root.join(super::TOOLS), 0), |it| (it.file.clone(), it.line));
        self.wrong.push(Complaint { file, line, text, hint: None });
    }

    fn tool(&mut self, id: &str) -> Option<ToolService> {
        let chain = self.rc.chain(id);
        let canonical = chain.last().cloned().unwrap_or_default();
        let place = self.rc.get(&(prefix(id) + "ENABLED")).or_else(|| self.rc.get(&(prefix(id) + "ALIASES"))).cloned();
        if chain.len() > 1 && self.rc.get(&(prefix(&canonical) + "ENABLED")).is_none() {
            self.complain(place.as_ref(), format!("`{id}` is an alias of `{canonical}`, which is no tool"));
            return None;
        }
        let legal = |it: &str| {
            (1..=LONGEST).contains(&it.len()) && it.bytes().all(|it| it.is_ascii_alphanumeric() || it == b'_' || it == b'-')
        };
        if let Some(it) = [id, &canonical].into_iter().find(|it| !legal(it)) {
            self.complain(place.as_ref(), format!("`{it}` can't be a tool: 1 to 64 ASCII letters, digits, `_` and `-`"));
            return None;
        }
        let built_in = BUILTIN.iter().find(|it| sid_config::rc::same(it, &canonical));
        let names = [canonical.clone()];
        let program = find_file(&self.root.join("tools"), &names, "");
        let manifest = find_file(&self.root.join("tools"), &names, ".json");
        let (program, manifest) = match (built_in, program) {
            // A program of the user's takes the place of a built-in tool; not of the shell, which is no program's work.
            (Some(it), Some(path)) if *it != "bash" && (*it == "edit" || manifest.is_some()) => {
                let program = self.program(&canonical, place.as_ref(), Some(path));
                (program, manifest.and_then(|it| self.manifest(&canonical, place.as_ref(), Some(it))))
            }
            (Some(_), _) => (None, None),
            (None, program) => {
                (self.program(&canonical, place.as_ref(), program), self.manifest(&canonical, place.as_ref(), manifest))
            }
        };
        if built_in.is_none() && (program.is_none() || manifest.is_none()) {
            return None;
        }
        Some(ToolService {
            id: id.to_owned(),
            canonical: built_in.map_or(canonical, |it| (*it).to_owned()),
            switch: self.rc.switch(id),
            confirm: self.switch_of(id, "CONFIRM").unwrap_or(false),
            timeout: self.timeout(id),
            program,
            manifest,
        })
    }

    fn program(&mut self, id: &str, at: Option<&Assigned>, found: Option<PathBuf>) -> Option<PathBuf> {
        let Some(path) = found else {
            self.complain(at, format!("the program {} is missing", self.root.join("tools").join(id).display()));
            return None;
        };
        if path.metadata().is_ok_and(|it| it.permissions().mode() & 0o111 == 0) {
            self.complain(at, format!("{} is not executable; `chmod +x` makes it so", path.display()));
            return None;
        }
        Some(path)
    }

    fn manifest(&mut self, id: &str, at: Option<&Assigned>, found: Option<PathBuf>) -> Option<Manifest> {
        let Some(path) = found else {
            self.complain(at, format!("the manifest {} is missing", self.root.join("tools").join(format!("{id}.json")).display()));
            return None;
        };
        match read_manifest(&path) {
            Ok(it) => Some(it),
            Err((line, text)) => {
                self.wrong.push(Complaint { file: path, line, text, hint: None });
                None
            }
        }
    }

    fn switch_of(&mut self, id: &str, key: &str) -> Option<bool> {
        let text = self.expanded(id, key)?;
        let found = super::agent::boolean(&text);
        if found.is_none() {
            let at = self.rc.field(id, key).cloned();
            self.complain(at.as_ref(), format!("`{}{key}` is \"{}\"; it can be YES or NO", prefix(id), text.escape_debug()));
        }
        found
    }

    fn timeout(&mut self, id: &str) -> Option<Duration> {
        let Some(text) = self.expanded(id, "TIMEOUT") else { return Some(Duration::from_secs(TIMEOUT)) };
        match text.trim().parse::<u64>() {
            Ok(0) => None,
            Ok(it) => Some(Duration::from_secs(it)),
            Err(_) => {
                let at = self.rc.field(id, "TIMEOUT").cloned();
                let text =
                    format!("`{}TIMEOUT` is \"{}\"; it must be whole seconds, 0 for no limit", prefix(id), text.escape_debug());
                self.complain(at.as_ref(), text);
                None
            }
        }
    }

    fn expanded(&mut self, id: &str, key: &str) -> Option<String> {
        match self.rc.expanded(id, key, self.env) {
            Ok(it) => it,
            Err(it) => {
                self.wrong.push(it);
                None
            }
        }
    }
}

/// Reads a manifest; keys that it may not need are ignored.
fn read_manifest(path: &Path) -> Result<Manifest, (usize, String)> {
    let text = std::fs::read_to_string(path).map_err(|err| (0, err.to_string()))?;
    let raw: Raw = serde_json::from_str(&text).map_err(|err| (err.line(), format!("is no manifest: {err}")))?;
    match raw.protocol_version {
        Some(1) => {}
        Some(it) => return Err((0, format!("`protocol_version` is {it}; sid speaks version 1"))),
        None => return Err((0, "`protocol_version` is missing; it must be 1".to_owned())),
    }
    let description = raw.description.filter(|it| !it.trim().is_empty());
    let description = description.ok_or((0, "`description` is missing or empty: the model needs it".to_owned()))?;
    match raw.input_schema {
        Some(Value::Object(mut input_schema)) => {
            // Providers want it said.
            let kind = input_schema.entry("type").or_insert_with(|| "object".into());
            if kind != "object" {
                return Err((0, format!("the `type` of `input_schema` is {kind}; a call's input is an object")));
            }
            input_schema.entry("properties").or_insert_with(|| Map::new().into());
            Ok(Manifest { description, input_schema })
        }
        _ => Err((0, "`input_schema` must be a JSON object".to_owned())),
    }
}
