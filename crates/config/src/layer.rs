use std::path::{Path, PathBuf};

use toml::{
    Spanned,
    de::{DeTable, DeValue},
};

use crate::{Complaint, complaint::nearest};

/// What values a key takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Text.
    Text,
    /// One of these words.
    OneOf(&'static [&'static str]),
    /// A whole number.
    Number,
    /// `true` or `false`.
    Switch,
    /// A list of texts.
    Texts,
    /// A list of whole numbers.
    Numbers,
}

/// A key that a file may hold.
#[derive(Debug, Clone, Copy)]
pub struct Key {
    /// Dotted; `*` stands for any one name, or for each entry of an array of tables.
    pub path: &'static str,
    /// Its values.
    pub kind: Kind,
    /// What it does, for the reference.
    pub doc: &'static str,
}

/// A value as it was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    /// Text.
    Text(String),
    /// A whole number.
    Number(i64),
    /// A switch.
    Switch(bool),
    /// A list of texts.
    Texts(Vec<String>),
    /// A list of whole numbers.
    Numbers(Vec<i64>),
}

#[derive(Debug, Clone)]
struct Entry {
    path: Vec<String>,
    value: Value,
    /// Where it is, and where each of its parts is if it is a list.
    lines: Vec<usize>,
}

impl std::fmt::Display for Value {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Text(it) => f.write_str(it),
            Self::Number(it) => it.fmt(f),
            Self::Switch(it) => it.fmt(f),
            Self::Texts(it) => f.write_str(&it.join(", ")),
            Self::Numbers(it) => f.write_str(&it.iter().map(i64::to_string).collect::<Vec<_>>().join(", ")),
        }
    }
}

/// One file's settings, each with its place.
#[derive(Debug, Clone, Default)]
pub struct Layer {
    file: PathBuf,
    entries: Vec<Entry>,
}

impl Layer {
    /// Reads `text` and holds it against `keys`.
    ///
    /// # Errors
    /// Everything that is wrong with it; nothing of the file should then be used.
    pub fn parse(file: &Path, text: &str, keys: &[Key]) -> Result<Self, Vec<Complaint>> {
        let (it, unknown) = Self::parse_known(file, text, keys)?;
        if unknown.is_empty() { Ok(it) } else { Err(unknown) }
    }

    /// The same for a file that others read too: keys that are none of ours are handed back beside what is understood.
    ///
    /// # Errors
    /// Everything else that is wrong with it; nothing of the file should then be used.
    pub fn parse_known(file: &Path, text: &str, keys: &[Key]) -> Result<(Self, Vec<Complaint>), Vec<Complaint>> {
        let mut reader = Reader { file, text, keys, entries: Vec::new(), complaints: Vec::new(), unknown: Vec::new() };
        match DeTable::parse(text) {
            Ok(table) => reader.table(&mut Vec::new(), table.get_ref()),
            Err(err) => reader.complain(err.span().map_or(0, |it| it.start), err.message().to_owned(), None),
        }
        if reader.complaints.is_empty() {
            Ok((Self { file: file.to_owned(), entries: reader.entries }, reader.unknown))
        } else {
            // In the order of the file, so that the first to mend comes first.
            reader.complaints.append(&mut reader.unknown);
            reader.complaints.sort_by_key(|it| it.line);
            Err(reader.complaints)
        }
    }

    /// A complaint about the n-th part of the value at a dotted path.
    #[must_use]
    pub fn complaint(&self, path: &str, n: usize, text: String) -> Complaint {
        let entry = self.entries.iter().find(|it| it.path.iter().map(String::as_str).eq(path.split('.')));
        let line = entry.and_then(|it| it.lines.get(n).or(it.lines.first())).copied().unwrap_or(0);
        Complaint { file: self.file.clone(), line, text, hint: None }
    }

    /// The numbers at a dotted path.
    #[must_use]
    pub fn numbers(&self, path: &str) -> &[i64] {
        match self.get(path) {
            Some(Value::Numbers(list)) => list,
            _ => &[],
        }
    }

    /// All values: dotted path, value, and line.
    pub fn all(&self) -> impl Iterator<Item = (String, &Value, usize)> {
        self.entries.iter().map(|it| (it.path.join("."), &it.value, it.lines.first().copied().unwrap_or(0)))
    }

    /// The file it came from.
    #[must_use]
    pub fn file(&self) -> &Path {
        &self.file
    }

    /// The value at a dotted path.
    #[must_use]
    pub fn get(&self, path: &str) -> Option<&Value> {
        self.entries.iter().find(|it| it.path.iter().map(String::as_str).eq(path.split('.'))).map(|it| &it.value)
    }

    /// The text at a dotted path.
    #[must_use]
    pub fn text(&self, path: &str) -> Option<&str> {
        match self.get(path) {
            Some(Value::Text(text)) => Some(text),
            _ => None,
        }
    }

    /// The list at a dotted path.
    #[must_use]
    pub fn texts(&self, path: &str) -> &[String] {
        match self.get(path) {
            Some(Value::Texts(list)) => list,
            _ => &[],
        }
    }

    /// All names and texts right below a dotted path.
    pub fn below<'a>(&'a self, path: &'a str) -> impl Iterator<Item = (&'a str, &'a Value)> {
        self.entries.iter().filter_map(move |it| {
            let (name, above) = it.path.split_last()?;
            above.iter().map(String::as_str).eq(path.split('.')).then_some((name.as_str(), &it.value))
        })
    }

    /// How many tables the array at a dotted path holds.
    #[must_use]
    pub fn len_of(&self, name: &str) -> usize {
        let parts: Vec<&str> = name.split('.').collect();
        let below = |it: &&Entry| it.path.len() > parts.len() && parts.iter().zip(&it.path).all(|(want, it)| want == it);
        let numbers = self.entries.iter().filter(below).filter_map(|it| it.path[parts.len()].parse::<usize>().ok());
        numbers.max().map_or(0, |it| it + 1)
    }
}

struct Reader<'a> {
    file: &'a Path,
    text: &'a str,
    keys: &'a [Key],
    entries: Vec<Entry>,
    complaints: Vec<Complaint>,
    unknown: Vec<Complaint>,
}

impl Reader<'_> {
    fn line(&self, at: usize) -> usize {
        self.text[..at.min(self.text.len())].matches('\n').count() + 1
    }

    fn complain(&mut self, at: usize, text: String, hint: Option<String>) {
        let line = self.line(at);
        self.complaints.push(Complaint { file: self.file.to_owned(), line, text, hint });
    }

    fn table(&mut self, path: &mut Vec<String>, table: &DeTable<'_>) {
        for (name, value) in table {
            path.push(name.get_ref().to_string());
            self.value(path, name.span().start, value);
            path.pop();
        }
    }

    fn value(&mut self, path: &mut Vec<String>, at: usize, value: &Spanned<DeValue<'_>>) {
        let it = value.get_ref();
        if let DeValue::Table(table) = it {
            if self.key_for(path, Match::Prefix).is_none() {
                self.unknown(path, at);
            } else {
                self.table(path, table);
            }
            return;
        }
        let tables = it.as_array().filter(|list| !list.is_empty() && list.iter().all(|it| it.get_ref().is_table()));
        if let Some(list) = tables {
            for (n, entry) in list.iter().enumerate() {
                path.push(n.to_string());
                self.value(path, entry.span().start, entry);
                path.pop();
            }
            return;
        }
        let Some(key) = self.key_for(path, Match::Whole) else { return self.unknown(path, at) };
        match fit(it, key.kind) {
            Some(value) => {
                let parts: Vec<usize> = it.as_array().into_iter().flatten().map(|it| self.line(it.span().start)).collect();
                let lines = if parts.is_empty() { vec![self.line(at)] } else { parts };
                self.entries.push(Entry { path: path.clone(), value, lines });
            }
            None => self.misfit(path, at, it, key.kind),
        }
    }

    fn misfit(&mut self, path: &[String], at: usize, it: &DeValue<'_>, kind: Kind) {
        let wanted = match kind {
            Kind::Text => "a text in quotes".to_owned(),
            Kind::OneOf(words) => format!("one of {}", words.join(", ")),
            Kind::Number => "a whole number".to_owned(),
            Kind::Switch => "true or false".to_owned(),
            Kind::Texts => "a list of texts".to_owned(),
            Kind::Numbers => "a list of whole numbers".to_owned(),
        };
        let near = match (kind, it.as_str()) {
            (Kind::OneOf(words), Some(word)) => nearest(word, words.iter().copied()).map(|it| format!("did you mean \"{it}\"?")),
            _ => None,
        };
        self.complain(at, format!("`{}` must be {wanted}", path.join(".")), near);
    }

    fn unknown(&mut self, path: &[String], at: usize) {
        let name = path.last().cloned().unwrap_or_default();
        let siblings = self.keys.iter().filter_map(|key| {
            let parts: Vec<&str> = key.path.split('.').collect();
            let above = path.len() - 1;
            let fits = parts.len() > above && parts.iter().zip(&path[..above]).all(|(want, it)| *want == "*" || want == it);
            fits.then(|| parts[above])
        });
        let hint = nearest(&name, siblings.filter(|it| *it != "*")).map(|it| format!("did you mean `{it}`?"));
        let (line, text) = (self.line(at), format!("there is no key `{}`", path.join(".")));
        self.unknown.push(Complaint { file: self.file.to_owned(), line, text, hint });
    }

    fn key_for(&self, path: &[String], how: Match) -> Option<Key> {
        self.keys.iter().copied().find(|key| {
            let parts: Vec<&str> = key.path.split('.').collect();
            let long_enough = if how == Match::Whole { parts.len() == path.len() } else { parts.len() > path.len() };
            long_enough && parts.iter().zip(path).all(|(want, it)| *want == "*" || want == it)
        })
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Match {
    Whole,
    Prefix,
}

fn number(it: &DeValue<'_>) -> Option<i64> {
    i64::from_str_radix(it.as_integer()?.as_str(), it.as_integer()?.radix()).ok()
}

fn fit(it: &DeValue<'_>, kind: Kind) -> Option<Value> {
    match kind {
        Kind::Text => Some(Value::Text(it.as_str()?.to_owned())),
        Kind::OneOf(words) => it.as_str().filter(|it| words.contains(it)).map(|it| Value::Text(it.to_owned())),
        Kind::Number => number(it).map(Value::Number),
        Kind::Numbers => it.as_array()?.iter().map(|it| number(it.get_ref())).collect::<Option<Vec<_>>>().map(Value::Numbers),
        Kind::Switch => it.as_bool().map(Value::Switch),
        Kind::Texts => {
            let texts = it.as_array()?.iter().map(|it| it.get_ref().as_str().map(str::to_owned));
            texts.collect::<Option<Vec<_>>>().map(Value::Texts)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEYS: &[Key] = &[
        Key { path: "active", kind: Kind::Text, doc: "" },
        Key { path: "mode", kind: Kind::OneOf(&["manual", "auto"]), doc: "" },
        Key { path: "permissions.tools.*", kind: Kind::OneOf(&["allow", "ask", "deny"]), doc: "" },
        Key { path: "permissions.default", kind: Kind::OneOf(&["allow", "ask", "deny"]), doc: "" },
        Key { path: "provider.*.name", kind: Kind::Text, doc: "" },
        Key { path: "drop", kind: Kind::Texts, doc: "" },
        Key { path: "n", kind: Kind::Number, doc: "" },
    ];

    #[test]
    fn values_are_found() {
        let text = "active = 'a'\nn = 0x10\ndrop = ['X', 'Y']\n[permissions.tools]\nedit_file = 'deny'\n[[provider]]\nname = 'p'\n[[provider]]\nname = 'q'\n";
        let it = Layer::parse(Path::new("f"), text, KEYS).unwrap();
        assert_eq!((it.text("active"), it.get("n"), it.texts("drop").len()), (Some("a"), Some(&Value::Number(16)), 2));
        assert_eq!((it.len_of("provider"), it.text("provider.1.name")), (2, Some("q")));
        assert_eq!(it.below("permissions.tools").collect::<Vec<_>>(), [("edit_file", &Value::Text("deny".into()))]);
    }

    #[test]
    fn complaints_name_place_and_remedy() {
        for (text, want) in [
            ("a = 1\nb = ]", "f:2: "),
            ("\nactve = 'x'", "f:2: there is no key `actve`; did you mean `active`?"),
            ("mode = 'automatic'", "f:1: `mode` must be one of manual, auto"),
            ("mode = 'autp'", "did you mean \"auto\"?"),
            ("active = 1", "f:1: `active` must be a text in quotes"),
            ("[permissions]\ndefalt = 'ask'", "f:2: there is no key `permissions.defalt`; did you mean `default`?"),
            ("[permission]\nx = 1", "f:1: there is no key `permission`; did you mean `permissions`?"),
            ("[[provider]]\nnam = 'x'", "f:2: there is no key `provider.0.nam`; did you mean `name`?"),
            ("active = 'a'\nactive = 'b'", "f:2: duplicate key"),
        ] {
            let said = Layer::parse(Path::new("f"), text, KEYS).unwrap_err()[0].to_string();
            assert!(said.contains(want), "{text:?}: {said}");
        }
    }
}
