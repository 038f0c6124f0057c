//! One grammar for variables: `$V`, `${V}`, `${V:-default}`, `${V:+instead}`, `${V:?complaint}`, and `$$` for a dollar.
use std::{iter::Peekable, str::Chars};

/// Variables within variables.
const DEPTH: usize = 128;

/// Expands `text`. A variable that nobody knows is empty; one that is set to nothing counts as set.
///
/// # Errors
/// What is wrong, as the rest of a sentence.
pub fn expand(text: &str, lookup: &dyn Fn(&str) -> Option<String>) -> Result<String, String> {
    Expander { lookup, open: Vec::new() }.text(text)
}

struct Expander<'a> {
    lookup: &'a dyn Fn(&str) -> Option<String>,
    /// Variables being expanded: one within itself is empty.
    open: Vec<String>,
}

impl Expander<'_> {
    fn text(&mut self, text: &str) -> Result<String, String> {
        let mut chars = text.chars().peekable();
        let mut out = String::new();
        while let Some(it) = chars.next() {
            if it != '$' {
                out.push(it);
                continue;
            }
            match chars.peek() {
                Some('$') => {
                    chars.next();
                    out.push('$');
                }
                Some('{') => {
                    chars.next();
                    out.push_str(&self.braces(&mut chars)?);
                }
                Some(it) if is_first(*it) => {
                    let name = name(&mut chars);
                    out.push_str(&self.variable(&name)?.unwrap_or_default());
                }
                _ => out.push('$'),
            }
        }
        Ok(out)
    }

    fn braces(&mut self, chars: &mut Peekable<Chars<'_>>) -> Result<String, String> {
        let name = name(chars);
        if name.is_empty() {
            return Err("`${` is not followed by the name of a variable".to_owned());
        }
        match chars.next() {
            Some('}') => Ok(self.variable(&name)?.unwrap_or_default()),
            Some(':') => {
                let how = chars.next();
                let rest = inside(chars).ok_or(format!("`${{{name}:` is not closed"))?;
                let value = self.variable(&name)?;
                match (how, value) {
                    (Some('-'), Some(value)) => Ok(value),
                    (Some('-'), None) => self.text(&rest),
                    (Some('+'), Some(_)) => self.text(&rest),
                    (Some('+'), None) => Ok(String::new()),
                    (Some('?'), Some(value)) => Ok(value),
                    (Some('?'), None) => Err(format!("`{name}` is not set: {}", self.text(&rest)?)),
                    _ => Err(format!("`${{{name}:` must go on with -, + or ?")),
                }
            }
            Some(it) => Err(format!("`{}` in the name of a variable", it.escape_debug())),
            None => Err(format!("`${{{name}` is not closed")),
        }
    }

    fn variable(&mut self, name: &str) -> Result<Option<String>, String> {
        if self.open.iter().any(|it| it == name) {
            return Ok(None);
        }
        if self.open.len() >= DEPTH {
            return Err(format!("`{name}` is nested too deeply"));
        }
        let Some(value) = (self.lookup)(name) else { return Ok(None) };
        self.open.push(name.to_owned());
        let value = self.text(&value);
        self.open.pop();
        value.map(Some)
    }
}

fn is_first(it: char) -> bool {
    it.is_ascii_alphabetic() || it == '_'
}

fn name(chars: &mut Peekable<Chars<'_>>) -> String {
    let mut out = String::new();
    while let Some(it) = chars.next_if(|it| it.is_ascii_alphanumeric() && (!out.is_empty() || is_first(*it)) || *it == '_') {
        out.push(it);
    }
    out
}

/// Up to the brace that closes, with pairs within.
fn inside(chars: &mut Peekable<Chars<'_>>) -> Option<String> {
    let mut out = String::new();
    let mut depth = 0;
    loop {
        match chars.next()? {
            '}' if depth == 0 => return Some(out),
            it => {
                depth += usize::from(it == '{');
                depth -= usize::from(it == '}');
                out.push(it);
            }
        }
    }
}
