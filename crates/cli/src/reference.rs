//! `sid reference`: everything that can be looked up, from the tables that the program itself uses. `cargo xtask docs` keeps it
//! as `docs/reference.md`.
use std::fmt::Write as _;

use clap::CommandFactory as _;
use sid_config::{Key, Kind};
use sid_project::setup::{AGENT_FIELDS, BUILTIN, SERVICE_FIELDS, TOOL_FIELDS};

use crate::{
    args::Cli,
    settings::{PROVIDERS, SETTINGS},
};

pub(crate) fn reference() -> String {
    let mut out = String::from(
        "# Reference\n\nMade by `cargo xtask docs` from the program; a test fails when it is not current.\n\n## Commands\n",
    );
    let mut command = Cli::command().term_width(100);
    command.build();
    help(&mut out, &mut command);
    out.push_str("\n## `settings.toml`\n\n");
    keys(&mut out, &[SETTINGS, sid_project::NETWORK].concat());
    out.push_str("\n## `sid.toml` of a workspace\n\nThe first of `sid.toml`, `rig.toml`, `happy.toml` that is not empty.\n\n");
    keys(&mut out, &[sid_project::POLICY, sid_project::NETWORK].concat());
    out.push_str("\n## `providers.toml`\n\n");
    keys(&mut out, PROVIDERS);
    out.push_str(
        "\n## Tools of the `sigit` surface\n\nName, operation for `--allow-tool` and `--deny-tool`, and what the model is told.\n",
    );
    let view = sid_tools::View { cwd: "/".into(), places: Vec::new(), skills: Vec::new() };
    for tool in sid_tools::sigit() {
        describe(&mut out, tool.as_ref(), &view);
    }
    out.push_str("\n## Shells of other families\n\nBy the key `tools.shells` they take the place of `run_command`, `command_output` and `kill_command`.\n");
    for (_, shells) in sid_tools::Shells::ALL.into_iter().filter(|it| it.1 != sid_tools::Shells::Sigit) {
        for tool in shells.tools() {
            describe(&mut out, tool.as_ref(), &view);
        }
    }
    out
}

/// The page of rc files.
pub(crate) fn rc() -> String {
    let mut out = String::from(
        "# rc files\n\nMade by `cargo xtask docs` from the tables that the program itself uses; a test fails when it is not current. What it is all for \
         is in [the manual](manual.md).\n\nA field of a service `x` is the variable `x_FIELD`; `FIELD` alone is the default of all services of the file.\n",
    );
    let parts = [("Every service", SERVICE_FIELDS), ("Agents: `agents.conf`", AGENT_FIELDS), ("Tools: `tools.conf`", TOOL_FIELDS)];
    for (head, fields) in parts {
        let _infallible = write!(out, "\n## {head}\n\n| field | value | if absent | what it does |\n| --- | --- | --- | --- |\n");
        for it in fields {
            let _infallible = writeln!(out, "| `{}` | {} | {} | {} |", it.name, it.value, it.default, it.doc);
        }
    }
    out.push_str("\nOther fields of a tool are its own: a program finds them under its prefix.\n\n## Built-in tools\n\nName, operation, and what the model is told.\n");
    let view = sid_tools::View { cwd: "/".into(), places: Vec::new(), skills: Vec::new() };
    describe(&mut out, &sid_tools::Bash { timeout: None }, &view);
    for tool in BUILTIN.iter().filter_map(|it| sid_tools::built_in(it)) {
        describe(&mut out, tool.as_ref(), &view);
    }
    out.push_str("\n## Commands at the prompt\n\n| command | |\n| --- | --- |\n");
    for (name, what) in crate::commands::COMMANDS {
        let _infallible = writeln!(out, "| `{}` | {what} |", name.replace('|', "\\|"));
    }
    out
}

fn describe(out: &mut String, tool: &dyn sid_tools::Tool, view: &sid_tools::View) {
    {
        let operation = operation(tool, view).unwrap_or("?");
        let _infallible =
            write!(out, "\n### `{}` ({operation})\n\n{}\n\n```json\n{}\n```\n", tool.name(), tool.description(), tool.schema());
    }
}

/// The operation behind a tool, from a plan with the least arguments.
pub(crate) fn operation(tool: &dyn sid_tools::Tool, view: &sid_tools::View) -> Option<&'static str> {
    let least = r#"{"path":"x","pattern":"x","command":"x","content":"x","old_text":"a","new_text":"b","edits":[{"old_text":"a","new_text":"b"}],"task_id":1,"todos":[],"cmd":"x","old_str":"a","new_str":"b","session_id":1,"input":"x","chars":"x","task_ids":[1]}"#;
    tool.plan(least, view).ok().map(|it| it.access.operation)
}

fn help(out: &mut String, command: &mut clap::Command) {
    let name = command.get_bin_name().unwrap_or("sid").to_owned();
    let text = command.render_long_help().to_string();
    let text: Vec<&str> = text.lines().map(str::trim_end).collect();
    let _infallible = write!(out, "\n### `{name}`\n\n```text\n{}\n```\n", text.join("\n").trim_end());
    for it in command.get_subcommands_mut().filter(|it| !it.is_hide_set()) {
        help(out, it);
    }
}

fn keys(out: &mut String, keys: &[Key]) {
    out.push_str("| key | value | what it does |\n| --- | --- | --- |\n");
    for key in keys {
        let value = match key.kind {
            Kind::Text => "text".to_owned(),
            Kind::OneOf(words) => words.join(", "),
            Kind::Number => "number".to_owned(),
            Kind::Switch => "true, false".to_owned(),
            Kind::Texts => "list of texts".to_owned(),
            Kind::Numbers => "list of numbers".to_owned(),
        };
        let _infallible = writeln!(out, "| `{}` | {value} | {} |", key.path, key.doc);
    }
}
