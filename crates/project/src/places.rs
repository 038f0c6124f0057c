//! Where sid keeps its things (DESIGN §4), from an environment that somebody else reads.
use std::{
    ffi::OsString,
    path::{Path, PathBuf},
};

/// The folders of a user.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Places {
    /// The configuration root.
    pub config: Option<PathBuf>,
    /// The folder of all sessions.
    pub sessions: Option<PathBuf>,
    /// The list of what is trusted.
    pub trust: Option<PathBuf>,
    /// The folder of build caches.
    pub cache: Option<PathBuf>,
}

impl Places {
    /// Finds them; empty variables count as unset. `None`s: neither a variable nor a home says where.
    #[must_use]
    pub fn of(variable: &dyn Fn(&str) -> Option<OsString>, home: Option<&Path>) -> Self {
        let path = |name: &str| variable(name).filter(|it| !it.is_empty()).map(PathBuf::from);
        let home = home.filter(|it| !it.as_os_str().is_empty());
        let config = path("SID_HOME")
            .or_else(|| path("SIGIT_CONFIG_DIR"))
            .or_else(|| path("XDG_CONFIG_HOME").map(|it| it.join("sid")))
            .or_else(|| home.map(|it| it.join(".config/sid")));
        let sessions = path("SID_SESSIONS")
            .or_else(|| path("SID_HOME").map(|it| it.join("sessions")))
            .or_else(|| path("XDG_STATE_HOME").map(|it| it.join("sid/sessions")))
            .or_else(|| home.map(|it| it.join(".local/state/sid/sessions")))
            .map(|it| std::path::absolute(&it).unwrap_or(it));
        let trust = path("SID_HOME")
            .or_else(|| path("XDG_STATE_HOME").map(|it| it.join("sid")))
            .or_else(|| home.map(|it| it.join(".local/state/sid")))
            .map(|it| it.join("trust.json"));
        let cache = path("XDG_CACHE_HOME").map(|it| it.join("sid")).or_else(|| home.map(|it| it.join(".cache/sid")));
        let whole = |it: PathBuf| std::path::absolute(&it).unwrap_or(it);
        Self { config, sessions, trust: trust.map(whole), cache: cache.map(whole) }
    }

    /// Paths below `root`, relative to it, that hold sid's own configuration and state: protected like the project's.
    #[must_use]
    pub fn below(&self, root: &Path) -> Vec<String> {
        let state = self.trust.as_ref().and_then(|it| it.parent());
        let all = self.config.as_deref().into_iter().chain(state);
        let real = all.map(|it| std::fs::canonicalize(it).or_else(|_| std::path::absolute(it)).unwrap_or_else(|_| it.to_owned()));
        let inside = real.filter_map(|it| Some(it.strip_prefix(root).ok()?.to_string_lossy().into_owned()));
        inside.filter(|it| !it.is_empty()).collect()
    }

    /// The folders of the user's skills, as they really are.
    #[must_use]
    pub fn skills(&self, home: Option<&Path>) -> Vec<PathBuf> {
        let below = home.into_iter().flat_map(|home| [".agents/skills", ".claude/skills", ".codex/skills"].map(|it| home.join(it)));
        let all = below.chain(self.config.iter().map(|it| it.join("skills")));
        all.filter_map(|it| std::fs::canonicalize(it).ok()).collect()
    }

    /// The folder that sid keeps for a workspace between sessions.
    #[must_use]
    pub fn folder(&self, root: &Path) -> Option<PathBuf> {
        let name = root.file_name().map(|it| it.to_string_lossy().replace(|it: char| !it.is_ascii_alphanumeric(), "_"));
        let digest = crate::trust::digest(root.as_os_str().as_encoded_bytes());
        Some(self.cache.as_ref()?.join(format!("{}-{}", name.unwrap_or_default(), &digest[..16])))
    }

    /// Things of sid's own that no tool and no sandboxed command may see: sessions and keys.
    #[must_use]
    pub fn secret(&self) -> Vec<PathBuf> {
        let keys = self.config.iter().flat_map(|it| [it.join("providers.toml"), it.join("credentials.toml")]);
        let all = self.sessions.clone().into_iter().chain(keys).chain(self.trust.clone());
        all.map(|it| std::fs::canonicalize(&it).or_else(|_| std::path::absolute(&it)).unwrap_or(it)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_come_before_the_home() {
        let places = |set: &[(&str, &str)], home: Option<&str>| {
            let find = |name: &str| set.iter().find(|it| it.0 == name).map(|it| OsString::from(it.1));
            let it = Places::of(&find, home.map(Path::new));
            let show = |it: Option<PathBuf>| it.map_or("-".to_owned(), |it| it.display().to_string());
            format!("{} {}", show(it.config), show(it.sessions))
        };
        assert_eq!(places(&[], None), "- -");
        assert_eq!(places(&[("SID_HOME", "")], Some("/h")), "/h/.config/sid /h/.local/state/sid/sessions");
        assert_eq!(places(&[("SID_HOME", "/s"), ("SIGIT_CONFIG_DIR", "/g")], Some("/h")), "/s /s/sessions");
        assert_eq!(places(&[("SIGIT_CONFIG_DIR", "/g"), ("XDG_STATE_HOME", "/x")], None), "/g /x/sid/sessions");
        assert_eq!(places(&[("SID_SESSIONS", "/o"), ("SID_HOME", "/s")], None), "/s /o");
    }
}
