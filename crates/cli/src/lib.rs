//! `sid`: argv, the composition root, the headless printer, subcommands. The only place that reads the environment; nothing
//! is decided here.
mod agents;
mod args;
mod changes;
mod commands;
mod config;
mod demo;
mod doctor;
mod export;
mod init;
mod line;
mod network;
mod paint;
mod paths;
mod print;
mod reference;
mod run;
mod sessions;
mod settings;
mod signals;
mod trust;

use std::{
    ffi::OsString,
    io::{IsTerminal as _, Write as _},
    process::ExitCode,
};

use clap::{CommandFactory as _, Parser as _, error::ErrorKind};

use args::{Cli, Command};

/// Wrong arguments or directories.
const USAGE: u8 = 2;
/// A command line that does not parse, headless runs apart.
const NOT_PARSED: u8 = 64;

/// Runs the program: parses argv, does what it says, returns the exit code.
#[must_use]
pub fn main() -> ExitCode {
    let given = args::spelled(std::env::args_os().collect());
    let cli = match Cli::try_parse_from(&given) {
        Ok(it) => it,
        Err(err) => return refuse(&err, &given),
    };
    match cli.command {
        Some(Command::Run(it)) => run::run(it.positional, it.prompt, &it.run),
        Some(Command::Demo(it)) => demo::demo(&it),
        Some(Command::Doctor) => doctor::doctor(),
        Some(Command::Sessions(it)) => sessions::sessions(it.command),
        Some(Command::Init { dir }) => init::init(dir),
        Some(Command::Config { key }) => config::config(key.as_deref()),
        Some(Command::Network { command }) => network::network(&command),
        Some(Command::Trust { command }) => trust::trust(command),
        Some(Command::Completions { shell }) => {
            clap_complete::generate(shell, &mut Cli::command(), "sid", &mut std::io::stdout());
            ExitCode::SUCCESS
        }
        Some(Command::Reference { page }) => {
            let text = if page.as_deref() == Some("rc") { reference::rc() } else { reference::reference() };
            let _closed = std::io::stdout().write_all(text.as_bytes());
            ExitCode::SUCCESS
        }
        Some(Command::Man { dir }) => man(&dir),
        None if !cli.prompt.is_empty() => run::run(None, cli.prompt, &cli.run),
        None if cli.bash_debug.is_some() => line::bash_debug(&cli.run, &cli.params, cli.bash_debug.as_deref().unwrap_or_default()),
        None if cli.plain || std::io::stdin().is_terminal() => line::line(&cli.run, &cli.params),
        None => {
            say(
                "sid: the editor front end is not part of this build; give a prompt (sid run PROMPT), or talk line by line (sid --plain)",
            );
            ExitCode::from(NOT_PARSED)
        }
    }
}

/// Help and version go to stdout; everything else that clap says is a mistake in the arguments.
fn refuse(err: &clap::Error, given: &[OsString]) -> ExitCode {
    if matches!(err.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) {
        let _closed = err.print();
        return ExitCode::SUCCESS;
    }
    let text = err.to_string();
    let text = text.strip_prefix("error: ").unwrap_or(&text);
    say(&format!("sid: {}", text.trim_end()));
    let headless = given.get(1).is_some_and(|it| it == "run") || given.iter().any(|it| it == "-p" || it == "--prompt");
    ExitCode::from(if headless { USAGE } else { NOT_PARSED })
}

/// One sentence for the person; a closed stderr is no reason to fail.
fn say(text: &str) {
    let _closed = writeln!(std::io::stderr(), "{}", sid_core::inert(text));
}

fn man(dir: &std::path::Path) -> ExitCode {
    let done = std::fs::create_dir_all(dir).and_then(|()| clap_mangen::generate_to(Cli::command(), dir));
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(err) => {
            say(&format!("sid: {}: {err}", dir.display()));
            ExitCode::FAILURE
        }
    }
}
