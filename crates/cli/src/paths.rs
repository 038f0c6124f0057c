//! Where sid keeps its things (DESIGN §4).
use std::path::{Path, PathBuf};

/// A variable that is set and not blank.
pub(crate) fn var(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|it| !it.trim().is_empty())
}

fn var_path(name: &str) -> Option<PathBuf> {
    std::env::var_os(name).filter(|it| !it.is_empty()).map(PathBuf::from)
}

fn home() -> Option<PathBuf> {
    std::env::home_dir().filter(|it| !it.as_os_str().is_empty())
}

/// The configuration root.
pub(crate) fn config_root() -> Option<PathBuf> {
    var_path("SID_HOME")
        .or_else(|| var_path("SIGIT_CONFIG_DIR"))
        .or_else(|| var_path("XDG_CONFIG_HOME").map(|it| it.join("sid")))
        .or_else(|| home().map(|it| it.join(".config/sid")))
}

/// The folder of all sessions.
pub(crate) fn sessions_root() -> Option<PathBuf> {
    var_path("SID_SESSIONS")
        .or_else(|| var_path("SID_HOME").map(|it| it.join("sessions")))
        .or_else(|| var_path("XDG_STATE_HOME").map(|it| it.join("sid/sessions")))
        .or_else(|| home().map(|it| it.join(".local/state/sid/sessions")))
        .map(|it| std::path::absolute(&it).unwrap_or(it))
}

/// Things of sid's own that no tool may see: sessions and keys.
pub(crate) fn secret(config: Option<&Path>, sessions: Option<&Path>) -> Vec<PathBuf> {
    let keys = config.into_iter().flat_map(|it| [it.join("providers.toml"), it.join("credentials.toml")]);
    let all = sessions.map(Path::to_path_buf).into_iter().chain(keys);
    all.map(|it| std::fs::canonicalize(&it).or_else(|_| std::path::absolute(&it)).unwrap_or(it)).collect()
}
