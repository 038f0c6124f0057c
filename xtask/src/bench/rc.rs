//! rc configurations: how long a large one takes to load, what a call of a program costs, and a round in the shell that stays.
use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    time::Instant,
};

use serde_json::json;
use sid_testkit::{Fake, Reply};

use super::{BARE, ROUNDS, RUNS, Row, World, median, over, pair};

const AGENTS: usize = 200;
const TOOLS: usize = 500;
const MANIFEST: &str = r#"{"protocol_version": 1, "description": "Does it.", "input_schema": {"type": "object", "properties": {"n": {"type": "integer"}}}}"#;
/// Answers its request, as small programs do.
const PROGRAM: &str = r#"#!/bin/sh
[ "$1" = rcvar ] && { echo t0_REQUEST_FILE t0_RESULT_FILE; exit; }
id=$(sed -n 's/.*"request_id": "\(.*\)".*/\1/p' "$t0_REQUEST_FILE")
printf '{"protocol_version":1,"request_id":"%s","ok":true,"output":{"kind":"text","text":"done"}}' "$id" >"$t0_RESULT_FILE"
"#;

pub(super) fn rc(program: &Path) -> Result<Vec<Row>, String> {
    let world = World::new(program)?;
    let root = world.dir.path().join(".config/sid");
    configuration(&root, AGENTS, TOOLS).map_err(|err| err.to_string())?;
    let mut loads = Vec::new();
    for _ in 0..RUNS * 3 {
        let begun = Instant::now();
        let found = sid_project::setup::Setup::load(&root, &|_| None).map_err(|all| format!("{all:?}"))?;
        loads.push(begun.elapsed().as_secs_f64() * 1e3);
        if found.is_none_or(|it| it.tools.len() != TOOLS + 1 || it.agents.len() != AGENTS) {
            return Err("the configuration was not loaded whole".to_owned());
        }
    }
    // A call is measured in a configuration of one tool: what many cost is the row above.
    let world = World::new(program)?;
    let tool = configuration(&world.dir.path().join(".config/sid"), 1, 1).map_err(|err| err.to_string())?;
    let script = |tool: &'static str, args: serde_json::Value| {
        Fake::lean((0..ROUNDS).map(move |_| Reply::call(tool, &args)).chain([Reply::text("done")]))
    };
    let run = |fake: &Fake| {
        let rounds = world.sid(fake, &["--mode", "workspace_write"])?.rounds();
        went_well(&world)?;
        Ok::<_, String>(median(rounds))
    };
    let bare = format!("t0_REQUEST_FILE=/dev/null t0_RESULT_FILE=/dev/null {} run", tool.display());
    let (external, floor) = pair(
        || run(&script("t0", json!({}))),
        || Ok(median(world.floor(&script("run_command", json!({ "command": bare })), 0, BARE)?.rounds())),
    )?;
    let (bash, nothing) = pair(
        || run(&script("bash", json!({"command": "true"}))),
        || Ok(median(world.floor(&script("read_file", json!({"path": tool})), 0, &[])?.rounds())),
    )?;
    let what = "a call of a program of the user's (floor: the same program in bare `bwrap`)";
    Ok(vec![
        Row::alone("load of a configuration with 200 agents and 500 tools", "≤ 20 ms", super::ms(median(loads))),
        Row::beside(what, "≤ floor + 2 ms", external, floor, over(external, floor)),
        Row::beside("round in the shell that stays (floor: no command)", "≤ 1 ms", bash, nothing, over(bash, nothing)),
    ])
}

/// A call that failed costs something else.
fn went_well(world: &World) -> Result<(), String> {
    let io = |err: std::io::Error| err.to_string();
    for session in fs::read_dir(world.sessions.path()).map_err(io)? {
        let text = fs::read_to_string(session.map_err(io)?.path().join("events.jsonl")).map_err(io)?;
        if let Some(line) = text.lines().find(|it| it.contains("\"finished\"") && !it.contains("\"status\":\"ok\"")) {
            return Err(format!("a call that was to be measured failed: {line}"));
        }
    }
    Ok(())
}

/// Writes it; returns the first program.
fn configuration(root: &Path, many: usize, more: usize) -> std::io::Result<PathBuf> {
    fs::create_dir_all(root.join("agents"))?;
    fs::create_dir_all(root.join("tools"))?;
    let mut agents = "DEFAULT_AGENT=a0\n".to_owned();
    for n in 0..many {
        agents.push_str(&format!(
            "a{n}_ENABLED=YES\na{n}_NAME='Agent {n}'\na{n}_TOOLS='bash t{n} t{}'\na{n}_MODEL=m\n",
            (n + many) % more
        ));
        fs::write(root.join(format!("agents/a{n}.md")), "You are one of many.\n")?;
    }
    let mut tools = "bash_ENABLED=YES\n".to_owned();
    for n in 0..more {
        tools.push_str(&format!("t{n}_ENABLED=YES\nt{n}_STYLE=\"number {n}\"\n"));
        let path = root.join(format!("tools/t{n}"));
        fs::write(&path, PROGRAM)?;
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755))?;
        fs::write(root.join(format!("tools/t{n}.json")), MANIFEST)?;
    }
    fs::write(root.join("agents.conf"), agents)?;
    fs::write(root.join("tools.conf"), tools)?;
    Ok(root.join("tools/t0"))
}
