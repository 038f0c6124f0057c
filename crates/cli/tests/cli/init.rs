//! The configuration to begin with.
use std::fs;

use serde_json::json;
use sid_testkit::Reply;

use crate::sid;

#[test]
fn what_init_makes_is_in_order_and_works() {
    let it = sid().command(["init"]);
    let ran = it.run().status(0);
    assert!(ran.stdout.lines().count() == 10 && ran.stdout.lines().all(|it| it.starts_with("made /")), "{}", ran.stdout);
    let it = it.command(["config", "check"]);
    let ran = it.run().status(0);
    assert!(
        ran.stdout.contains("agents: build, compact, plan, review\n") && ran.stdout.contains("starts with: build"),
        "{}",
        ran.stdout
    );

    let it = it.command(["run", "go", "--output", "jsonl", "--mode", "workspace_write"]).git();
    let it = it.file("a b", "x\n\ty // TODO \"quote\" \\ back\n").file("latin", b"\xe9 TODO\n").file("c", "none\n");
    it.fake().reply([Reply::call("todo", &json!({})), Reply::call("git_status", &json!({})), Reply::text("done")]);
    let ran = it.run().status(0);
    assert!(ran.result(0).contains("./a b:2:\ty // TODO \"quote\" \\ back\n"), "{}", ran.result(0));
    assert!(ran.result(1).contains("a b"), "{}", ran.result(1));
    let first = it.fake().requests()[0].json()["messages"].to_string();
    assert!(first.contains("The Git branch is ") && first.contains("3 paths differ"), "{first}");
    assert!(first.contains("You are a software engineer"), "{first}");
    let tools = it.fake().requests()[0].json()["tools"].to_string();
    for name in ["bash", "str_replace_based_edit_tool", "read", "search", "glob", "git_status", "git_diff", "todo"] {
        assert!(tools.contains(&format!("\"name\":\"{name}\"")), "{name}: {tools}");
    }
}

#[test]
fn init_overwrites_nothing_and_says_what_it_could_not_make() {
    let it = sid().command(["init", "mine"]).file("mine/agents.conf", "# mine\n");
    let ran = it.run().status(0);
    assert_eq!(ran.stdout.lines().filter(|it| it.starts_with("kept ")).count(), 1, "{}", ran.stdout);
    assert_eq!(it.read("mine/agents.conf"), b"# mine\n");
    assert!(it.path("mine/tools/todo").is_file());
    let ran = it.run().status(0);
    assert_eq!(ran.stdout.lines().filter(|it| it.starts_with("kept ")).count(), 10, "{}", ran.stdout);
    let it = it.file("file", "").command(["init", "file"]);
    let ran = it.run().status(1);
    assert!(ran.stderr.contains("file/agents.conf can't be made") && ran.stderr.lines().count() == 1, "{}", ran.stderr);
    assert!(fs::read(it.path("file")).unwrap().is_empty());
}

#[test]
fn a_configuration_in_the_workspace_works_as_the_quickstart_has_it() {
    let it = sid().command(["init", "init"]);
    let _ran = it.run().status(0);
    let it = it.env("SID_HOME", "init").env("SID_SESSIONS", "").env("OPENAI_API_KEY", "");
    let it = it.command(["--bash-debug", "pwd && ls; cd init; touch agents/x sessions/x; ls sessions"]);
    let ran = it.run().status(0);
    let here = it.path("").canonicalize().unwrap().display().to_string();
    assert!(ran.stdout.starts_with(&format!("{}\ninit\n", here.trim_end_matches('/'))), "{} {}", ran.stdout, ran.stderr);
    assert_eq!(ran.stdout.matches("Read-only file system").count(), 2, "{}", ran.stdout);
    let it = it.env("OPENAI_API_KEY", "k").command(["--plain", "--mode", "workspace_write"]).stdin("go\n").file("f", "TODO now\n");
    let bash = |command: &str| Reply::call("bash", &json!({ "command": command }));
    it.fake().reply([Reply::call("todo", &json!({})), bash("cd init; x=kept"), Reply::text("done")]);
    let ran = it.run().status(0);
    let said = it.fake().requests()[1].json()["messages"].to_string();
    assert!(said.contains("./f:1:TODO now"), "{said} {}", ran.stderr);
    // Resumed, by its id, in the same place.
    let mut ids: Vec<String> =
        fs::read_dir(it.path("init/sessions")).unwrap().map(|it| it.unwrap().file_name().into_string().unwrap()).collect();
    ids.sort();
    let id = ids.pop().unwrap();
    let it = it.command(["--plain", "--mode", "workspace_write", "--resume", &id]).stdin("again\n");
    it.fake().reply([bash("echo \"$x ${PWD##*/}\""), Reply::text("done")]);
    let _ran = it.run().status(0);
    let said = it.fake().requests().pop().unwrap().json()["messages"].to_string();
    assert!(said.contains("kept init\\n"), "{said}");
}
