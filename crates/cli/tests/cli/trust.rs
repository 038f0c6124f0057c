//! What a workspace asks for counts once the user trusts it, as it is.
use std::fs;

use serde_json::json;
use sid_testkit::{Reply, Test};

use crate::{Script as _, sid};

const ASKS: &str = "[network]\nallowed_domains = ['good.test']\nallowed_loopback_ports = [9001]\n";

fn proxies(it: &Test) -> (String, String) {
    let ran = it.run().status(0);
    (ran.result(0), ran.stderr)
}

fn world() -> Test {
    let it = sid().args(["go", "--output", "jsonl", "--mode", "workspace_write"]).file("sid.toml", ASKS);
    let look = json!({"command": "env | grep -c 127.0.0.1:3128; true"});
    (0..3).fold(it, |it, _| it.rounds([("run_command", look.clone())]))
}

#[test]
fn what_a_workspace_asks_for_is_trusted_by_content_and_can_be_taken_back() {
    let it = world();
    let (result, stderr) = proxies(&it);
    assert!(result.contains("Exit code 0:\n0\n"), "{result}");
    let notice = "sid.toml asks for network access and is not trusted";
    assert!(stderr.contains(notice) && stderr.contains("sid trust add") && stderr.contains("--trust"), "{stderr}");
    let run = |it: Test, args: &[&str]| {
        let it = it.command(args);
        let ran = it.run().status(0);
        (it, ran.stdout)
    };
    let (it, said) = run(it, &["trust"]);
    assert_eq!(said, "no workspace is trusted\n");
    let (it, said) = run(it, &["trust", "add"]);
    assert!(
        said.contains("good.test (port 443)") && said.contains("127.0.0.1:9001") && said.contains("until it changes"),
        "{said}"
    );
    let it = it.command(["run", "go", "--output", "jsonl", "--mode", "workspace_write"]);
    let (result, stderr) = proxies(&it);
    assert!(result.contains("Exit code 0:\n4\n") && !stderr.contains("not trusted"), "{result}{stderr}");
    let it = it.file("sid.toml", format!("{ASKS}# changed\n"));
    let (result, stderr) = proxies(&it);
    assert!(result.contains("Exit code 0:\n0\n") && stderr.contains(notice), "{result}{stderr}");
    let (it, said) = run(it, &["trust", "list"]);
    assert!(said.contains("sid.toml") && said.contains("changed since"), "{said}");
    let (it, said) = run(it, &["trust", "revoke"]);
    assert!(said.contains("no longer trusted"), "{said}");
    let (_, said) = run(it, &["trust", "revoke", "/nowhere"]);
    assert_eq!(said, "/nowhere was not trusted\n");
}

#[test]
fn trust_for_one_run_is_not_kept() {
    let it = world().args(["--trust"]);
    assert!(proxies(&it).0.contains("Exit code 0:\n4\n"));
    let it = it.command(["trust"]);
    assert_eq!(it.run().status(0).stdout, "no workspace is trusted\n");
}

#[test]
fn a_workspace_may_narrow_without_trust() {
    let it = sid().args(["go", "--output", "jsonl", "--mode", "workspace_write"]);
    let it = it
        .file("../home/.config/sid/settings.toml", "[network]\nallowed_domains = ['a.test', 'b.test']\n")
        .file("sid.toml", "[network]\ndenied_domains = ['b.test']\n[permissions]\nprotected_paths = ['deploy']\n")
        .file("deploy/key", "");
    let line = "curl -sS -m 5 -o /dev/null -p http://b.test:443/; echo x > deploy/key; echo y > deploy/new";
    let ran =
        it.rounds([("run_command", json!({"command": line})), ("create_file", json!({"path": "deploy/n", "content": ""}))]).run();
    let ran = ran.status(0);
    assert!(ran.result(0).contains("b.test:443 was not reached: it is among the denied domains"), "{}", ran.result(0));
    assert_eq!(ran.result(0).matches("Read-only file system").count(), 2, "{}", ran.result(0));
    assert!(ran.result(1).contains("protected path"), "{}", ran.result(1));
    assert!(!ran.stderr.contains("trust"), "{}", ran.stderr);
}

#[test]
fn nothing_to_trust_is_said() {
    let it = sid().command(["trust", "add"]);
    assert!(it.run().status(0).stdout.contains("asks for nothing that needs trust"));
    let it = it.command(["trust", "add", "/dev/null"]);
    assert!(it.run().status(1).stderr.contains("not a directory"));
}

#[test]
fn a_workspaces_own_agents_count_once_they_are_trusted_and_only_as_they_are() {
    let program = |text: &str| {
        format!(
            "#!/bin/sh\n[ $1 = rcvar ] && echo own_REQUEST_FILE own_RESULT_FILE && exit\nid=$(sed -n 's/.*\"request_id\": \"\\(.*\\)\".*/\\1/p' \"$own_REQUEST_FILE\")\nprintf '{{\"protocol_version\":1,\"request_id\":\"%s\",\"ok\":true,\"output\":{{\"kind\":\"text\",\"text\":\"{text}\"}}}}' \"$id\" >\"$own_RESULT_FILE\"\n"
        )
    };
    let world = |it: sid_testkit::Test| {
        let it =
            it.file("agents.conf", "a_ENABLED=YES\na_TOOLS='own bash edit'\n").file("agents/a.md", "You are of the workspace.\n");
        let it = it.file("tools.conf", "own_ENABLED=YES\nbash_ENABLED=YES\nedit_ENABLED=YES\n").file("tools/own", program("one"));
        let it = it.file(
            "tools/own.json",
            r#"{"protocol_version": 1, "description": "d", "input_schema": {"type": "object", "properties": {}}}"#,
        );
        fs::set_permissions(it.path("tools/own"), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        it
    };
    let run = |it: sid_testkit::Test, more: &[&str]| {
        let args = ["run", "go", "--output", "jsonl", "--mode", "workspace_write"];
        let it = it.command(args.into_iter().chain(more.iter().copied()));
        it.fake().reply([Reply::call("own", &json!({})), Reply::text("done")]);
        let ran = it.run().status(0);
        (it, ran)
    };
    let (it, ran) = run(world(sid()), &[]);
    assert!(
        ran.result(0).contains("Unknown tool") && ran.stderr.contains("is not trusted, so they are not used"),
        "{}",
        ran.stderr
    );
    let (it, ran) = run(it, &["--trust"]);
    assert_eq!(ran.result(0), "one");
    let it = it.command(["trust", "add"]);
    assert!(it.run().status(0).stdout.contains("agents.conf, until it changes"));
    let (it, ran) = run(it, &[]);
    assert_eq!(ran.result(0), "one");
    let system = it.fake().requests().pop().unwrap().json()["messages"][0]["content"].to_string();
    assert!(system.contains("You are of the workspace."));
    // Neither tools nor commands change what is active.
    let it = it.command(["run", "go", "--output", "jsonl", "--mode", "workspace_write"]);
    it.fake().reply([
        Reply::call("str_replace_based_edit_tool", &json!({"command": "create", "path": "tools/more", "file_text": "x"})),
        Reply::call("bash", &json!({"command": "echo x >>tools/own; echo x >>agents.conf; rm -r agents"})),
        Reply::text("done"),
    ]);
    let ran = it.run().status(0);
    assert!(ran.result(0).contains("protected path"), "{}", ran.result(0));
    assert!(ran.result(1).matches("Read-only file system").count() >= 2 && it.path("agents/a.md").exists(), "{}", ran.result(1));
    // What the user changes is a new question.
    let it = it.file("tools/own", program("two"));
    let (it, ran) = run(it, &[]);
    assert!(ran.result(0).contains("Unknown tool"), "{}", ran.result(0));
    assert!(it.command(["trust", "list"]).run().status(0).stdout.contains("changed since"));
    // Naming the folder is trust.
    let (_, ran) = run(world(sid()).env("SID_HOME", "."), &[]);
    assert_eq!(ran.result(0), "one");
    let it = world(sid().command(["--plain", "--mode", "workspace_write"]).stdin("y\nhello\n"));
    it.fake().reply([Reply::call("own", &json!({})), Reply::text("done")]);
    assert_eq!(it.run().status(0).stdout, "done\n");
}
