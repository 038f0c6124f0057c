//! `sid config check`: everything that is wrong with the configuration, at once.
use std::{io::Write as _, process::ExitCode};

use sid_config::Complaint;
use sid_project::setup::Setup;

use crate::{args::ConfigCommand, paths::places, settings::Settings};

pub(crate) fn config(command: &ConfigCommand) -> ExitCode {
    let ConfigCommand::Check = command;
    let mut wrong = Vec::new();
    let mut out = String::new();
    match places().config {
        None => out.push_str("HOME is not set, so there is no configuration\n"),
        Some(root) => {
            wrong.extend(Settings::load(Some(&root)).err().into_iter().flatten());
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
