//! `sid config`: what is in force and where it comes from, what a key does, and everything that is wrong.
use std::{io::Write as _, path::Path, process::ExitCode};

use sid_config::Complaint;
use sid_project::setup::{AGENT_FIELDS, Field, InForce, SERVICE_FIELDS, Setup, TOOL_FIELDS};

use crate::{
    paths::{places, var},
    settings::{PROVIDERS, SETTINGS, Settings, in_force},
};

pub(crate) fn config(key: Option<&str>) -> ExitCode {
    match key {
        Some("check") => check(),
        other => show(other),
    }
}

/// Variables that count, and what they do.
const VARIABLES: &[(&str, &str)] = &[
    ("SID_HOME", "the configuration root"),
    ("SIGIT_CONFIG_DIR", "the configuration root, after SID_HOME"),
    ("SID_SESSIONS", "where sessions are kept"),
    ("SID_SKILLS_PATH", "folders of skills, joined by :"),
    ("SID_MODEL", "the model when none is named"),
    ("SIGIT_MODEL", "the same, after SID_MODEL"),
    ("SID_MAX_TOOL_ROUNDS", "rounds of tool calls"),
    ("SIGIT_MAX_TOOL_ROUNDS", "the same, before it"),
    ("SIGIT_PERMISSIONS", "what happens to tools that change something: allow, ask or deny"),
    ("SID_KEEP_TOOL_SCRATCH", "keep the folders of calls of programs"),
    ("SID_KEEP_FAILED_TOOL_SCRATCH", "the same, of those that failed"),
    ("AGENTS_MD_PATH", "files for agents, joined by :"),
    ("ANTHROPIC_BASE_URL", "where Messages are sent"),
    ("OPENAI_BASE_URL", "where Chat Completions are asked for"),
];

/// Everything in force, or one key.
fn show(key: Option<&str>) -> ExitCode {
    let root = places().config;
    let mut all: Vec<InForce> = VARIABLES
        .iter()
        .filter_map(|(name, doc)| {
            let (name, value) = ((*name).to_owned(), var(name)?);
            Some(InForce { name, value, origin: "the environment".to_owned(), doc: Some(doc) })
        })
        .collect();
    let wrong = match root.as_deref().map(|root| gather(root, &mut all)).transpose() {
        Ok(_) => Vec::new(),
        Err(it) => it,
    };
    let mut out = String::new();
    let found = match key {
        None => {
            out.push_str(&format!("configuration: {}\n", root.as_deref().map_or("none".into(), |it| it.display().to_string())));
            all.iter().for_each(|it| out.push_str(&row(it)));
            true
        }
        Some(key) => explain(key, &all, &mut out),
    };
    wrong.iter().for_each(|it| out.push_str(&format!("{it}\n")));
    let _closed = std::io::stdout().write_all(sid_core::inert(&out).as_bytes());
    if found && wrong.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// The rc configuration of this directory, if it is trusted.
fn own() -> Option<std::path::PathBuf> {
    crate::trust::workspace_rc(Path::new("."), sid_project::Standing::Untrusted).0
}

fn row(it: &InForce) -> String {
    format!("{} = {:?}  ({})\n", it.name, it.value, it.origin)
}

/// What the files say; else all that is wrong with them.
fn gather(root: &Path, all: &mut Vec<InForce>) -> Result<(), Vec<String>> {
    let mut wrong = Vec::new();
    match in_force(root) {
        Ok(it) => all.extend(it),
        Err(it) => wrong.extend(it),
    }
    let own = own();
    match Setup::load(own.as_deref().unwrap_or(root), &|name| std::env::var(name).ok()) {
        Ok(it) => all.extend(it.iter().flat_map(|it| it.in_force(&|name| std::env::var(name).ok()))),
        Err(it) => wrong.extend(it.iter().map(Complaint::to_string)),
    }
    if wrong.is_empty() { Ok(()) } else { Err(wrong) }
}

/// What a key does, and what it is now. `false`: there is none.
fn explain(key: &str, all: &[InForce], out: &mut String) -> bool {
    let ends = |name: &str, field: &Field| name == field.name || name.ends_with(&format!("_{}", field.name));
    let fields = SERVICE_FIELDS.iter().chain(AGENT_FIELDS).chain(TOOL_FIELDS);
    // The longest: NAME is no part of a field that only ends like it.
    let field = fields.filter(|it| ends(key, it)).max_by_key(|it| it.name.len());
    let keys = SETTINGS.iter().chain(sid_project::NETWORK).chain(PROVIDERS);
    let setting = keys.clone().find(|it| same_path(it.path, key));
    let variable = VARIABLES.iter().find(|it| it.0 == key);
    match (variable, setting, field) {
        (Some((name, doc)), ..) => out.push_str(&format!("{name}: {doc}\n")),
        (_, Some(it), _) => out.push_str(&format!("{}: {}\n", it.path, it.doc)),
        (.., Some(it)) => out.push_str(&format!("{}: {}\nit can be: {}\nif absent: {}\n", it.name, it.doc, it.value, it.default)),
        _ => {
            out.push_str(&format!("there is no key `{key}`\n"));
            return false;
        }
    }
    let now: Vec<&InForce> =
        all.iter().filter(|it| it.name == key || field.is_some_and(|field| key == field.name && ends(&it.name, field))).collect();
    if now.is_empty() {
        out.push_str("it is not set\n");
    }
    now.into_iter().for_each(|it| out.push_str(&row(it)));
    true
}

/// Whether a path is one that a key stands for; `*` is any part.
fn same_path(key: &str, path: &str) -> bool {
    let (key, path): (Vec<&str>, Vec<&str>) = (key.split('.').collect(), path.split('.').collect());
    key.len() == path.len() && key.iter().zip(path).all(|(key, part)| *key == "*" || *key == part)
}

fn check() -> ExitCode {
    let mut wrong = Vec::new();
    let mut out = String::new();
    match places().config {
        None => out.push_str("HOME is not set, so there is no configuration\n"),
        Some(root) => {
            wrong.extend(Settings::load(Some(&root)).err().into_iter().flatten());
            let root = own().unwrap_or(root);
            match Setup::load(&root, &|name| std::env::var(name).ok()) {
                Err(all) => wrong.extend(all.iter().map(Complaint::to_string)),
                Ok(None) => out.push_str(&format!("{}: no agents.conf and no tools.conf\n", root.display())),
                Ok(Some(setup)) => {
                    let names = |all: Vec<&str>| if all.is_empty() { "none".to_owned() } else { all.join(", ") };
                    out.push_str(&format!("{}\n", setup.root.display()));
                    out.push_str(&format!("agents: {}\n", names(setup.agents.iter().map(|it| it.id.as_str()).collect())));
                    out.push_str(&format!("tools: {}\n", names(setup.tools.iter().map(|it| it.id.as_str()).collect())));
                    if let Ok(agent) = setup.agent(None) {
                        out.push_str(&format!("starts with: {}\n", agent.id));
                    }
                }
            }
        }
    }
    for it in &wrong {
        out.push_str(&format!("{it}\n"));
    }
    let _closed = std::io::stdout().write_all(sid_core::inert(&out).as_bytes());
    if wrong.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
