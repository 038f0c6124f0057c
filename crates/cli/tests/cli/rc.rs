//! rc configurations: agents, and programs as tools.
use std::{fs, os::unix::fs::PermissionsExt as _};

use serde_json::{Value, json};
use sid_testkit::{Reply, Test};

use crate::{Script as _, sid};

const AGENTS: &str = "DEFAULT_AGENT=build\nbuild_ENABLED=YES\nbuild_TOOLS='bash format it'\nlook_ENABLED=MANUAL\nlook_TOOLS='read search'\nlook_MODEL=other\n";
const TOOLS: &str = "bash_ENABLED=YES\nread_ENABLED=YES\nsearch_ENABLED=YES\nfmt_ENABLED=YES\nfmt_STYLE='it is ${HOME:+wide} \"quoted\"'\nformat_ALIASES=fmt\n\
format_INHERIT=YES\nit_ENABLED=MANUAL\n";
const MANIFEST: &str = r#"{"protocol_version": 1, "description": "Does it.", "input_schema": {"type": "object", "properties": {"n": {"type": "integer"}}}}"#;

/// What a program wants to be told: everything, and its own field STYLE.
const RCVAR: &str = r#"if [ "${1:-}" = rcvar ]; then
for n in REQUEST_FILE RESULT_FILE SCRATCH_DIR TEMP_DIR WORKSPACE_ROOT SESSION_ID AGENT_ID TOOL_ID TOOL_NAME TOOL_PROTOCOL STYLE USER_MESSAGE_FILE; do
echo "${RCVAR_ARGV0}_$n"; done; exit; fi
"#;

/// Answers with what `$TEXT` holds, as a whole result; the rest of a script may follow.
const ANSWER: &str = r#"answer() { python3 - "$1" <<'E'
import json, os, sys
p = os.environ["RCVAR_ARGV0"]
r = json.load(open(os.environ[p + "_REQUEST_FILE"]))
json.dump({"protocol_version": 1, "request_id": r["request_id"], "ok": True, "output": {"kind": "text", "text": sys.argv[1]}}, open(os.environ[p + "_RESULT_FILE"], "w"))
E
}
"#;

fn world(program: &str) -> Test {
    world_in("workspace_write", program)
}

fn world_in(mode: &str, program: &str) -> Test {
    let it = sid().args(["go", "--output", "jsonl", "--mode", mode]);
    let script = format!("#!/bin/sh\n{RCVAR}{ANSWER}\n{program}\n");
    let it = it
        .file("../home/.config/sid/agents.conf", AGENTS)
        .file("../home/.config/sid/agents/build.md", "You are an expert builder.\n")
        .file("../home/.config/sid/tools.conf", TOOLS)
        .file("../home/.config/sid/tools/fmt", &script)
        .file("../home/.config/sid/tools/fmt.json", MANIFEST)
        .file("../home/.config/sid/tools/it", &script)
        .file("../home/.config/sid/tools/it.json", MANIFEST);
    for name in ["fmt", "it"] {
        let path = it.beside("home/.config/sid/tools").join(name);
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    }
    it
}

fn call() -> (&'static str, Value) {
    ("format", json!({"n": 7}))
}

fn result(program: &str) -> String {
    let it = world(program).rounds([call()]);
    let said = it.run().status(0).result(0);
    let left = it.beside("state/sessions").join(&it.sessions()[0]).join("tmp");
    assert!(fs::read_dir(left).map_or(0, Iterator::count) == 0, "the folder of the call is gone");
    said
}

#[test]
fn an_agents_prompt_tools_and_model_are_used() {
    let it = world("answer done").reply(Reply::text("hello"));
    let _ran = it.run().status(0);
    let request = it.fake().requests()[0].json();
    let system = request["messages"][0]["content"].as_str().unwrap();
    assert!(system.contains("You are an expert builder."), "{system}");
    let names: Vec<&str> = request["tools"].as_array().unwrap().iter().map(|it| it["function"]["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["bash", "format", "it"]);
    let format = &request["tools"][1]["function"];
    assert_eq!(
        (format["description"].as_str(), &format["parameters"]["properties"]["n"]["type"]),
        (Some("Does it."), &json!("integer"))
    );
    let it = it.args(["--agent", "look"]).reply(Reply::text("hello"));
    let _ran = it.run().status(0);
    let request = it.fake().requests()[1].json();
    assert_eq!(request["model"], "other");
    let names: Vec<&str> = request["tools"].as_array().unwrap().iter().map(|it| it["function"]["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["read", "search"]);
}

#[test]
fn a_program_gets_its_request_and_every_value_as_it_is() {
    let look = r#"answer "$(printf '%s|' "$RCVAR_ARGV0" "$format_TOOL_ID" "$format_TOOL_NAME" "$format_AGENT_ID" "$format_TOOL_PROTOCOL" "$format_STYLE" "$TMPDIR" "$PWD" "$format_WORKSPACE_ROOT" "$RC_CONF_PATH" "$SID_WORKSPACE_ROOT"; test -d "$TMPDIR" && touch "$TMPDIR/x" && echo writable; cat "$format_REQUEST_FILE"; grep -c fmt_RESULT_FILE "$format_SCRATCH_DIR/tool-invoke.conf")""#;
    let said = result(look);
    let parts: Vec<&str> = said.split('|').collect();
    assert_eq!(parts[..6], ["format", "fmt", "format", "build", "1", "it is wide \"quoted\""], "{said}");
    assert!(parts[6].ends_with("/tmp/tool-000001/tmp") && parts[7] == parts[8] && parts[7] == parts[10], "{said}");
    assert!(parts[9].contains("tools.conf:") && parts[9].ends_with("/tool-invoke.conf"), "{said}");
    assert!(said.contains("writable") && said.contains("\"input\": {\n      \"n\": 7") && said.ends_with('1'), "{said}");
}

#[test]
fn the_request_is_just_what_the_manual_shows() {
    let it =
        world("cat \"$format_REQUEST_FILE\" > \"$format_WORKSPACE_ROOT/seen\"; answer \"$format_RESULT_FILE\"").rounds([call()]);
    let ran = it.run().status(0);
    let seen: Value = serde_json::from_slice(&it.read("seen")).unwrap();
    let root = it.path("").canonicalize().unwrap();
    let dir = fs::canonicalize(it.beside("state/sessions")).unwrap().join(&it.sessions()[0]).join("tmp/tool-000001");
    let id = seen["request_id"].clone();
    assert!(id.as_str().unwrap().starts_with("sidreq_"), "{seen}");
    let want = json!({
        "protocol_version": 1,
        "request_id": id,
        "tool": {"id": "fmt"},
        "invocation": {"tool_use_id": seen["invocation"]["tool_use_id"], "input": {"n": 7}},
        "agent": {"id": "build"},
        "workspace": {"root": root, "cwd": root},
        "files": {"scratch_dir": dir, "temp_dir": dir.join("tmp"), "result_file": dir.join("result.json")},
    });
    assert_eq!(seen, want);
    assert_eq!(ran.result(0), dir.join("result.json").display().to_string(), "the result goes into the call's folder");
}

#[test]
fn what_a_program_fails_with_counts_and_what_was_there_before_does_not() {
    // A process that fails has failed, whatever it wrote.
    let said = result("answer fine; exit 9");
    assert!(said.contains("exited with status 9") && !said.contains("fine"), "{said}");
    let fails = "r=$(sed -n 's/.*\"request_id\": \"\\(.*\\)\".*/\\1/p' \"$format_REQUEST_FILE\"); \
                 printf '{\"protocol_version\":1,\"request_id\":\"%s\",\"ok\":false,\"output\":null,\"error\":{\"code\":\"c\",\"message\":\"no paths\",\"x\":1}}' \"$r\" > \"$format_RESULT_FILE\"";
    let it = world(fails).env("SID_KEEP_FAILED_TOOL_SCRATCH", "on").rounds([call()]);
    let ran = it.run().status(0);
    assert!(ran.result(0) == "no paths" && ran.of_type("tool_result")[0]["is_error"] == true, "{}", ran.result(0));
    let kept = |it: &Test| it.beside("state/sessions").join(&it.sessions()[0]).join("tmp/tool-000001");
    assert!(kept(&it).join("result.json").is_file(), "a failure is kept");
    let it = world("answer done").env("SID_KEEP_FAILED_TOOL_SCRATCH", "on").rounds([call()]);
    let _ran = it.run().status(0);
    assert!(!kept(&it).exists(), "a success is not");
    // What a preview wrote is no result.
    let preview = "[ $1 = confirm ] && { answer stale; cp \"$it_RESULT_FILE\" \"$it_SCRATCH_DIR/../tool-000002/\" 2>/dev/null; echo shown; exit 0; }; true";
    let it = world(preview).command(["--plain", "--mode", "workspace_write"]).stdin("go\ny\n");
    let it = it.file("../home/.config/sid/tools.conf", format!("{TOOLS}it_CONFIRM=YES\n"));
    it.fake().reply([Reply::call("it", &json!({})), Reply::text("done")]);
    let ran = it.run().status(0);
    let said = it.fake().requests()[1].json()["messages"].to_string();
    assert!(ran.stderr.contains("shown") && said.contains("result.json can't be read"), "{said} {}", ran.stderr);
}

#[test]
fn a_preview_that_fails_shows_the_input_and_its_streams_are_kept() {
    let ask = |preview: &str| {
        let it =
            world(&format!("[ $1 = confirm ] && {{ {preview}; }}; touch ran")).command(["--plain", "--mode", "workspace_write"]);
        let it = it.stdin("go\nn\n").file("../home/.config/sid/tools.conf", format!("{TOOLS}it_CONFIRM=YES\n"));
        it.fake().reply([Reply::call("it", &json!({"n": 4711})), Reply::text("done")]);
        let ran = it.run().status(0);
        assert!(!it.path("ran").exists(), "{preview}");
        (streams(&it), ran.stderr)
    };
    for preview in ["exit 3", "echo '  '; exit 0", "exec sleep 75.5"] {
        let (_, seen) = ask(preview);
        assert!(seen.contains("\"n\":4711") || seen.contains("\"n\": 4711"), "{preview}: {seen}");
    }
    assert!(!crate::shells::alive("sleep 75.5"));
    let (lines, seen) = ask("echo would do it; echo noise >&2; exit 0");
    assert!(seen.contains("would do it") && !seen.contains("noise"), "{seen}");
    let kept: Vec<_> = lines.iter().map(|it| (it["stream"].as_str().unwrap(), it["text"].as_str().unwrap())).collect();
    assert!(kept.contains(&("confirm_stdout", "would do it\n")) && kept.contains(&("confirm_stderr", "noise\n")), "{kept:?}");
}

#[test]
fn calls_are_numbered_on_after_a_resume() {
    let it = world("echo loud; answer done").rounds([call(), call()]);
    let _ran = it.run().status(0);
    let id = it.sessions()[0].clone();
    let path = it.beside("state/sessions").join(&id).join("tool-streams.jsonl");
    fs::write(&path, fs::read_to_string(&path).unwrap() + "{\"tool_seq\": 99, \"ts").unwrap();
    let it = it.command(["run", "on", "--resume", &id, "--mode", "workspace_write"]);
    it.fake().reply([Reply::call("format", &json!({})), Reply::text("done")]);
    let _ran = it.run().status(0);
    let text = fs::read_to_string(&path).unwrap();
    let all: Vec<u64> =
        text.lines().filter_map(|it| serde_json::from_str::<Value>(it).ok()).filter_map(|it| it["tool_seq"].as_u64()).collect();
    assert_eq!(all, [1, 2, 3], "{text}");
}

#[test]
fn the_model_is_told_in_one_order() {
    let agents = format!("{AGENTS}build_SKILLS='*'\n");
    let it = world("true").file("../home/.config/sid/agents.conf", agents).file("../home/.config/sid/skills/s/SKILL.md", "x");
    let it = it.file("AGENTS.md", "Use tabs.\n").git().reply(Reply::text("hi"));
    let _ran = it.run().status(0);
    let system = it.fake().requests()[0].json()["messages"][0]["content"].as_str().unwrap().to_owned();
    let at: Vec<usize> = ["You are sid", "Working directory: ", "You are an expert builder.", "/skills/s/SKILL.md", "Use tabs."]
        .iter()
        .map(|it| system.find(it).unwrap_or_else(|| panic!("{it}: {system}")))
        .collect();
    assert!(at.is_sorted(), "{at:?} {system}");
}

#[test]
fn a_configuration_below_tmp_is_seen_by_its_programs_and_nothing_else_there_is() {
    let dir = tempfile::tempdir_in("/tmp").unwrap();
    let it = world(
        "answer \"$(ls -A /tmp; touch \"${0%/*}/x\" 2>&1 | grep -o Read-only; cat \"${0%/tools/*}/providers.toml\" | wc -c)\"",
    );
    for name in ["agents.conf", "agents", "tools.conf", "tools"] {
        let from = it.beside("home/.config/sid").join(name);
        assert!(std::process::Command::new("cp").arg("-a").args([&from, dir.path()]).status().unwrap().success());
    }
    fs::write(dir.path().join("providers.toml"), "# keys\n").unwrap();
    let it = it.env("SID_HOME", dir.path().to_str().unwrap()).rounds([call()]);
    let name = dir.path().file_name().unwrap().to_string_lossy();
    assert_eq!(it.run().status(0).result(0), format!("{name}\nRead-only\n0"));
}

#[test]
fn mistakes_stop_every_start_and_leave_no_session() {
    type Mistake<'a> = (&'a str, &'a str, &'a str);
    let mistakes: [Mistake<'_>; 8] = [
        ("agents.conf", "build_ENABLED=YES # really\n", "agents.conf:1: the value of `build_ENABLED` has 3 words"),
        ("agents.conf", "DEFAULT_AGENT=gone\nbuild_ENABLED=YES\n", "agents.conf:1: `DEFAULT_AGENT` is \"gone\""),
        ("agents.conf", "build_ENABLED=YES\nbuild_TOP_P=2\n", "agents.conf:2: `build_TOP_P` is \"2\""),
        ("agents.conf", "build_ENABLED=YES\nbuild_TOOLS=nope\n", "agents.conf:2: the agent `build` lists `nope`"),
        ("agents.conf", "build_ENABLED=YES\nbuild_USER_INSTRUCTIONS_HOOK=gone\n", "agents.conf:2: the hook "),
        ("tools.conf", "fmt_ENABLED=YES\nformat_ALIASES=gone\n", "tools.conf:2: `format` is an alias of `gone`"),
        ("tools/fmt.json", "{\"protocol_version\": 1}", "fmt.json: `description` is missing"),
        ("tools/fmt.json", "{\n nonsense", "fmt.json:2: is no manifest"),
    ];
    for (file, text, want) in mistakes {
        let it = world("true").file(&format!("../home/.config/sid/{file}"), text);
        let ran = it.run().status(1);
        assert!(ran.of_type("error")[0]["message"].as_str().unwrap().contains(want), "{want}: {}", ran.stdout);
        assert_eq!(fs::read_dir(it.beside("state/sessions")).map_or(0, Iterator::count), 0, "{want}");
        let it = it.command(["config", "check"]);
        let ran = it.run().status(1);
        assert!(ran.stdout.contains(want), "{want}: {}", ran.stdout);
        let it = it.command(["--bash-debug", "true"]).stdin("");
        assert!(it.run().status(1).stderr.contains(want), "{want}");
    }
}

#[test]
fn a_program_is_told_what_it_asks_for_and_nothing_else() {
    let asks = |names: &str, run: &str| format!("#!/bin/sh\n[ $1 = rcvar ] && {{ {names}; exit; }}\n{ANSWER}\n{run}\n");
    let with = |program: &str| {
        let it = world("").file("../home/.config/sid/tools/fmt", program);
        it.file("../home/.config/sid/tools.conf", format!("{TOOLS}WIDTH=80\nit_WIDTH=7\nfmt_OWN=mine\nformat_OWN=yours\n"))
    };
    let look = r#"answer "$(env | grep -o '^\(format\|fmt\|it\)_[^=]*=\(yours\|80\|it is\)*' | sort | tr '\n' ' ')""#;
    let both = "echo format_REQUEST_FILE format_RESULT_FILE";
    let it = with(&asks(
        &format!("{both} format_OWN format_WIDTH format_NONE other_X fmt_STYLE; echo format_STYLE; touch planted || true"),
        look,
    ));
    let it = it.rounds([call(), call()]);
    let ran = it.run().status(0);
    let want = "format_OWN=yours format_REQUEST_FILE= format_RESULT_FILE= format_STYLE=it is format_WIDTH=80 ";
    assert_eq!((ran.result(0).as_str(), ran.result(1).as_str()), (want, want));
    assert!(!it.path("planted").exists(), "asking only looks");
    for (names, want) in [
        ("echo why >&2; exit 129", "could not be prepared: `fmt rcvar` exited with status 129\nwhy"),
        ("kill -KILL $$", "could not be prepared: `fmt rcvar` exited with status 137"),
        ("exec sleep 75.4", "could not be prepared: `fmt rcvar` timed out after 5 s"),
    ] {
        let it = with(&asks(names, "touch ran")).rounds([call()]);
        let said = it.run().status(0).result(0);
        assert!(said.contains(want) && !it.path("ran").exists(), "{said}");
        let left = it.beside("state/sessions").join(&it.sessions()[0]).join("tmp");
        assert!(fs::read_dir(left).map_or(0, Iterator::count) == 0 && !crate::shells::alive("sleep 75.4"));
    }
}

#[test]
fn what_programs_print_is_kept_as_it_comes() {
    let it = world("printf 'out \\303'; echo why >&2; sleep 0.2; printf '\\251 more'; printf '\\377\\000' >&2; answer done");
    let it = it.rounds([call(), call()]);
    let _ran = it.run().status(0);
    let lines = streams(&it);
    let of = |call: u64, stream: &str, key: &str| -> Vec<String> {
        let fits = |it: &&Value| it["tool_seq"] == call && it["stream"] == stream;
        lines.iter().filter(fits).filter_map(|it| it[key].as_str().map(str::to_owned)).collect()
    };
    for call in [1, 2] {
        assert_eq!(of(call, "stderr", "text"), ["why\n"], "{lines:?}");
        assert_eq!(of(call, "stderr", "data_b64"), ["/wA="]);
        // A character that came in two pieces is in neither.
        assert_eq!(of(call, "stdout", "data_b64"), ["b3V0IMM=", "qSBtb3Jl"]);
    }
    assert!(lines.iter().all(|it| it["ts"].as_str().is_some_and(|it| it.len() == 32)), "{lines:?}");
    let it = world("answer quiet").rounds([call()]);
    let _ran = it.run().status(0);
    assert!(streams(&it).is_empty(), "nothing was printed, so there is no file");
}

fn streams(it: &Test) -> Vec<Value> {
    let path = it.beside("state/sessions").join(&it.sessions()[0]).join("tool-streams.jsonl");
    let text = fs::read_to_string(path).unwrap_or_default();
    text.lines().map(|it| serde_json::from_str(it).unwrap()).collect()
}

#[test]
fn the_real_rcinvoke_runs_one_tool_from_another() {
    let it = world(
        r#"case $RCVAR_ARGV0 in
it) exec "$RCINVOKE" --rc-conf-path "$RC_CONF_PATH" --rc-d-path "$RC_D_PATH" format;;
esac
answer "$RCVAR_ARGV0 for $format_AGENT_ID: $format_STYLE, asked $(grep -c '"n": 7' "$format_REQUEST_FILE") time""#,
    );
    let it = it.file(
        "../home/.config/sid/tools.conf",
        TOOLS.replace("it_ENABLED=MANUAL", "it_ENABLED=YES").replace("\"quoted\"", "") + "format_AGENT_ID=earlier\n",
    );
    let it = it.env("RCINVOKE", &rcinvoke()).rounds([("it", json!({"n": 7}))]);
    assert_eq!(it.run().status(0).result(0), "format for build: it is, asked 1 time");
    // One that a person is asked about is off there: nobody could be asked.
    let program = r#"[ $RCVAR_ARGV0 = it ] && touch ran
"$RCINVOKE" --rc-conf-path "$RC_CONF_PATH" --rc-d-path "$RC_D_PATH" it >&2
answer "status $?""#;
    let it = world(program).env("RCINVOKE", &rcinvoke()).rounds([call()]);
    assert_eq!(it.run().status(0).result(0), "status 132");
    assert!(!it.path("ran").exists());
}

/// rc_conf's own program, built once beside the other things that are built here.
fn rcinvoke() -> String {
    let target = fs::canonicalize(env!("CARGO_BIN_EXE_sid")).unwrap().parent().unwrap().join("rc_conf");
    let program = target.join("bin/rcinvoke");
    if !program.exists() {
        let mut it = std::process::Command::new(env!("CARGO"));
        it.args(["install", "-q", "rc_conf@0.18.0", "--debug", "--root"]).arg(&target);
        let done = it.output().unwrap();
        assert!(done.status.success() && program.exists(), "{}", String::from_utf8_lossy(&done.stderr));
    }
    program.to_string_lossy().into_owned()
}

#[test]
fn values_with_any_character_reach_the_program() {
    let it = world("answer \"$format_WORKSPACE_ROOT\"");
    let odd = it.beside("odd").join("it's a ${place} \"here\" $HOME  two");
    fs::create_dir_all(&odd).unwrap();
    let shown = odd.display().to_string();
    let it = it.args(["--cwd", &shown]).rounds([call()]);
    assert_eq!(it.run().status(0).result(0), shown);
}

#[test]
fn each_wrong_result_has_its_own_sentence() {
    let write = |json: &str| format!("printf '%s' '{json}' > \"$format_RESULT_FILE\"");
    let with_id = |json: &str| {
        let json = json.replace("ID", "'$(python3 -c \"import json,os; print(json.load(open(os.environ[\\\"format_REQUEST_FILE\\\"]))[\\\"request_id\\\"])\")'");
        format!("printf '%s' '{json}' > \"$format_RESULT_FILE\"")
    };
    for (program, want) in [
        ("exit 9".to_owned(), "tool 'format' exited with status 9"),
        ("echo why >&2; exit 3".to_owned(), "exited with status 3\nwhy"),
        ("kill -KILL $$".to_owned(), "137"),
        ("true".to_owned(), "protocol error: result.json can't be read"),
        (write("{"), "protocol error: result.json is no result"),
        (write("{}"), "missing protocol_version"),
        (write(r#"{"protocol_version": 2}"#), "unsupported result protocol version 2"),
        (
            write(r#"{"protocol_version": 1, "request_id": "other", "ok": true}"#),
            "request_id mismatch (expected sidreq_tool-000001, got other)",
        ),
        (with_id(r#"{"protocol_version": 1, "request_id": "ID"}"#), "missing ok"),
        (with_id(r#"{"protocol_version": 1, "request_id": "ID", "ok": true}"#), "missing success output"),
        (
            with_id(r#"{"protocol_version": 1, "request_id": "ID", "ok": true, "output": {"kind": "image"}}"#),
            "unsupported output kind 'image'",
        ),
        (with_id(r#"{"protocol_version": 1, "request_id": "ID", "ok": true, "output": {"kind": "text"}}"#), "missing output.text"),
        (with_id(r#"{"protocol_version": 1, "request_id": "ID", "ok": false}"#), "missing error object"),
        (with_id(r#"{"protocol_version": 1, "request_id": "ID", "ok": false, "error": {"code": "x"}}"#), "missing error.message"),
        (
            with_id(r#"{"protocol_version": 1, "request_id": "ID", "ok": false, "error": {"message": "paths must not be empty"}}"#),
            "paths must not be empty",
        ),
        ("ln -s /etc/passwd \"$format_RESULT_FILE\"".to_owned(), "it is no file"),
    ] {
        let said = result(&program);
        assert!(said.contains(want), "{want}\n{program}\n{said}");
    }
}

#[test]
fn programs_run_behind_the_walls_and_in_their_time() {
    let said = result("touch \"$HOME/out\" 2>/dev/null && answer out || answer walled");
    assert_eq!(said, "walled");
    let said = result("touch inside && ls \"$(dirname \"$(dirname \"$format_SCRATCH_DIR\")\")\" > list; answer \"$(cat list)\"");
    assert_eq!(said, "tmp", "of the session only the call's own folder is there");
    let it =
        world("sleep 75.1 & yes flood & exec sleep 75.2").file("../home/.config/sid/tools.conf", format!("{TOOLS}fmt_TIMEOUT=1\n"));
    let it = it.rounds([call(), ("bash", json!({"command": "echo on"}))]);
    let ran = it.run().status(0);
    assert!(ran.result(0).contains("tool 'format' timed out after 1 s") && ran.result(0).len() < 4000, "{}", ran.result(0));
    assert!(ran.result(1).contains("on") && !crate::shells::alive("sleep 75"), "the turn goes on, and nothing is left");
    // A child that holds the pipes does not hold the result up.
    let said = result("sleep 75.3 & answer quick");
    assert_eq!(said, "quick");
}

#[test]
fn a_manual_tool_asks_and_nobody_is_there() {
    let it = world("answer done").rounds([("it", json!({}))]);
    let said = it.run().status(0).result(0);
    assert!(said.contains("needs a person's approval") && said.contains("--allow-tool it"), "{said}");
    let it = world("answer done").args(["--allow-tool", "it"]).rounds([("it", json!({}))]);
    assert_eq!(it.run().status(0).result(0), "done");
    let it = world_in("read_only", "touch made; answer \"$(ls)\"").rounds([call()]);
    assert_eq!(it.run().status(0).result(0), "", "in read_only nothing of the workspace changes");
}

#[test]
fn scratch_is_kept_when_asked() {
    let it = world("answer done").env("SID_KEEP_TOOL_SCRATCH", "yes").rounds([call()]);
    let _ran = it.run().status(0);
    let kept = it.beside("state/sessions").join(&it.sessions()[0]).join("tmp/tool-000001");
    assert!(kept.join("request.json").is_file() && kept.join("result.json").is_file());
}

#[test]
fn a_configuration_is_checked_whole() {
    let it = world("true").command(["config", "check"]);
    let said = it.run().status(0).stdout;
    assert!(said.contains("agents: build, look\n") && said.contains("starts with: build"), "{said}");
    let it = it.file("../home/.config/sid/agents.conf", "build_ENABLED=yes\nbuild_TOOLS='a b\n");
    let ran = it.run().status(1);
    assert!(ran.stdout.contains("agents.conf:1: ") && ran.stdout.contains("agents.conf:2: "), "{}", ran.stdout);
    let it = it.command(["run", "go"]);
    assert!(it.run().status(1).stderr.contains("agents.conf:1: `build_ENABLED` is \"yes\""));
    let it = it.file("../home/.config/sid/agents.conf", "look_ENABLED=MANUAL\n");
    assert!(it.run().status(1).stderr.contains("--agent look"));
    let it = it.command(["run", "go", "--agent", "none"]);
    assert!(it.run().status(1).stderr.contains("there is no agent 'none'; there are look"));
}

#[test]
fn files_for_agents_are_told_unless_the_agent_says_no() {
    let it = world("true").file("AGENTS.md", "Use tabs.\n").file("other.md", "Use blanks.\n").git();
    let system = |it: &Test| {
        it.fake().reply([Reply::text("hi")]);
        let _ran = it.run().status(0);
        it.fake().requests().pop().unwrap().json()["messages"][0]["content"].as_str().unwrap().to_owned()
    };
    assert!(system(&it).contains("Use tabs.") && system(&it).contains("You are an expert builder."));
    let it = it.file("../home/.config/sid/agents.conf", format!("{AGENTS}build_AGENTS_MD_PATH=other.md\n"));
    assert!(system(&it).contains("Use blanks.") && !system(&it).contains("Use tabs."));
    let it = it.file("../home/.config/sid/agents.conf", format!("{AGENTS}build_AGENTS_MD=NO\n"));
    assert!(!system(&it).contains("Use "));
}

#[test]
fn git_is_looked_at_and_nothing_of_the_repository_runs() {
    let it = sid()
        .args(["go", "--output", "jsonl", "--mode", "workspace_write"])
        .file("../home/.config/sid/agents.conf", "a_ENABLED=YES\na_TOOLS='git-status git_diff'\n")
        .file("../home/.config/sid/tools.conf", "git_status_ENABLED=YES\ngit_diff_ENABLED=YES\n")
        .file("f", "one\n")
        .file("a b/c d", "before\n")
        .git();
    let planted = it.beside("planted").display().to_string();
    for (key, value) in [("core.fsmonitor", format!("touch {planted}")), ("diff.external", format!("touch {planted}"))] {
        assert!(it.shell_in_work("git", &["config", key, &value]).status.success());
    }
    fs::write(it.path("f"), "two\n").unwrap();
    fs::write(it.path("a b/c d"), "after\n").unwrap();
    let diff = |args: Value| ("git_diff", args);
    let it = it.rounds([
        ("git_status", json!({"short": true})),
        diff(json!({})),
        diff(json!({"staged": true})),
        diff(json!({"ref": "HEAD", "path": "f"})),
        diff(json!({"ref": "--output=x"})),
        diff(json!({"path": "--output=x"})),
        diff(json!({"ref": "none-such"})),
        diff(json!({"ref": "HEAD'; touch x; '"})),
        diff(json!({"path": "a b/c d"})),
    ]);
    let ran = it.run().status(0);
    assert_eq!(ran.result(0), " M \"a b/c d\"\n M f");
    assert!(ran.result(8).contains("-before\n+after") && !ran.result(8).contains("+two"), "{}", ran.result(8));
    assert!(ran.result(1).contains("-one\n+two") && ran.result(3).contains("-one\n+two"), "{}", ran.result(1));
    assert_eq!(ran.result(2), "No differences found.");
    assert!(ran.result(4).contains("can't begin with a dash"), "{}", ran.result(4));
    assert!(ran.result(6).contains("git failed") && ran.result(7).contains("git failed"), "{}", ran.result(6));
    assert!(!it.path("x").exists() && !it.beside("planted").exists());
    let names = it.fake().requests()[0].json()["tools"].to_string();
    assert!(names.contains("git_status") && names.contains("git_diff") && !names.contains("run_command"));
}

fn hooked(program: &str) -> Test {
    let it = world("true").file("../home/.config/sid/agents.conf", format!("{AGENTS}build_USER_INSTRUCTIONS_HOOK=notes\n"));
    let it = it.file("../home/.config/sid/agents/notes", format!("#!/bin/sh\n{RCVAR}{program}\n"));
    fs::set_permissions(it.beside("home/.config/sid/agents/notes"), fs::Permissions::from_mode(0o755)).unwrap();
    it.reply(Reply::text("hi"))
}

#[test]
fn a_hook_adds_to_a_message_and_is_not_the_users_words() {
    let it = hooked(
        "printf 'Agent %s of %s: ' \"$notes_AGENT_ID\" \"$RCVAR_ARGV0\"; cat \"$notes_USER_MESSAGE_FILE\"; touch planted \"$TMPDIR/x\"; test -e \"$TMPDIR/x\" && echo ' ok'",
    );
    let _ran = it.run().status(0);
    let user = it.fake().requests()[0].json()["messages"][1]["content"].as_str().unwrap().to_owned();
    assert!(
        user.starts_with("go\n\n# User instructions from hook notes\n\n") && user.ends_with("Agent build of notes: go ok"),
        "{user}"
    );
    assert!(!it.path("planted").exists(), "a hook only looks");
    let record = it.journal().into_iter().find_map(|it| it.get("user").cloned()).unwrap();
    assert!(record["text"] == "go" && record["added"].as_str().unwrap().contains("Agent build"), "{record}");
}

#[test]
fn a_hook_that_fails_is_told_about_and_loses_nothing() {
    for (program, want) in [
        ("echo why >&2; exit 4", "the hook 'notes' exited with status 4: why"),
        ("kill -9 $$", "the hook 'notes' exited with status 137"),
    ] {
        let it = hooked(program);
        let ran = it.run().status(0);
        assert!(ran.stderr.contains(want), "{}", ran.stderr);
        assert_eq!(it.fake().requests()[0].json()["messages"][1]["content"], "go");
    }
    let it = hooked("echo why >&2; exec sleep 77.2");
    let conf = format!("{AGENTS}build_USER_INSTRUCTIONS_HOOK=notes\nnotes_TIMEOUT=1\n");
    let it = it.file("../home/.config/sid/agents.conf", conf);
    let ran = it.run().status(0);
    assert!(ran.stderr.contains("the hook 'notes' timed out after 1 s"), "{}", ran.stderr);
    assert!(it.journal().iter().any(|it| it["user"]["text"] == "go") && !crate::shells::alive("sleep 77.2"));
    let conf = format!("{AGENTS}build_USER_INSTRUCTIONS_HOOK=notes\nnotes_TIMEOUT=soon\n");
    let ran = it.file("../home/.config/sid/agents.conf", conf).run().status(1);
    assert!(ran.stdout.contains("`notes_TIMEOUT` is") && ran.stdout.contains("must be whole seconds"), "{}", ran.stdout);
    let it = hooked("echo never").file(
        "../home/.config/sid/agents.conf",
        format!("{AGENTS}build_USER_INSTRUCTIONS_HOOK=notes\nbuild_USER_INSTRUCTIONS=NO\n"),
    );
    let _ran = it.run().status(0);
    assert_eq!(it.fake().requests()[0].json()["messages"][1]["content"], "go");
    // Its own fields reach it if it asks; one that makes no sense stops the start.
    let own = |value: &str| {
        let it = hooked("printf 'style %s' \"$notes_STYLE\"");
        it.file("../home/.config/sid/agents.conf", format!("{AGENTS}build_USER_INSTRUCTIONS_HOOK=notes\nnotes_STYLE='{value}'\n"))
    };
    let it = own("${N:-wide}");
    let _ran = it.run().status(0);
    assert!(it.fake().requests()[0].json()["messages"][1]["content"].to_string().contains("style wide"));
    let it = own("${N:?is needed}");
    assert!(it.run().status(1).stdout.contains("`notes_STYLE`"), "{}", it.run().stdout);
    assert_eq!(fs::read_dir(it.beside("state/sessions")).map_or(0, Iterator::count), 0);
    // Stopped while the hook runs: the words are kept.
    let it = hooked("exec sleep 77.1");
    let child = it.start();
    crate::shells::eventually("the hook runs", || crate::shells::alive("sleep 77.1"));
    crate::shells::signal(&child, "TERM");
    assert_eq!(it.finish(child).status, 143);
    assert!(it.journal().iter().any(|it| it["user"]["text"] == "go"));
    crate::shells::eventually("it is gone", || !crate::shells::alive("sleep 77.1"));
}
