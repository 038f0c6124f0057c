//! Who may do what.
use serde_json::json;
use sid_testkit::Reply;

use crate::{Script as _, free, sid};

fn touch(path: &str) -> (&'static str, serde_json::Value) {
    ("create_file", json!({"path": path, "content": "x"}))
}

fn jsonl() -> sid_testkit::Test {
    sid().args(["go", "--output", "jsonl"])
}

#[test]
fn headless_denies_what_would_ask_unless_granted() {
    let it = jsonl().rounds([touch("a"), ("run_command", json!({"command": "touch b"})), ("list_directory", json!({"path": "."}))]);
    let ran = it.run().status(0);
    assert!(
        ran.result(0).contains("--allow-tool create_file") && ran.result(1).contains("--allow-tool run_command"),
        "{}",
        ran.result(0)
    );
    assert!(ran.result(2).contains("empty directory"));
    let it = jsonl().args(["--allow-tool", "create_file"]).rounds([touch("a"), touch("../outside")]);
    let ran = it.run().status(0);
    assert!(it.path("a").exists() && !it.beside("outside").exists());
    assert!(ran.result(1).contains("leaves the workspace") && ran.result(1).contains("never reach outside"), "{}", ran.result(1));
}

#[test]
fn deny_wins_also_for_reading_and_by_operation() {
    let it =
        jsonl().args(["--allow-tool", "read_file", "--deny-tool", "read_file", "--deny-tool", "shell", "--mode", "full_access"]);
    let it = it.file("a", "x").rounds([("read_file", json!({"path": "a"})), ("run_command", json!({"command": "touch b"}))]);
    let ran = it.run().status(0);
    assert!(ran.result(0).contains("denied") && ran.result(1).contains("denied") && !it.path("b").exists());
}

#[test]
fn settings_and_environment_set_defaults() {
    let it = jsonl().env("SIGIT_PERMISSIONS", "allow").rounds([touch("a")]);
    let _ran = it.run().status(0);
    assert!(it.path("a").exists());
    let it = jsonl().env("SIGIT_PERMISSIONS", "maybe");
    assert!(it.run().status(1).of_type("error")[0]["message"].as_str().unwrap().contains("allow, ask or deny"));
    let it = jsonl()
        .args(["--mode", "workspace_write"])
        .rounds([touch("a"), touch("b"), ("delete_file", json!({"path": "keep"}))])
        .file("keep", "");
    let home = it.beside("home/.config/sid");
    std::fs::create_dir_all(&home).unwrap();
    std::fs::write(home.join("settings.toml"), "[permissions.tools]\ndelete_file = 'deny'\n").unwrap();
    let ran = it.run().status(0);
    assert!(it.path("a").exists() && it.path("keep").exists() && ran.result(2).contains("settings deny"), "{}", ran.result(2));
    // What siGit knows and this build does not do is said; a rule that would not be enforced stops the start.
    std::fs::write(
        home.join("settings.toml"),
        "local_inference = false\n[hooks]\npre_tool_use = ['touch hooked']\ntimeout_secs = 3\n",
    )
    .unwrap();
    it.fake().reply([Reply::text("ok")]);
    let ran = it.run().status(0);
    assert!(ran.stderr.matches("has no effect").count() == 2 && !it.path("hooked").exists(), "{}", ran.stderr);
    std::fs::write(home.join("settings.toml"), "[permissions.rules]\ndeny = ['run_command(git push*)']\n").unwrap();
    assert!(it.run().status(1).stdout.contains("there is no key `permissions.rules`"));
    // A typo in a rule stops the start: nothing is widened by a mistake.
    std::fs::write(home.join("settings.toml"), "[permissions]\ndefalt = 'deny'\n").unwrap();
    let ran = it.run().status(1);
    assert!(
        ran.of_type("error")[0]["message"]
            .as_str()
            .unwrap()
            .contains("settings.toml:2: there is no key `permissions.defalt`; did you mean")
    );
}

#[test]
fn read_only_modes_change_nothing() {
    for mode in ["plan", "read_only"] {
        let it = jsonl().args(["--mode", mode, "--allow-tool", "create_file"]).file("f", "x");
        let it = it.rounds([
            touch("a"),
            ("run_command", json!({"command": "cat f; echo y > f; touch b /tmp/ok && echo tmp"})),
            ("read_file", json!({"path": "f"})),
        ]);
        let ran = it.run().status(0);
        assert!(ran.result(0).contains("read only") && ran.result(1).contains("Read-only file system"), "{}", ran.result(1));
        assert!(!it.path("a").exists() && !it.path("b").exists() && it.read("f") == b"x" && ran.result(2) == "x");
    }
}

#[test]
fn crossings_are_unavailable_in_auto_and_refused_in_workspace_write() {
    let calls = || {
        [
            touch("../x"),
            ("read_file", json!({"path": "/etc/hostname"})),
            ("run_command", json!({"command": "touch /outside", "sandbox_permissions": "require_escalated", "justification": "j"})),
        ]
    };
    // A recording can't review, and auto without a reviewer never falls back to silent execution.
    let line = |(tool, args): (&str, serde_json::Value)| json!({"assistant": {"at": 0, "parts": [{"call": {"id": "", "tool": tool, "args": args.to_string()}}]}});
    let end = json!({"assistant": {"at": 0, "parts": [{"text": "done"}]}});
    let recording: String = calls().into_iter().map(line).chain([end]).map(|it| format!("{it}\n")).collect();
    let it = jsonl().args(["--mode", "auto", "--model", "replay:../r.jsonl"]).file("../r.jsonl", recording);
    let ran = it.run().status(0);
    for n in 0..3 {
        assert!(ran.result(n).contains("no review could be made (a recording can't review)"), "{n}: {}", ran.result(n));
    }
    assert_eq!(ran.of_type("result")[0]["reason"], "review_denials");
    let ran = free().rounds(calls()).run().status(0);
    assert!(ran.result(0).contains("stays inside the workspace"), "{}", ran.result(0));
    assert!(!ran.result(1).contains("denied"), "reading the host is not asked about: {}", ran.result(1));
    assert!(ran.result(2).contains("Read-only file system"), "runs in the sandbox all the same: {}", ran.result(2));
}

#[test]
fn sb_06_file_tools_and_shell_give_the_same_verdict() {
    let it = free();
    std::fs::create_dir(it.beside("outside")).unwrap();
    std::fs::write(it.beside("outside/secret"), "s").unwrap();
    std::os::unix::fs::symlink(it.beside("outside"), it.path("l")).unwrap();
    let outside = it.beside("outside").display().to_string();
    let it = it.rounds([
        touch("l/new"),
        ("run_command", json!({"command": "echo x > l/new"})),
        touch("../x"),
        ("run_command", json!({"command": "echo x > ../x"})),
        ("read_file", json!({"path": "l/secret"})),
        ("run_command", json!({"command": format!("cat {outside}/secret || true")})),
    ]);
    let ran = it.run().status(0);
    for n in [0, 2] {
        assert!(ran.result(n).contains("denied"), "{n}: {}", ran.result(n));
    }
    assert!(!it.beside("outside/new").exists() && !it.beside("x").exists());
    assert_eq!(ran.result(4), "s", "reading is the same too");
}

#[test]
fn git_control_paths_and_protected_names() {
    let it = free().file("a", "").git();
    std::os::unix::fs::symlink(".git", it.path("g")).unwrap();
    let it = it.rounds([
        touch(".git/hooks/pre-commit"),
        touch(".GIT/x"),
        touch("g/hooks/pre-commit"),
        touch("sub/.gitmodules"),
        touch(".sid/settings.toml"),
        touch("sid.toml"),
        touch(".claude/x"),
        touch("x/../.agents/y"),
    ]);
    let ran = it.run().status(0);
    for n in 0..4 {
        assert!(ran.result(n).contains("Git control path"), "{n}: {}", ran.result(n));
    }
    for n in 4..8 {
        assert!(ran.result(n).contains("protected path"), "{n}: {}", ran.result(n));
    }
}

#[test]
fn sb_14_the_same_effect_by_another_tool_is_denied_too() {
    let it = jsonl().args(["--deny-tool", "create_file", "--mode", "read_only"]);
    let it = it.rounds([touch("out.md"), ("run_command", json!({"command": "cat > out.md <<E\nx\nE"}))]);
    let ran = it.run().status(0);
    assert!(!it.path("out.md").exists() && ran.result(1).contains("failed"), "{}", ran.result(1));
}

#[test]
fn added_roots_are_writable_and_forgotten_by_a_resume_without_them() {
    let it = jsonl()
        .args(["--mode", "workspace_write"])
        .rounds([("run_command", json!({"command": "echo 1 > ../more/f"})), touch("../more/g")]);
    std::fs::create_dir(it.beside("more")).unwrap();
    let it = it.args(["--add-dir", "../more"]);
    let _ran = it.run().status(0);
    assert!(it.beside("more/f").exists() && it.beside("more/g").exists());
    let id = it.sessions()[0].clone();
    let meta = |it: &sid_testkit::Test| std::fs::read_to_string(it.journal_path(&id).with_file_name("session.json")).unwrap();
    assert!(meta(&it).contains("/more"));
    it.fake().reply([Reply::call("create_file", &json!({"path": "../more/h", "content": ""})), Reply::text("ok")]);
    let it = it.command(["run", "go", "--mode", "workspace_write", "--resume", &id]);
    let _ran = it.run().status(0);
    assert!(!it.beside("more/h").exists() && !meta(&it).contains("/more"));
}

#[test]
fn sb_16_nothing_of_a_cloned_repository_runs_by_itself() {
    let plant = |it: sid_testkit::Test| {
        it.file("agents.conf", "DEFAULT_AGENT=\"$(touch pwn)\"\n")
            .file("tools.conf", "x_ENABLED=\"$(touch pwn)\"\n")
            .file("tools/x", "#!/bin/sh\ntouch pwn\n")
            .file(".env", "OPENAI_BASE_URL=http://127.0.0.1:1\n")
            .file(".sid/mcp.toml", "[[server]]\nname = 'x'\ncommand = 'touch'\nargs = ['pwn']\n")
            .file(".sid/settings.toml", "[permissions]\ndefault = 'allow'\n[hooks]\npre_tool_use = ['touch pwn']\n")
            .file("settings.toml", "[permissions]\ndefault = 'allow'\n")
            .file(".sigit/providers.toml", "active = 'evil'\n")
    };
    let it = plant(jsonl()).rounds([("list_directory", json!({"path": "."})), touch("made")]);
    let ran = it.run().status(0);
    assert!(!it.path("pwn").exists() && !it.path("made").exists(), "{}", ran.result(1));
    let it = plant(jsonl()).env("OPENAI_BASE_URL", "").env("OPENAI_API_KEY", "");
    let _ran = it.run().status(1);
    assert!(!it.path("pwn").exists());
}

#[test]
fn cf_02_a_configuration_that_breaks_while_it_runs_changes_nothing_and_is_told() {
    let settings = "[permissions.tools]\ndelete_file = 'deny'\n";
    let config = |it: &sid_testkit::Test| it.beside("home/.config/sid/settings.toml").display().to_string();
    let it = sid().args(["go", "--output", "jsonl", "--mode", "full_access"]);
    let it = it.file("../home/.config/sid/settings.toml", settings).file("f", "x");
    let file = config(&it);
    let it = it.rounds([
        ("run_command", json!({"command": format!("echo '[permissions' > {file}")})),
        ("delete_file", json!({"path": "f"})),
        ("run_command", json!({"command": format!("echo '# fine' > {file}")})),
        ("delete_file", json!({"path": "f"})),
    ]);
    let ran = it.run().status(0);
    for n in [1, 3] {
        assert!(ran.result(n).contains("Permission denied: the settings deny `delete_file`"), "{}", ran.result(n));
    }
    assert_eq!(it.read("f"), b"x");
    let told: Vec<&str> = ran.stderr.lines().filter(|it| it.contains("settings.toml")).collect();
    assert_eq!(told.len(), 2, "{}", ran.stderr);
    assert!(told[0].contains("is not in order (") && told[0].ends_with("what was read at the start stays in force"), "{}", told[0]);
    assert!(told[1].ends_with("settings.toml changed; it counts from the next session on"), "{}", told[1]);
}
