//! `sid trust`, and what trust gives a run.
use std::{
    io::Write as _,
    path::{Path, PathBuf},
    process::ExitCode,
    time::{SystemTime, UNIX_EPOCH},
};

use sid_project::{Policy, Standing, Trust, Trusted};

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
    let now = |it: &Trusted| Policy::load(&it.root).is_ok_and(|policy| policy.digest == it.digest);
    let line = |it: &Trusted| {
        let state = if now(it) { "" } else { "  (changed since, so not trusted as it is now)" };
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
    let policy = Policy::load(&root).map_err(|all| all.join("\n"))?;
    let Some(file) = policy.file.as_ref().filter(|_| policy.widens()) else {
        return Ok(format!("{} asks for nothing that needs trust\n", root.display()));
    };
    let wanted = policy.network.as_ref().map(asks).unwrap_or_default();
    let (file, at) = (name(file), now());
    let shown = root.join(&file).display().to_string();
    store()?
        .add(Trusted { root, file, digest: policy.digest, at })
        .map_err(|err| format!("what is trusted can't be kept: {err}"))?;
    Ok(format!("trusted: {shown}, until it changes. It lets commands reach:\n{wanted}"))
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

/// What a person is asked before a session in `dir` begins: the words, and what a yes means. `None`: there is nothing to ask.
pub(crate) fn question(dir: &Path) -> Option<(String, impl FnOnce() -> Result<(), String> + use<>)> {
    let root = sid_project::root(dir).ok()?;
    let policy = Policy::load(&root).ok()?;
    let file = policy.file.as_ref().filter(|_| policy.widens())?;
    let store = store().ok().filter(|it| !it.holds(&root, &name(file), &policy.digest))?;
    let wanted = policy.network.as_ref().map(asks).unwrap_or_default();
    let words = format!("{} wants commands to reach:\n{}", file.display(), wanted.trim_end_matches('\n'));
    let trusted = Trusted { root, file: name(file), digest: policy.digest, at: now() };
    let yes = move || {
        let mut store = store;
        store.add(trusted).map_err(|err| format!("what is trusted can't be kept: {err}"))
    };
    Some((words, yes))
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
