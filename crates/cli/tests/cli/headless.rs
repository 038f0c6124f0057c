//! The headless contract: flags, output, events, exit codes.
use serde_json::json;
use sid_testkit::{Reply, Test, Wire};

use crate::{Script as _, free, sid};

#[test]
fn text_mode_prints_the_answer_and_the_session() {
    let it = sid().args(["hi"]).reply(Reply::Text(vec!["Hello ".into(), "world".into(), " \n".into()]));
    let ran = it.run().status(0);
    assert_eq!(ran.stdout, "Hello world\n");
    assert_eq!(ran.stderr, format!("Session: {}\n", it.sessions()[0]));
}

#[test]
fn jsonl_events_have_their_fields() {
    for wire in [Wire::Chat, Wire::Messages] {
        let it = sid().wire(wire).args(["hi", "--output", "jsonl", "--allow-tool", "run_command"]);
        let it = it.reply(Reply::Calls(
            "Let me look.".into(),
            vec![("run_command".into(), r#"{"command": "echo hi; echo err >&2"}"#.into())],
        ));
        let it = it.reply(Reply::text("All good."));
        let ran = it.run().status(0);
        let id = it.sessions()[0].clone();
        let mut events = ran.events();
        let call = events[2]["tool_call_id"].clone();
        assert!(call.as_str().is_some_and(|it| !it.is_empty()));
        let result = events.pop().unwrap();
        let base = |kind: &str| json!({"type": kind, "session_id": id});
        let with = |kind: &str, fields: serde_json::Value| {
            let mut it = base(kind);
            it.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
            it
        };
        assert_eq!(
            events,
            [
                with("session", json!({"resumed": false})),
                with("assistant_delta", json!({"text": "Let me look."})),
                with(
                    "tool_call",
                    json!({"tool_call_id": call, "name": "run_command", "arguments": "{\"command\": \"echo hi; echo err >&2\"}"})
                ),
                with(
                    "tool_result",
                    json!({"tool_call_id": call, "name": "run_command", "content": "Exit code 0:\nhi\nerr\n[cwd .]", "is_error": false})
                ),
                with("assistant_delta", json!({"text": "\n\nAll good."})),
            ]
        );
        assert_eq!((&result["type"], &result["text"], &result["tool_rounds"]), (&json!("result"), &json!("All good."), &json!(1)));
        assert_eq!((&result["reason"], &result["usage"]["output_tokens"]), (&json!("completed"), &json!(20)));
        assert_eq!(result["usage"]["cache_read_tokens"], json!(80), "{wire:?}");
    }
}

#[test]
fn the_result_reaches_the_model_with_its_id() {
    let it = free().rounds([("run_command", json!({"command": "echo marker"}))]);
    let _ran = it.run().status(0);
    let second = it.fake().requests()[1].json();
    let messages = second["messages"].as_array().unwrap();
    let (call, result) = (&messages[2]["tool_calls"][0], &messages[3]);
    assert_eq!((&result["role"], &result["tool_call_id"]), (&json!("tool"), &call["id"]));
    assert!(result["content"].as_str().unwrap().contains("marker"));
}

#[test]
fn thinking_is_not_part_of_the_answer() {
    let ran = sid().args(["hi"]).reply(Reply::Text(vec!["<thi".into(), "nk>plan</think>\n\nYes".into()])).run().status(0);
    assert_eq!(ran.stdout, "Yes\n");
}

#[test]
fn reasoning_is_an_event_of_its_own() {
    let frame = |delta: &str| format!("data: {{\"choices\":[{{\"index\":0,\"delta\":{delta}}}]}}\n\n").into_bytes();
    let end = b"data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n".to_vec();
    let raw = Reply::Raw(vec![frame(r#"{"reasoning_content":"hm"}"#), frame(r#"{"content":"yes"}"#), end]);
    let ran = sid().args(["hi", "--output", "jsonl"]).reply(raw).run().status(0);
    assert_eq!(ran.of_type("reasoning_delta")[0]["text"], "hm");
    assert_eq!(ran.of_type("result")[0]["text"], "yes");
}

#[test]
fn quiet_prints_only_the_final_text() {
    let it = sid().args(["hi", "--quiet", "--mode", "workspace_write"]);
    let it = it
        .reply(Reply::Calls("Looking.".into(), vec![("list_directory".into(), r#"{"path":"."}"#.into())]))
        .reply(Reply::text("Final."));
    let ran = it.run().status(0);
    assert_eq!(ran.stdout, "Final.\n");
    assert!(ran.stderr.starts_with("Session: ") && ran.stderr.lines().count() == 1, "{}", ran.stderr);
}

#[test]
fn answers_of_two_rounds_are_set_apart() {
    let it = sid().args(["hi"]).reply(Reply::Calls("One.".into(), vec![("list_directory".into(), r#"{"path":"."}"#.into())]));
    assert_eq!(it.reply(Reply::text("Two.")).run().status(0).stdout, "One.\n\nTwo.\n");
}

#[test]
fn prompt_short_form_and_second_name() {
    let ran = sid().command(["-p", "-x looks like a flag"]).reply(Reply::text("ok")).run().status(0);
    assert_eq!(ran.stdout, "ok\n");
    let it = Test::new(env!("CARGO_BIN_EXE_sigit")).args(["hi"]).reply(Reply::text("same"));
    assert_eq!(it.run().status(0).stdout, "same\n");
}

#[test]
fn hl_02_the_prompt_comes_from_stdin_only_when_asked() {
    let it = sid().args(["-"]).stdin("from stdin").reply(Reply::text("ok"));
    let _ran = it.run().status(0);
    assert_eq!(it.fake().requests()[0].json()["messages"][1]["content"], "from stdin");
    // An inherited pipe that never ends is not waited for.
    let it = sid().args(["hi"]).stdin("").reply(Reply::text("ok"));
    let mut child = it.start();
    let held = child.stdin.take();
    let ran = it.finish(child).status(0);
    assert_eq!(ran.stdout, "ok\n");
    drop(held);
}

#[test]
fn a_prompt_of_ten_megabytes_is_sent_whole() {
    let big = "x".repeat(10 << 20);
    let it = sid().args(["-"]).stdin(big.clone()).reply(Reply::text("read"));
    assert_eq!(it.run().status(0).stdout, "read\n");
    assert_eq!(it.fake().requests()[0].json()["messages"][1]["content"].as_str().map(str::len), Some(big.len()));
}

#[test]
fn wrong_arguments_are_2_with_one_readable_line_and_nothing_on_stdout() {
    for (args, want) in [
        (&["run"][..], "missing prompt"),
        (&["run", ""], "the prompt is empty"),
        (&["run", " \n"], "the prompt is empty"),
        (&["run", "a", "b"], "unexpected argument 'b'"),
        (&["run", "a", "-p", "b"], "given twice"),
        (&["run", "a", "--nonsense"], "unexpected argument '--nonsense'"),
        (&["run", "a", "--output", "xml"], "invalid value 'xml'"),
        (&["run", "a", "--quiet", "--output", "jsonl"], "--quiet applies to text output only"),
        (&["run", "a", "--max-tool-rounds", "0"], "from 1 to 500"),
        (&["run", "a", "--max-tool-rounds", "501"], "from 1 to 500"),
        (&["run", "a", "--max-tool-rounds", "x"], "'x'"),
        (&["run", "a", "--max-seconds", "0"], "invalid value '0'"),
        (&["run", "a", "--mode", "fast"], "plan, read_only, manual, workspace_write, auto, full_access"),
        (&["run", "a", "--cwd", "/nowhere/at/all"], "no such directory"),
        (&["run", "a", "--add-dir", "/etc/hosts"], "not a directory"),
        (&["run", "a", "--cwd", "/"], "can't be a workspace"),
        (&["-p", "a", "--nonsense"], "unexpected argument '--nonsense'"),
        (&["run", "a", "--resume", "a b"], "can't be a session id"),
        (&["run", "a", "--resume", "x", "--resume", "y"], "cannot be used multiple times"),
    ] {
        let it = sid().command(args.iter().copied());
        let ran = it.run().status(2);
        assert_eq!(ran.stdout, "", "{args:?}");
        assert!(ran.stderr.starts_with("sid: ") && ran.stderr.contains(want), "{args:?}: {}", ran.stderr);
        assert!(it.fake().requests().is_empty() && it.sessions().is_empty());
    }
}

#[test]
fn arguments_that_are_not_utf_8() {
    use std::os::unix::ffi::OsStringExt as _;
    let bad = std::ffi::OsString::from_vec(b"caf\xe9".to_vec());
    let ran = sid().command(["run".into(), bad]).run().status(2);
    assert!(ran.stderr.contains("UTF-8"), "{}", ran.stderr);
    let ran = sid().args(["-"]).stdin(b"caf\xe9".to_vec()).run().status(2);
    assert!(ran.stderr.contains("not UTF-8 (byte 3)"), "{}", ran.stderr);
}

#[test]
fn a_workspace_whose_path_is_not_utf_8() {
    use std::os::unix::ffi::OsStringExt as _;
    let it = sid();
    let odd = it.path("").join(std::ffi::OsString::from_vec(b"caf\xe9\n dir".to_vec()));
    std::fs::create_dir(&odd).unwrap();
    std::fs::write(odd.join("f"), "x").unwrap();
    let args = ["run", "go", "--output", "jsonl", "--mode", "workspace_write", "--cwd"].map(std::ffi::OsString::from);
    let it = it.command(args.into_iter().chain([odd.clone().into_os_string()]));
    let late = |it| Reply::Late(std::time::Duration::from_millis(100), Box::new(it));
    let it = it.reply(late(Reply::call("run_command", &json!({"command": "cat f; echo 1 > made"}))));
    let it = it.reply(late(Reply::call("run_command", &json!({"command": "cat made"}))));
    let it = it.reply(Reply::call("edit_file", &json!({"path": "f", "old_text": "x", "new_text": "y"}))).reply(Reply::text("ok"));
    let ran = it.run().status(0);
    assert!(ran.result(0).contains('x') && ran.result(1).contains('1'), "{}", ran.result(1));
    assert_eq!(std::fs::read(odd.join("f")).unwrap(), b"y");
    let it = it.command(["sessions"]);
    assert_eq!(it.run().status(0).stdout.lines().count(), 1);
}

#[test]
fn a_bare_command_line_is_64() {
    let ran = sid().command::<&str>([]).run().status(64);
    assert!(ran.stderr.contains("sid run PROMPT"), "{}", ran.stderr);
    for args in [&["--nonsense"][..], &["sessions", "nonsense"], &["nonsense"]] {
        let ran = sid().command(args.iter().copied()).run().status(64);
        assert!(ran.stderr.starts_with("sid: ") && ran.stdout.is_empty(), "{}", ran.stderr);
    }
}

#[test]
fn environment_caps_are_checked_and_the_flag_wins() {
    let ran = sid().args(["hi"]).env("SIGIT_MAX_TOOL_ROUNDS", "many").run().status(2);
    assert!(ran.stderr.contains("SIGIT_MAX_TOOL_ROUNDS is 'many'"), "{}", ran.stderr);
    let it = sid().args(["hi", "--max-tool-rounds", "3"]).env("SID_MAX_TOOL_ROUNDS", "many").reply(Reply::text("ok"));
    let _ran = it.run().status(0);
    let it = sid().args(["hi"]).env("SID_MAX_TOOL_ROUNDS", "").reply(Reply::text("ok"));
    let _ran = it.run().status(0);
}

#[test]
fn failing_before_a_session_is_one_error_event() {
    let none = |it: Test| it.env("OPENAI_BASE_URL", "").env("OPENAI_API_KEY", "");
    let ran = none(sid().args(["hi", "--output", "jsonl"])).run().status(1);
    let events = ran.events();
    assert_eq!((events.len(), &events[0]["type"], &events[0]["session_id"]), (1, &json!("error"), &json!(null)));
    assert!(events[0]["message"].as_str().unwrap().contains("set ANTHROPIC_API_KEY or OPENAI_API_KEY"));
    let ran = none(sid().args(["hi"])).run().status(1);
    assert!(ran.stdout.is_empty() && ran.stderr.starts_with("sid: no model is configured"), "{}", ran.stderr);

    let it = sid().args(["hi", "--output", "jsonl", "--resume", "nope-1"]);
    let events = it.run().status(1).events();
    assert_eq!((events.len(), &events[0]["session_id"]), (1, &json!("nope-1")));
    assert!(events[0]["message"].as_str().unwrap().contains("saved session not found"));
    assert!(it.fake().requests().is_empty());
}

#[test]
fn no_home_a_read_only_home_and_no_terminal() {
    let it = sid().args(["hi"]).env("HOME", "\0unset").reply(Reply::text("ok"));
    assert_eq!(it.run().status(0).stdout, "ok\n");
    let it = sid().args(["hi"]).env("SID_SESSIONS", "/proc/nothing/sessions").reply(Reply::text("ok"));
    let ran = it.run().status(1);
    assert!(ran.stderr.contains("set SID_SESSIONS to a folder that can be written"), "{}", ran.stderr);
    assert!(it.fake().requests().is_empty());
}

#[test]
fn a_closed_stdout_is_a_clean_end() {
    let many: Vec<String> = (0..20_000).map(|it| format!("word{it} ")).collect();
    let it = sid().args(["hi"]).reply(Reply::Text(many));
    let mut child = it.start();
    drop(child.stdout.take());
    let ran = it.finish(child).status(0);
    assert!(!ran.stderr.contains("panicked") && !ran.stderr.contains("Broken pipe"), "{}", ran.stderr);
    let last = it.journal().pop().unwrap();
    assert_eq!(last["ended"]["reason"], "interrupted");
}

#[test]
fn what_a_model_says_never_drives_the_terminal() {
    let pty = "import pty, sys; sys.exit(pty.spawn(sys.argv[1:]) >> 8)";
    let evil = "\u{1b}]0;owned\u{7}\u{1b}[2Jwords\u{9b}31m";
    let it = sid().args(["hi", "--mode", "workspace_write"]).through(["python3", "-c", pty]);
    let it = it.reply(Reply::Calls(evil.into(), vec![(evil.into(), evil.into())])).reply(Reply::text(evil));
    let ran = it.run().status(0);
    assert!(ran.stdout.contains("words") && !ran.stdout.contains(['\u{1b}', '\u{7}', '\u{9b}']), "{:?}", ran.stdout);
    // On a pipe the answer is what the model said, byte for byte.
    let it = sid().args(["hi"]).reply(Reply::text(evil));
    assert_eq!(it.run().status(0).stdout, format!("{evil}\n"));
    let message = format!("data: {{\"error\":{{\"message\":{}}}}}\n\n", serde_json::to_string(evil).unwrap());
    let it = (0..5).fold(sid().args(["hi"]), |it, _| it.reply(Reply::Raw(vec![message.clone().into_bytes()])));
    assert!(!it.run().status(1).stderr.contains('\u{1b}'));
}

#[test]
fn help_version_completions_and_man_pages() {
    let help = sid().command(["--help"]).run().status(0).stdout;
    assert!(help.contains("run") && help.contains("doctor") && help.contains("demo"));
    assert!(sid().command(["run", "--help"]).run().status(0).stdout.contains("Exit codes"));
    assert!(sid().command(["--version"]).run().status(0).stdout.starts_with("sid "));
    for shell in ["bash", "zsh", "fish"] {
        assert!(sid().command(["completions", shell]).run().status(0).stdout.contains("max-tool-rounds"));
    }
    let it = sid();
    let dir = it.beside("man");
    let _ran = it.command(["man", dir.to_str().unwrap()]).run().status(0);
}

#[test]
fn the_demo_passes_without_key_or_network() {
    let it = sid().command(["demo"]).env("OPENAI_BASE_URL", "").env("OPENAI_API_KEY", "").env("TMPDIR", "/tmp");
    let ran = it.run().status(0);
    assert!(ran.stderr.contains("FAILED  prefers the first") && ran.stderr.contains("ok      prefers the first"), "{}", ran.stderr);
    assert!(ran.stderr.contains("Only the model's words are recorded"));
    assert!(it.fake().requests().is_empty() && it.sessions().is_empty());
}

#[test]
fn doctor_names_what_is_missing() {
    let ran = sid().command(["doctor"]).run().status(0);
    assert!(ran.stdout.contains("ok    sandbox") && ran.stdout.contains("ok    model"), "{}", ran.stdout);
    let ran = sid().command(["doctor"]).env("OPENAI_BASE_URL", "").env("OPENAI_API_KEY", "").run().status(1);
    assert!(ran.stdout.contains("FIX   model"), "{}", ran.stdout);
}

#[test]
fn the_reference_is_current() {
    for (page, args) in [("reference.md", &["reference"][..]), ("rc.md", &["reference", "rc"])] {
        let kept = std::path::Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs")).join(page);
        let made = sid().command(args.iter().copied()).run().status(0).stdout;
        assert!(std::fs::read_to_string(kept).unwrap_or_default() == made, "{page}: run `cargo xtask docs`");
    }
}
