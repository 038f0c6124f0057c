//! `sid doctor`: what sid needs, whether it is there, and what to do if not.
use std::{
    io::{IsTerminal as _, Write as _},
    process::ExitCode,
    time::Duration,
};

use sid_journal::Store;
use sid_provider::{Resolved, resolve};
use sid_sandbox::{Environment, Host};

use crate::{
    paths::places,
    settings::{Settings, env},
};

enum Finding {
    Good(String),
    Note(String),
    Bad(String),
}

pub(crate) fn doctor() -> ExitCode {
    let findings = [
        ("sandbox", sandbox()),
        ("docker", docker()),
        ("network", network()),
        ("config", config()),
        ("model", model()),
        ("sessions", sessions()),
        ("terminal", terminal()),
    ];
    let mut bad = false;
    let mut out = std::io::stdout().lock();
    for (name, finding) in findings {
        let (mark, text) = match finding {
            Finding::Good(text) => ("ok  ", text),
            Finding::Note(text) => ("note", text),
            Finding::Bad(text) => {
                bad = true;
                ("FIX ", text)
            }
        };
        let _closed = writeln!(out, "{mark}  {name:<9} {text}");
    }
    if bad { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

fn sandbox() -> Finding {
    let host = Host::new(Environment::new(std::env::vars_os(), &[], &[]), std::env::temp_dir());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let probed = runtime.map_err(|err| err.to_string()).and_then(|it| it.block_on(host.probe(Duration::from_secs(10))));
    match probed {
        Ok(version) => Finding::Good(format!("{version}: a command runs in it, without network and without capabilities")),
        Err(why) => Finding::Bad(why),
    }
}

/// The container that the settings ask for, tried as a session would.
fn docker() -> Finding {
    let asked = Settings::load(places().config.as_deref()).ok().and_then(|it| it.docker);
    let Some(settings) = asked else {
        return Finding::Note("commands run on this machine; `[docker]` in settings.toml is not set".to_owned());
    };
    let root = std::env::current_dir().and_then(std::fs::canonicalize);
    let tried = root.map_err(|err| err.to_string()).and_then(|root| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(|err| err.to_string())?;
        let host = Host::new(Environment::new(std::env::vars_os(), &[], &[]), std::env::temp_dir());
        runtime.block_on(async {
            let host = host.with_docker(&settings, &[root], &format!("doctor-{}", std::process::id())).await?;
            host.shut_down(Duration::ZERO).await;
            Ok(())
        })
    });
    match tried {
        Ok(()) => Finding::Good("a restricted command runs in the container, with `bwrap` and `socat`".to_owned()),
        Err(why) => Finding::Bad(why),
    }
}

/// What commands of this directory reach.
fn network() -> Finding {
    let Ok(settings) = Settings::load(places().config.as_deref()) else {
        return Finding::Bad("the configuration has to be mended first".to_owned());
    };
    let root = std::env::current_dir().and_then(std::fs::canonicalize).unwrap_or_default();
    let policy = match sid_project::Policy::load(&root) {
        Ok(it) => it,
        Err(all) => return Finding::Bad(all.join("; ")),
    };
    let (standing, hint) = crate::trust::standing(&policy, &root);
    let network = policy.reach(&settings.network, standing);
    match (network.is_closed(), hint) {
        (_, Some(hint)) => Finding::Note(hint),
        (true, None) => Finding::Good("commands have none".to_owned()),
        (false, None) => Finding::Good(format!(
            "commands reach {} patterns of domains and {} ports of this machine, through sid's proxy",
            network.allow.len(),
            network.loopback.len()
        )),
    }
}

fn config() -> Finding {
    let Some(root) = places().config else { return Finding::Note("HOME is not set, so there is no configuration".to_owned()) };
    match Settings::load(Some(&root)) {
        Ok(_) if root.is_dir() => Finding::Good(root.display().to_string()),
        Ok(_) => Finding::Good(format!("{} does not exist; defaults are used", root.display())),
        Err(all) => Finding::Bad(all.join("; ")),
    }
}

fn model() -> Finding {
    let env = match env() {
        Ok(it) => it,
        Err(why) => return Finding::Bad(why),
    };
    let Ok(settings) = Settings::load(places().config.as_deref()) else {
        return Finding::Bad("the configuration has to be mended first".to_owned());
    };
    match resolve(None, &env, &settings.profiles) {
        Ok(Resolved::Endpoint(it)) => {
            let name = if it.model.is_empty() { "its first model" } else { &it.model };
            let key = if it.key.is_some() { format!("key from {}", it.key_source) } else { "no key".to_owned() };
            Finding::Good(format!("{name} at {} ({key}; not tried)", it.host()))
        }
        Ok(Resolved::Replay(path)) => Finding::Note(format!("a recording: {}", path.display())),
        Err(it) => Finding::Bad(it.0),
    }
}

fn sessions() -> Finding {
    let Some(root) = places().sessions else { return Finding::Bad("HOME is not set; set SID_SESSIONS to a folder".to_owned()) };
    let store = Store::new(root);
    match store.can_write() {
        Ok(()) => Finding::Good(store.root().display().to_string()),
        Err(err) => Finding::Bad(format!("{err}; set SID_SESSIONS to a folder that can be written")),
    }
}

fn terminal() -> Finding {
    if std::io::stdout().is_terminal() {
        Finding::Good(crate::paths::var("TERM").unwrap_or_else(|| "TERM is not set".to_owned()))
    } else {
        Finding::Note("stdout is not a terminal; `sid run` does not need one".to_owned())
    }
}
