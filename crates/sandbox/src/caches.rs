//! Build caches of a workspace: commands in the sandbox write to these instead of the user's own, which stay read-only. What
//! the user's own hold already is found where the tool has a way for that.
use std::{
    fs, io,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
};

use crate::environment::Environment;

/// Variables that lead tools to folders below the cache folder.
const FOLDERS: &[(&str, &str)] = &[
    ("BUNDLE_USER_CACHE", "bundle"),
    ("BUN_INSTALL_CACHE_DIR", "bun"),
    ("CARGO_HOME", "cargo"),
    ("CCACHE_DIR", "ccache"),
    ("COMPOSER_CACHE_DIR", "composer"),
    ("DENO_DIR", "deno"),
    ("GOCACHE", "go-build"),
    ("GOMODCACHE", "go-mod"),
    ("NUGET_PACKAGES", "nuget"),
    ("PIP_CACHE_DIR", "pip"),
    ("PYTHONUSERBASE", "python"),
    ("UV_CACHE_DIR", "uv"),
    ("XDG_CACHE_HOME", "xdg"),
    ("YARN_CACHE_FOLDER", "yarn"),
    ("npm_config_cache", "npm"),
];

/// Where Go asks when nobody says.
const GOPROXY: &str = "https://proxy.golang.org,direct";

/// Makes the folders, lets them see what the user's own caches hold, and points `env` at them. A variable that leads into one
/// of `writable` already is left as it is.
///
/// # Errors
/// The folder can't be made.
pub(crate) fn redirect(env: &mut Environment, folder: &Path, writable: &[PathBuf]) -> io::Result<()> {
    let real = |name: &str, below: &str| {
        let set = env.get(name).filter(|it| !it.is_empty()).map(PathBuf::from);
        set.or_else(|| env.get("HOME").map(|it| Path::new(it).join(below)))
    };
    let (cargo, python) = (real("CARGO_HOME", ".cargo"), real("PYTHONUSERBASE", ".local"));
    let go = real("GOMODCACHE", "go/pkg/mod").map(|it| it.join("cache/download")).filter(|it| it.is_dir());
    fs::create_dir_all(folder)?;
    for (name, below) in FOLDERS {
        let ours = env.get(name).is_some_and(|it| writable.iter().any(|root| Path::new(it).starts_with(root)));
        if ours {
            continue;
        }
        let to = folder.join(below);
        fs::create_dir_all(&to)?;
        match (*name, &cargo, &python) {
            // What can't be seeded is fetched again.
            ("CARGO_HOME", Some(from), _) => drop(seed_cargo(from, &to)),
            ("PYTHONUSERBASE", _, Some(from)) => drop(seed_python(from, &to)),
            _ => {}
        }
        env.set(name, to);
    }
    if let Some(go) = go {
        let asked = env.get("GOPROXY").map_or(GOPROXY.to_owned(), |it| it.to_string_lossy().into_owned());
        env.set("GOPROXY", format!("file://{},{asked}", go.display()));
    }
    Ok(())
}

/// Version managers (pyenv, rbenv, asdf, …) rewrite their folder of shims after an install, and fail if they can't. Commands get
/// a copy of each such folder in `PATH`, to lie over the real one: pairs of copy and place.
pub(crate) fn shims(env: &Environment, folder: &Path) -> Vec<(PathBuf, PathBuf)> {
    let path = env.get("PATH").cloned().unwrap_or_default();
    let kept = |it: &PathBuf| ["versions", "installs"].iter().any(|beside| it.with_file_name(beside).is_dir());
    let all = std::env::split_paths(&path).filter(|it| it.ends_with("shims") && kept(it));
    all.enumerate()
        .filter_map(|(n, place)| {
            let ours = folder.join(format!("shims-{n}"));
            copy(&place, &ours).ok()?;
            Some((ours, place))
        })
        .collect()
}

/// Cargo finds the user's packages and settings through links, never the user's tokens. The index is copied: Cargo rewrites it.
fn seed_cargo(from: &Path, to: &Path) -> io::Result<()> {
    for name in ["config.toml", "config"] {
        link(&from.join(name), &to.join(name))?;
    }
    for kind in ["registry/cache", "registry/src", "git/db", "git/checkouts"] {
        let flat = kind.starts_with("git");
        for registry in entries(&from.join(kind)) {
            let at = to.join(kind).join(registry.file_name());
            if flat {
                link(&registry.path(), &at)?;
                continue;
            }
            for package in entries(&registry.path()) {
                link(&package.path(), &at.join(package.file_name()))?;
            }
        }
    }
    for registry in entries(&from.join("registry/index")) {
        copy(&registry.path(), &to.join("registry/index").join(registry.file_name()))?;
    }
    Ok(())
}

/// The user's own packages stay importable: a path file names them.
fn seed_python(from: &Path, to: &Path) -> io::Result<()> {
    for version in entries(&from.join("lib")) {
        let theirs = version.path().join("site-packages");
        let ours = to.join("lib").join(version.file_name()).join("site-packages");
        if theirs.is_dir() && !ours.join("user.pth").exists() {
            fs::create_dir_all(&ours)?;
            fs::write(ours.join("user.pth"), format!("{}\n", theirs.display()))?;
        }
    }
    Ok(())
}

fn entries(dir: &Path) -> impl Iterator<Item = fs::DirEntry> {
    fs::read_dir(dir).into_iter().flatten().filter_map(Result::ok)
}

fn link(target: &Path, at: &Path) -> io::Result<()> {
    if !target.exists() || at.symlink_metadata().is_ok() {
        return Ok(());
    }
    if let Some(parent) = at.parent() {
        fs::create_dir_all(parent)?;
    }
    symlink(target, at)
}

/// Copies what is newer there than here.
fn copy(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in entries(from) {
        let (kind, at) = (entry.file_type()?, to.join(entry.file_name()));
        if kind.is_dir() {
            copy(&entry.path(), &at)?;
        } else if kind.is_file() {
            let theirs = entry.metadata()?.modified()?;
            if !at.metadata().and_then(|it| it.modified()).is_ok_and(|ours| ours >= theirs) {
                fs::copy(entry.path(), &at)?;
            }
        }
    }
    Ok(())
}
