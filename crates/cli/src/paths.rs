//! The environment, as far as it names places.
use sid_project::Places;

/// A variable that is set and not blank.
pub(crate) fn var(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|it| !it.trim().is_empty())
}

/// Where sid keeps its things.
pub(crate) fn places() -> Places {
    Places::of(&|name| std::env::var_os(name), std::env::home_dir().as_deref())
}
