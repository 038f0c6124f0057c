//! `sid trust`, and what trust gives a run.
use std::{
    io::Write as _,
    path::{Path, PathBuf},
    process::ExitCode,
    time::{SystemTime, UNIX_EPOCH},
};

use sid_project::{
    Policy, Standing, Trust, Trusted,
    setup::{AGENTS, Setup},
};

use crate::{args::TrustCommand, paths::places, say};

pub(crate) fn trust(command: Option<TrustCommand>) -> ExitCode {
    let done = match command.unwrap_or(TrustCommand::List) {
        TrustCommand::List => list(),
        TrustCommand::Add { dir } => add(dir),
        TrustCommand::Revoke { dir } => revoke(dir),
    };
    match done {
        Ok(text) => {
            let _closed = std::io::stdout().write_all(text.as_bytes());
            ExitCode::SUCCESS
        }
        Err(why) => {
            say(&format!("sid: {why}"));
            ExitCode::FAILURE
        }
    }
}

fn store() -> Result<Trust, String> {
    let path = places().trust.ok_or("there is no place for what is trusted: HOME is not set; set SID_HOME to a folder")?;
    Trust::load(path)
}

fn list() -> Result<String, String> {
    let store = store()?;
    let line = |it: &Trusted| {
        let now = if it.file == AGENTS { Setup::digest(&it.root) } else { Policy::load(&it.root).ok().map(|it| it.digest) };
        let state = if now.as_deref() == Some(&it.digest) { "" } else { "  (changed since, so not trusted as it is now)" };
        format!("{}  {}{state}\n", it.root.join(&it.file).display(), &it.digest[..it.digest.len().min(12)])
    };
    let text: String = store.all().iter().map(line).collect();
    Ok(if text.is_empty() { "no workspace is trusted\n".to_owned() } else { text })
}

fn workspace(dir: Option<PathBuf>) -> Result<PathBuf, String> {
    sid_project::root(&dir.unwrap_or_else(|| ".".into()))
}

fn add(dir: Option<PathBuf>) -> Result<String, String> {
    let root = workspace(dir)?;
    Policy::load(&root).map_err(|all| all.join("\n"))?;
    let wishes = wishes(&root);
    if wishes.is_empty() {
        return Ok(format!("{} asks for nothing that needs trust\n", root.display()));
    }
    let mut out = String::new();
    let mut store = store()?;
    for (it, words) in wishes {
        out.push_str(&format!("trusted: {}, until it changes. {words}\n", root.join(&it.file).display()));
        store.add(it).map_err(|err| format!("what is trusted can't be kept: {err}"))?;
    }
    Ok(out)
}

/// What a workspace wants that needs trust: what would be trusted, and what it lets happen.
fn wishes(root: &Path) -> Vec<(Trusted, String)> {
    let mut out = Vec::new();
    let trusted = |file: String, digest: String| Trusted { root: root.to_owned(), file, digest, at: now() };
    if let Ok(policy) = Policy::load(root)
        && policy.widens()
        && let Some(file) = &policy.file
    {
        let wanted = policy.network.as_ref().map(asks).unwrap_or_default();
        let words = format!("It lets commands reach:\n{}", wanted.trim_end_matches('\n'));
        out.push((trusted(name(file), policy.digest.clone()), words));
    }
    if let Some(digest) = rc_digest(root) {
        let words = "It brings agents, and programs as tools and hooks, which sid would run (in its sandbox).".to_owned();
        out.push((trusted(AGENTS.to_owned(), digest), words));
    }
    out
}

/// The digest of a workspace's own rc configuration, where such a one counts: nobody has named another.
fn rc_digest(root: &Path) -> Option<String> {
    if crate::paths::var("SID_HOME").is_some() { None } else { Setup::digest(root) }
}

/// The rc configuration of the workspace, if there is one and it is trusted; else what the person should know.
pub(crate) fn workspace_rc(dir: &Path, trust: Standing) -> (Option<PathBuf>, Option<String>) {
    let Ok(root) = sid_project::root(dir) else { return (None, None) };
    let Some(digest) = rc_digest(&root) else { return (None, None) };
    let holds = trust == Standing::Trusted || store().is_ok_and(|it| it.holds(&root, AGENTS, &digest));
    let hint = "look at it, then `sid trust add` (until it changes) or --trust (this run), or name it: SID_HOME=.";
    let said = || format!("{} has agents and tools of its own and is not trusted, so they are not used; {hint}", root.display());
    if holds { (Some(root), None) } else { (None, Some(said())) }
}

fn revoke(dir: Option<PathBuf>) -> Result<String, String> {
    // A workspace that is gone can be revoked too.
    let dir = dir.unwrap_or_else(|| ".".into());
    let root =
        std::fs::canonicalize(&dir).or_else(|_| std::path::absolute(&dir)).map_err(|err| format!("{}: {err}", dir.display()))?;
    let gone = store()?.revoke(&root).map_err(|err| format!("what is trusted can't be kept: {err}"))?;
    Ok(if gone == 0 {
        format!("{} was not trusted\n", root.display())
    } else {
        format!("{} is no longer trusted\n", root.display())
    })
}

fn name(file: &Path) -> String {
    file.file_name().map(|it| it.to_string_lossy().into_owned()).unwrap_or_default()
}

/// What a table asks for, a line each.
fn asks(it: &sid_policy::Network) -> String {
    let ports: Vec<String> = it.ports.iter().map(u16::to_string).collect();
    let domains = it.allow.iter().map(|it| match it {
        sid_policy::Pattern::Is(host) => host.to_string(),
        sid_policy::Pattern::Below(name) => format!("*.{name}"),
    });
    let domains = domains.map(|it| format!("  {it} (port {})\n", ports.join(", ")));
    domains.chain(it.loopback.iter().map(|it| format!("  127.0.0.1:{it}\n"))).collect()
}

/// What a person is asked before a session in `dir` begins: the words, and what a yes would trust.
pub(crate) fn questions(dir: &Path) -> Vec<(String, Trusted)> {
    let (Ok(root), Ok(store)) = (sid_project::root(dir), store()) else { return Vec::new() };
    let open = wishes(&root).into_iter().filter(|(it, _)| !store.holds(&it.root, &it.file, &it.digest));
    open.map(|(it, words)| (format!("{} asks for trust. {words}", root.join(&it.file).display()), it)).collect()
}

/// From now on this is trusted.
pub(crate) fn keep(it: Trusted) -> Result<(), String> {
    store()?.add(it).map_err(|err| format!("what is trusted can't be kept: {err}"))
}

/// Whether what a policy asks for beyond the user's settings counts, and what the person should know if it does not.
pub(crate) fn standing(policy: &Policy, root: &Path) -> (Standing, Option<String>) {
    let Some(file) = policy.file.as_ref().filter(|_| policy.widens()) else { return (Standing::Untrusted, None) };
    match store() {
        Ok(store) if store.holds(root, &name(file), &policy.digest) => (Standing::Trusted, None),
        Ok(_) => {
            let file = file.display();
            let hint = "look at it, then `sid trust add` (until it changes) or --trust (this run)";
            (
                Standing::Untrusted,
                Some(format!("{file} asks for network access and is not trusted, so commands do not get it; {hint}")),
            )
        }
        Err(why) => (Standing::Untrusted, Some(format!("nothing is trusted: {why}"))),
    }
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |it| u64::try_from(it.as_millis()).unwrap_or(u64::MAX))
}
