//! rc files: assignments that describe services (agents, tools, hooks). Nothing in them is ever evaluated by a shell.
//!
//! The format is that of rc_conf; where ours differs (names match modulo `-` and `_` and keep their case, a mistake is a complaint
//! with its place) a test holds the rest against that crate.
mod expand;
mod words;

use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    path::{Path, PathBuf},
};

pub use expand::expand;
pub use words::{quote, split};

use crate::{Complaint, complaint::nearest};

/// A value, and where it was assigned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Assigned {
    /// The one word that the line gives; variables in it are not expanded yet.
    pub value: String,
    /// The file.
    pub file: PathBuf,
    /// The line, from 1.
    pub line: usize,
}

/// Whether a service may start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Switch {
    /// It may.
    Yes,
    /// A person is asked.
    Manual,
    /// It may not.
    No,
}

/// All assignments of some files; later ones win.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Rc {
    vars: BTreeMap<String, Assigned>,
    /// Every service by its prefix.
    services: BTreeMap<String, String>,
    /// Names with a `-`, by their spelling with `_`.
    dashed: BTreeMap<String, String>,
    /// Names of variables that belong to no service.
    bare: Vec<String>,
}

/// Endings that say something of a service itself.
const ENABLED: &str = "_ENABLED";
const ALIASES: &str = "_ALIASES";
const INHERIT: &str = "_INHERIT";
/// A field of agents that only looks like a switch of a service.
const NO_SERVICE: &str = "_CACHING_ENABLED";

/// The prefix of a service's variables: whatever is no letter or digit becomes `_`.
#[must_use]
pub fn prefix(service: &str) -> String {
    service.chars().map(|it| if it.is_alphanumeric() { it } else { '_' }).chain(['_']).collect()
}

/// Whether two spellings name the same service.
#[must_use]
pub fn same(a: &str, b: &str) -> bool {
    prefix(a) == prefix(b)
}

impl Rc {
    /// Reads files in order; `read` gives their text. A `source` line reads another one, relative to the file it is in, once.
    ///
    /// # Errors
    /// Everything that is wrong in them; nothing should then be used.
    pub fn load(files: &[PathBuf], read: &mut dyn FnMut(&Path) -> io::Result<String>) -> Result<Self, Vec<Complaint>> {
        let mut reader = Reader { read, seen: BTreeSet::new(), rc: Self::default(), wrong: Vec::new() };
        for file in files {
            reader.file(file, None);
        }
        let (mut rc, mut wrong) = (reader.rc, reader.wrong);
        rc.index();
        rc.check(&mut wrong);
        if wrong.is_empty() { Ok(rc) } else { Err(wrong) }
    }

    /// A variable by its name; one that is spelled with `-` also by `_`.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Assigned> {
        self.vars.get(name).or_else(|| self.vars.get(self.dashed.get(name)?))
    }

    /// All variables, by name.
    pub fn vars(&self) -> impl Iterator<Item = (&str, &Assigned)> {
        self.vars.iter().map(|(name, it)| (name.as_str(), it))
    }

    /// The names of all variables that belong to no service: defaults for all.
    pub fn bare(&self) -> impl Iterator<Item = &str> {
        self.bare.iter().map(String::as_str)
    }

    /// What follows a service's prefix in the names that begin with it.
    pub fn fields_of<'a>(&'a self, prefix: &'a str) -> impl Iterator<Item = &'a str> {
        let from = self.vars.range::<str, _>((std::ops::Bound::Included(prefix), std::ops::Bound::Unbounded));
        from.map_while(move |(name, _)| name.strip_prefix(prefix))
    }

    /// The rest of a name behind the longest prefix of a service.
    fn field_of(&self, name: &str) -> Option<usize> {
        let ends = name.rmatch_indices('_').map(|(at, _)| at + 1);
        ends.into_iter().find(|at| self.services.contains_key(&name[..*at]))
    }

    /// Every service that has a switch or is an alias, in the order of their names.
    #[must_use]
    pub fn services(&self) -> Vec<&str> {
        let mut out: Vec<&str> = self.services.values().map(String::as_str).collect();
        out.sort_unstable();
        out
    }

    fn index(&mut self) {
        let dashed = self.vars.keys().filter(|it| it.contains('-'));
        self.dashed = dashed.map(|it| (it.replace('-', "_"), it.clone())).collect();
        let stem = |ending: &'static str| {
            self.vars.keys().filter(move |it| !it.ends_with(NO_SERVICE)).filter_map(move |it| it.strip_suffix(ending))
        };
        let all: BTreeSet<&str> = stem(ENABLED).chain(stem(ALIASES)).filter(|it| !it.is_empty()).collect();
        // Of two spellings the first.
        self.services = all.into_iter().rev().map(|it| (prefix(it), it.to_owned())).collect();
        let alone = |name: &&String| self.field_of(&name.replace('-', "_")).is_none();
        self.bare = self.vars.keys().filter(alone).cloned().collect();
    }

    /// The service that a name means, in the spelling of the file.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<&str> {
        self.services.get(&prefix(name)).map(String::as_str)
    }

    /// The service, what it is an alias of, what that is an alias of, and so on.
    #[must_use]
    pub fn chain(&self, service: &str) -> Vec<String> {
        let mut out = vec![service.to_owned()];
        while let Some(target) = out.last().and_then(|it| self.get(&(prefix(it) + "ALIASES"))) {
            let target = target.value.trim().to_owned();
            if target.is_empty() || out.iter().any(|it| same(it, &target)) {
                break;
            }
            out.push(target);
        }
        out
    }

    /// Whether a service may start: the first switch along its chain. Without any, it may not.
    #[must_use]
    pub fn switch(&self, service: &str) -> Switch {
        let found = self.chain(service).iter().find_map(|it| self.get(&(prefix(it) + "ENABLED")));
        match found.map(|it| it.value.as_str()) {
            Some("YES") => Switch::Yes,
            Some("MANUAL") => Switch::Manual,
            _ => Switch::No,
        }
    }

    /// A field of a service: its own, what it inherits, or the bare name, which is a default for all.
    #[must_use]
    pub fn field(&self, service: &str, name: &str) -> Option<&Assigned> {
        let mut at = service.to_owned();
        loop {
            if let Some(it) = self.get(&(prefix(&at) + name)) {
                return Some(it);
            }
            let inherits = self.get(&(prefix(&at) + "INHERIT")).is_some_and(|it| it.value == "YES");
            match self.get(&(prefix(&at) + "ALIASES")).filter(|_| inherits) {
                Some(target) if !same(&target.value, &at) => at = target.value.trim().to_owned(),
                _ => break,
            }
        }
        self.get(name)
    }

    /// A field with its variables expanded in the scope of its service; `outer` knows what the files don't.
    ///
    /// # Errors
    /// What is wrong with it, as a complaint about its place.
    pub fn expanded(&self, service: &str, name: &str, outer: &dyn Fn(&str) -> Option<String>) -> Result<Option<String>, Complaint> {
        let Some(it) = self.field(service, name) else { return Ok(None) };
        let lookup = |var: &str| {
            let own = self.field(service, var).or_else(|| self.get(var));
            own.map(|it| it.value.clone()).or_else(|| outer(var))
        };
        match expand(&it.value, &lookup) {
            Ok(text) => Ok(Some(text)),
            Err(why) => Err(complaint(it, format!("`{}{name}`: {why}", prefix(service)), None)),
        }
    }

    /// Variables of services whose ending is none of `known`, each a complaint with the nearest that is. `bare` may stand alone.
    #[must_use]
    pub fn unknown(&self, known: &[&str], bare: &[&str]) -> Vec<Complaint> {
        let fixed = ["ENABLED", "ALIASES", "INHERIT"];
        let mut out = Vec::new();
        for (spelled, at) in &self.vars {
            let name = &spelled.replace('-', "_");
            let Some(field) = self.field_of(name).map(|at| name[at..].to_owned()) else {
                if !bare.contains(&name.as_str()) && !known.contains(&name.as_str()) {
                    let near = nearest(name, bare.iter().chain(known).copied());
                    out.push(complaint(at, format!("`{spelled}` belongs to no service and is no default"), near));
                }
                continue;
            };
            if !known.contains(&field.as_str()) && !fixed.contains(&field.as_str()) {
                let near = nearest(&field, known.iter().chain(&fixed).copied());
                out.push(complaint(at, format!("there is no key `{field}` (in `{spelled}`)"), near));
            }
        }
        out
    }

    /// Switches, aliases and inheritance that make no sense.
    fn check(&self, wrong: &mut Vec<Complaint>) {
        for (name, it) in &self.vars {
            let service = [ENABLED, ALIASES].iter().find_map(|it| name.strip_suffix(it)).filter(|_| !name.ends_with(NO_SERVICE));
            let other = service.and_then(|it| Some((it, self.services.get(&prefix(it))?)));
            if let Some((service, other)) = other.filter(|(service, other)| service != other) {
                wrong.push(complaint(it, format!("`{service}` and `{other}` are two spellings of one service; use one"), None));
            }
            if name.strip_suffix(ENABLED).is_some_and(|_| !name.ends_with(NO_SERVICE))
                && !["YES", "MANUAL", "NO"].contains(&it.value.as_str())
            {
                let near = nearest(&it.value.to_ascii_uppercase(), ["YES", "MANUAL", "NO"].into_iter());
                wrong.push(complaint(
                    it,
                    format!("`{name}` is \"{}\"; it can be YES, MANUAL or NO", it.value.escape_debug()),
                    near,
                ));
            }
            if let Some(service) = name.strip_suffix(INHERIT) {
                if !["YES", "NO"].contains(&it.value.as_str()) {
                    wrong.push(complaint(it, format!("`{name}` is \"{}\"; it can be YES or NO", it.value.escape_debug()), None));
                } else if self.get(&format!("{service}{ALIASES}")).is_none() {
                    wrong.push(complaint(it, format!("`{name}` has no meaning without `{service}{ALIASES}`"), None));
                }
            }
            if let Some(service) = name.strip_suffix(ALIASES) {
                self.check_alias(service, it, wrong);
            }
        }
    }

    fn check_alias(&self, service: &str, it: &Assigned, wrong: &mut Vec<Complaint>) {
        let target = it.value.trim();
        if target.is_empty() || target.contains(char::is_whitespace) {
            wrong.push(complaint(it, format!("`{service}{ALIASES}` must name exactly one service"), None));
            return;
        }
        let last = self.chain(service).pop().unwrap_or_default();
        let next = self.get(&(prefix(&last) + "ALIASES"));
        if next.is_some() {
            wrong.push(complaint(it, format!("`{service}{ALIASES}` leads back to where it came from"), None));
        }
    }
}

fn complaint(at: &Assigned, text: String, near: Option<&str>) -> Complaint {
    Complaint { file: at.file.clone(), line: at.line, text, hint: near.map(|it| format!("did you mean `{it}`?")) }
}

struct Reader<'a> {
    read: &'a mut dyn FnMut(&Path) -> io::Result<String>,
    seen: BTreeSet<PathBuf>,
    rc: Rc,
    wrong: Vec<Complaint>,
}

impl Reader<'_> {
    fn file(&mut self, file: &Path, from: Option<(&Path, usize)>) {
        if !self.seen.insert(file.to_owned()) {
            return;
        }
        let text = match (self.read)(file) {
            Ok(it) => it,
            Err(err) => {
                let (at, line) = from.unwrap_or((file, 0));
                let what = if from.is_some() { format!("`source`: {}: {err}", file.display()) } else { err.to_string() };
                self.wrong.push(Complaint { file: at.to_owned(), line, text: what, hint: None });
                return;
            }
        };
        let mut lines = text.lines().enumerate();
        while let Some((n, first)) = lines.next() {
            if first.trim_start().starts_with('#') {
                continue;
            }
            let (mut whole, mut next) = (String::new(), Some(first));
            while let Some(piece) = next {
                let (piece, goes_on) = match self.continued(file, n + 1, piece) {
                    Some(it) => it,
                    None => break,
                };
                whole = if whole.is_empty() { piece.to_owned() } else { format!("{} {}", whole.trim(), piece.trim()) };
                if !goes_on {
                    self.line(file, n + 1, whole.trim());
                    break;
                }
                next = lines.next().map(|it| it.1);
                if next.is_none() {
                    self.complain(file, n + 1, "the file ends in a line that goes on".to_owned());
                }
            }
        }
    }

    fn complain(&mut self, file: &Path, line: usize, text: String) {
        self.wrong.push(Complaint { file: file.to_owned(), line, text, hint: None });
    }

    /// A physical line without the backslash that makes it go on. Others have no place in an rc file.
    fn continued<'t>(&mut self, file: &Path, line: usize, text: &'t str) -> Option<(&'t str, bool)> {
        match text.matches('\\').count() {
            0 => Some((text, false)),
            1 if text.ends_with('\\') => Some((&text[..text.len() - 1], true)),
            _ => {
                self.complain(
                    file,
                    line,
                    "a backslash may only be the last character of a line, where the next one goes on".to_owned(),
                );
                None
            }
        }
    }

    fn line(&mut self, file: &Path, line: usize, text: &str) {
        if text.is_empty() {
            return;
        }
        if let Some(path) = text.strip_prefix("source ") {
            return self.source(file, line, path.trim());
        }
        let Some((name, value)) = text.split_once('=') else {
            let shown: String = text.chars().take(60).collect();
            return self.complain(file, line, format!("\"{}\" is no assignment (NAME=VALUE)", shown.escape_debug()));
        };
        if name.is_empty() || !name.chars().all(|it| it.is_alphanumeric() || "_-.".contains(it)) {
            let what = format!("\"{}\" is no name; there are no blanks around `=`, and nothing is exported", name.escape_debug());
            return self.complain(file, line, what);
        }
        match split(value) {
            Ok(words) if words.len() <= 1 => {
                let value = words.into_iter().next().unwrap_or_default();
                self.rc.vars.insert(name.to_owned(), Assigned { value, file: file.to_owned(), line });
            }
            Ok(words) => {
                let what = format!(
                    "the value of `{name}` has {} words; put quotes around it (a comment needs a line of its own)",
                    words.len()
                );
                self.complain(file, line, what);
            }
            Err(why) => self.complain(file, line, format!("the value of `{name}`: {why}")),
        }
    }

    fn source(&mut self, file: &Path, line: usize, path: &str) {
        let outside = path.starts_with('/') || Path::new(path).components().any(|it| it == std::path::Component::ParentDir);
        if path.is_empty() || outside {
            return self.complain(file, line, format!("`source {path}`: the path must be relative and may not hold `..`"));
        }
        let at = file.parent().unwrap_or(Path::new("")).join(path);
        let file = file.to_owned();
        self.file(&at, Some((&file, line)));
    }
}

#[cfg(test)]
mod tests;
