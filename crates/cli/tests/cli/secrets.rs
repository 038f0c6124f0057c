//! Keys stay with sid.
use serde_json::json;
use sid_testkit::Reply;

use crate::{Script as _, sid};

#[test]
fn sc_01_no_child_sees_a_key_in_any_mode() {
    let dump = "env; cat /proc/$PPID/environ /proc/1/environ /proc/self/environ 2>/dev/null | tr '\\0' '\\n'; for p in /proc/[0-9]*; do tr '\\0' '\\n' < $p/environ; done 2>/dev/null | grep sk-test";
    for mode in ["workspace_write", "full_access", "read_only"] {
        let it = sid().args(["go", "--output", "jsonl", "--mode", mode]).rounds([("run_command", json!({ "command": dump }))]);
        // The test's own process holds no key; only sid's environment does.
        let ran = it.run().status(0);
        assert!(ran.result(0).contains("PATH="), "{}", ran.result(0));
        assert!(!ran.result(0).contains("sk-test-key-1234") && !ran.result(0).contains("[redacted]"), "{mode}: {}", ran.result(0));
    }
}

#[test]
fn sc_01_key_files_and_sessions_are_out_of_reach() {
    let it =
        sid().args(["go", "--output", "jsonl", "--mode", "workspace_write"]).env("OPENAI_API_KEY", "").env("OPENAI_BASE_URL", "");
    let config = it.beside("home/.config/sid");
    std::fs::create_dir_all(&config).unwrap();
    let text = format!(
        "active = 'p'\n[[provider]]\nname = 'p'\nbase_url = '{}/v1'\napi_key = 'key-in-a-file'\nmodel = 'm'\n",
        it.fake().url()
    );
    std::fs::write(config.join("providers.toml"), text).unwrap();
    let (toml, sessions) = (config.join("providers.toml").display().to_string(), it.beside("state/sessions").display().to_string());
    let it = it.rounds([
        ("read_file", json!({"path": toml})),
        ("run_command", json!({"command": format!("cat {toml}; ls {sessions}; cat {sessions}/*/events.jsonl")})),
        ("search_files", json!({"pattern": "key-in", "path": config.display().to_string()})),
        ("list_directory", json!({"path": sessions})),
    ]);
    let ran = it.run().status(0);
    for n in [0, 3] {
        assert!(ran.result(n).contains("sid's own keys or sessions"), "{n}: {}", ran.result(n));
    }
    assert!(!ran.stdout.contains("key-in-a-file") && !ran.result(1).contains("opened"), "{}", ran.result(1));
    assert!(it.fake().requests()[0].headers.iter().any(|(_, value)| value == "Bearer key-in-a-file"));
}

#[test]
fn a_key_that_a_tool_meets_is_replaced_everywhere() {
    let it = sid()
        .args(["go", "--output", "jsonl", "--mode", "workspace_write"])
        .file("leak.txt", "key=sk-test-key-1234\n")
        .rounds([("read_file", json!({"path": "leak.txt"}))]);
    let ran = it.run().status(0);
    assert_eq!(ran.result(0), "key=[redacted]\n");
    assert!(!std::fs::read_to_string(it.journal_path(&it.sessions()[0])).unwrap().contains("sk-test-key-1234"));
    assert!(!it.fake().requests()[1].body.contains("sk-test-key-1234"));
}

#[test]
fn keys_come_from_files_too() {
    let it = sid().args(["hi"]).file("../key", "sk-from-file-99\n").reply(Reply::text("ok"));
    let value = format!("file://{}", it.beside("key").display());
    let it = it.env("OPENAI_API_KEY", &value);
    let _ran = it.run().status(0);
    assert!(it.fake().requests()[0].headers.iter().any(|(_, value)| value == "Bearer sk-from-file-99"));
    let it = sid().args(["hi"]).env("OPENAI_API_KEY", "file:///nowhere/key");
    assert!(it.run().status(1).stderr.contains("key file /nowhere/key can't be read"));
}

#[test]
fn settings_add_and_drop_variables() {
    let it = sid().args(["go", "--output", "jsonl", "--mode", "workspace_write"]).env("GONE", "1").env("KEPT", "2");
    let it = it.rounds([("run_command", json!({"command": "env"}))]);
    let home = it.beside("home/.config/sid");
    std::fs::create_dir_all(&home).unwrap();
    std::fs::write(home.join("settings.toml"), "[environment]\ndrop = ['GONE']\n[environment.set]\nMADE = '3'\n").unwrap();
    let said = it.run().status(0).result(0);
    assert!(!said.contains("GONE=") && said.contains("KEPT=2") && said.contains("MADE=3"), "{said}");
}
