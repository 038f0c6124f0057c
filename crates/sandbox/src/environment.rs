//! What a child sees of the environment.
use std::{
    ffi::{CString, OsString},
    fs,
    path::{Path, PathBuf},
};

use sid_policy::{HTTP_DOOR, Network, SOCKS_DOOR};

/// The environment children get: the caller's, without sid's own keys.
#[derive(Debug, Clone, Default)]
pub struct Environment {
    vars: Vec<(OsString, OsString)>,
}

/// Where programs are on every system.
const PROGRAMS: &[&str] = &["/opt/homebrew/bin", "/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"];

/// Places below the home that hold keys, tokens and histories; no program is looked for there.
const SENSITIVE: &[&str] = &[
    ".aws",
    ".azure",
    ".claude",
    ".codex",
    ".config/1Password",
    ".config/gcloud",
    ".config/gh",
    ".config/glab-cli",
    ".config/op",
    ".docker",
    ".gnupg",
    ".kube",
    ".local/share/keyrings",
    ".password-store",
    ".ssh",
    "Library/Keychains",
];

/// Variables that lead programs to a proxy. They are sid's own in a sandbox.
const PROXIES: &[&str] = &["http_proxy", "https_proxy", "all_proxy", "ftp_proxy", "no_proxy"];
/// The same for single tools, which prefer their own.
const TOOL_PROXIES: &[&str] =
    &["npm_config_proxy", "npm_config_https_proxy", "npm_config_noproxy", "pip_proxy", "cargo_http_proxy"];

/// Variables that keep programs on a terminal from drawing on it.
pub(crate) const QUIET: &[(&str, &str)] =
    &[("TERM", "dumb"), ("NO_COLOR", "1"), ("COLORTERM", ""), ("PAGER", "cat"), ("GIT_PAGER", "cat"), ("GH_PAGER", "cat")];

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

    /// Rebuilds `PATH` for a sandbox: absolute, real, and nowhere that commands can write or that holds secrets.
    pub(crate) fn rebuild_path(&mut self, writable: &[PathBuf]) {
        let home = self.get("HOME").map(PathBuf::from).and_then(|it| fs::canonicalize(it).ok());
        let sensitive: Vec<PathBuf> = home.iter().flat_map(|home| SENSITIVE.iter().map(|it| home.join(it))).collect();
        let bad = |dir: &Path| {
            writable.iter().any(|it| dir.starts_with(it))
                || sensitive.iter().any(|it| dir.starts_with(it) || (it.starts_with(dir) && Some(dir) != home.as_deref()))
        };
        let given = self.get("PATH").cloned().unwrap_or_default();
        let mut dirs: Vec<PathBuf> = Vec::new();
        for dir in std::env::split_paths(&given).chain(PROGRAMS.iter().map(PathBuf::from)).filter(|it| it.is_absolute()) {
            let real = fs::canonicalize(dir).ok().filter(|it| it.is_dir() && !bad(it));
            dirs.extend(real.filter(|it| !dirs.contains(it)));
        }
        // A colon in a folder's name has no spelling in PATH.
        dirs.retain(|it| !it.as_os_str().as_encoded_bytes().contains(&b':'));
        if let Ok(path) = std::env::join_paths(dirs) {
            self.set("PATH", path);
        }
    }

    /// Points the proxy variables at the doors of `network`, whatever they were; without a network they are gone.
    pub(crate) fn lead_to(&mut self, network: Option<&Network>) {
        let own = |name: &OsString| {
            let name = name.to_string_lossy().to_ascii_lowercase();
            PROXIES.contains(&name.as_str()) || TOOL_PROXIES.contains(&name.as_str())
        };
        self.vars.retain(|(name, _)| !own(name));
        if network.is_none() {
            return;
        }
        let http = format!("http://127.0.0.1:{HTTP_DOOR}");
        let socks = format!("socks5h://127.0.0.1:{SOCKS_DOOR}");
        let local = "localhost,127.0.0.1,::1";
        for (name, value) in [("http_proxy", &*http), ("https_proxy", &http), ("all_proxy", &socks), ("no_proxy", local)] {
            self.set(name, value);
            self.set(&name.to_ascii_uppercase(), value);
        }
        self.set("NODE_USE_ENV_PROXY", "1");
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
