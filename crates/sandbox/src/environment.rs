//! What a child sees of the environment.
use std::ffi::{CString, OsString};

/// The environment children get: the caller's, without sid's own keys.
#[derive(Debug, Clone, Default)]
pub struct Environment {
    vars: Vec<(OsString, OsString)>,
}

/// A shorter secret is looked for as a whole value only: its letters are in many harmless ones.
const LONG: usize = 8;

/// Variables that hold keys of models, whatever they are set to.
const KEYS: &[&str] = &["ANTHROPIC_API_KEY", "CLAUDIUS_API_KEY", "OPENAI_API_KEY", "XAI_API_KEY", "ANTHROPIC_AUTH_TOKEN"];
/// Prefixes of variables that steer sid itself.
const OWN: &[&str] = &["SID_", "SIGIT_", "RIG_"];

impl Environment {
    /// Takes the caller's variables; leaves out keys, sid's own settings, and anything that holds one of `secrets`.
    pub fn new(vars: impl IntoIterator<Item = (OsString, OsString)>, secrets: &[String], drop: &[String]) -> Self {
        let keep = |name: &OsString, value: &OsString| {
            let (name, value) = (name.to_string_lossy(), value.to_string_lossy());
            let upper = name.to_ascii_uppercase();
            !KEYS.contains(&upper.as_str())
                && !OWN.iter().any(|it| upper.starts_with(it))
                && !drop.iter().any(|it| *it == name)
                && !secrets.iter().any(|it| value == *it || (it.len() >= LONG && value.contains(it.as_str())))
        };
        Self { vars: vars.into_iter().filter(|(name, value)| keep(name, value)).collect() }
    }

    /// Adds or replaces a variable.
    pub fn set(&mut self, name: &str, value: impl Into<OsString>) {
        self.vars.retain(|(it, _)| it != name);
        self.vars.push((name.into(), value.into()));
    }

    /// All variables.
    pub fn vars(&self) -> impl Iterator<Item = (&OsString, &OsString)> {
        self.vars.iter().map(|(name, value)| (name, value))
    }

    /// One variable.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&OsString> {
        self.vars.iter().find(|(it, _)| it == name).map(|(_, value)| value)
    }
}

/// Overwrites the values of the key variables in this process's own environment block, so that `/proc/PID/environ` does
/// not hold them. Call it once, at start, before any other thread exists, after the values were read.
pub fn scrub() {
    for name in KEYS {
        let Ok(name) = CString::new(*name) else { continue };
        // SAFETY: no other thread exists yet (the caller's promise), so nobody else reads or changes the environment. The
        // pointer is to the NUL-terminated value inside the process's own block, and only bytes before that NUL change.
        unsafe {
            let mut at = libc::getenv(name.as_ptr());
            while !at.is_null() && *at != 0 {
                at.write_volatile(0);
                at = at.add(1);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sc_01_keys_never_reach_a_child() {
        let vars = [
            ("PATH", "/bin"),
            ("OPENAI_API_KEY", "sk-1"),
            ("claudius_api_key", "x"),
            ("SID_MODEL", "m"),
            ("MY_COPY", "Bearer sk-file-1234"),
            ("SHORT", "k"),
            ("WORK", "a k in a word"),
            ("DROP_ME", "1"),
            ("GITHUB_TOKEN", "kept: developer tools need it"),
        ];
        let it =
            Environment::new(vars.map(|(a, b)| (a.into(), b.into())), &["sk-file-1234".into(), "k".into()], &["DROP_ME".into()]);
        let names: Vec<_> = it.vars().map(|(name, _)| name.to_str().unwrap()).collect();
        assert_eq!(names, ["PATH", "WORK", "GITHUB_TOKEN"]);
    }
}
