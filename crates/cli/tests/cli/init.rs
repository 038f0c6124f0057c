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
