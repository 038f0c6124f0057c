//! Automatic review of what leaves the workspace.
use serde_json::{Value, json};
use sid_testkit::{Reply, Test, Wire};

use crate::{Script as _, sid};

fn auto() -> Test {
    sid().args(["please put x outside", "--output", "jsonl", "--mode", "auto"])
}

fn escalated(line: &str) -> Reply {
    Reply::call("run_command", &json!({"command": line, "sandbox_permissions": "require_escalated", "justification": "because"}))
}

fn verdict(outcome: &str, risk: &str, authorization: &str) -> Reply {
    Reply::call(
        "verdict",
        &json!({"outcome": outcome, "risk_level": risk, "user_authorization": authorization, "rationale": "the reason"}),
    )
}

fn reviews(it: &Test) -> Vec<Value> {
    it.journal().into_iter().filter_map(|it| it.get("reviewed").cloned()).collect()
}

#[test]
fn an_allowed_crossing_runs_once_without_the_sandbox() {
    for wire in [Wire::Chat, Wire::Messages] {
        let line = "echo x > ../outside && echo $PPID";
        let it = auto().wire(wire).reply(escalated(line)).reply(verdict("allow", "low", "high"));
        let it = it.reply(Reply::call("run_command", &json!({"command": "echo y > ../outside"}))).reply(Reply::text("done"));
        let ran = it.run().status(0);
        assert!(ran.result(0).starts_with("Exit code 0"), "{}", ran.result(0));
        assert!(ran.result(1).contains("Read-only file system"), "the next one is sandboxed again: {}", ran.result(1));
        assert_eq!(std::fs::read(it.beside("outside")).unwrap(), b"x\n");
        let journal = it.journal();
        let bounds: Vec<&Value> = journal.iter().filter_map(|it| it["started"].get("bounds")).collect();
        assert_eq!(bounds, ["unbounded", "workspace"]);
        let review = &reviews(&it)[0];
        assert_eq!(
            (&review["outcome"], &review["risk"], &review["authorization"]),
            (&json!("allowed"), &json!("low"), &json!("high"))
        );
        assert_eq!(review["usage"]["output"], 10);
        // The reviewer saw the user's words and the exact action, and could only look.
        let request = it.fake().requests()[1].clone();
        assert!(request.body.contains("please put x outside") && request.body.contains("echo x > ../outside"), "{}", request.body);
        assert!(request.body.contains("unrestricted files and network") && request.body.contains("because"));
        let tools = request.json()["tools"].to_string();
        assert!(tools.contains("verdict") && tools.contains("read_file") && !tools.contains("edit_file"), "{tools}");
        // Nothing of the review is in the conversation itself.
        assert!(!it.fake().requests()[2].body.contains("proposed_action"));
        let id = it.sessions()[0].clone();
        let it = it.command(["sessions", "show", &id]);
        assert!(it.run().status(0).stdout.contains("review   allowed (risk low, authorization high): the reason"));
    }
}

#[test]
fn the_users_skills_are_read_without_a_review() {
    let it = auto().file("../home/.agents/skills/s/SKILL.md", "how to").file("../home/elsewhere/SKILL.md", "linked");
    std::os::unix::fs::symlink(it.beside("home/elsewhere"), it.beside("home/.agents/skills/out")).unwrap();
    let skill = |name: &str| Reply::call("read_file", &json!({"path": it.beside("home/.agents/skills").join(name)}));
    it.fake().reply([skill("s/SKILL.md"), skill("out/SKILL.md"), verdict("deny", "low", "unknown"), Reply::text("done")]);
    let ran = it.run().status(0);
    assert!(ran.result(0).contains("how to"), "{}", ran.result(0));
    assert!(
        ran.result(1).contains("Rejected by automatic review"),
        "a link out of it is judged by where it leads: {}",
        ran.result(1)
    );
    assert_eq!(it.fake().requests().len(), 4);
}

#[test]
fn a_rejected_crossing_does_not_run_and_says_why() {
    for (outcome, risk, authorization) in [("deny", "low", "high"), ("allow", "critical", "high"), ("allow", "high", "low")] {
        let it = auto()
            .reply(escalated("echo x > ../outside"))
            .reply(verdict(outcome, risk, authorization))
            .reply(Reply::text("stopped"));
        let ran = it.run().status(0);
        assert!(!it.beside("outside").exists());
        assert!(
            ran.result(0).contains("Rejected by automatic review") && ran.result(0).contains("the reason"),
            "{}",
            ran.result(0)
        );
        assert_eq!(reviews(&it)[0]["outcome"], "rejected");
    }
}

#[test]
fn file_tools_are_reviewed_outside_and_never_inside() {
    let write = |path: &str| Reply::call("create_file", &json!({"path": path, "content": "x"}));
    let it = auto().reply(write("inside")).reply(write("../outside")).reply(verdict("allow", "medium", "high"));
    let it = it
        .reply(Reply::call("read_file", &json!({"path": "/etc/hostname"})))
        .reply(verdict("deny", "low", "unknown"))
        .reply(Reply::text("done"));
    let ran = it.run().status(0);
    assert!(it.path("inside").exists() && it.beside("outside").exists());
    assert!(ran.result(2).contains("Rejected"), "{}", ran.result(2));
    assert_eq!(reviews(&it).len(), 2);
}

#[test]
fn without_the_escalation_field_nothing_is_reviewed() {
    let plain = |permissions: &str| ("run_command", json!({"command": "echo hi", "sandbox_permissions": permissions}));
    let it = auto().rounds([plain("use_default"), ("run_command", json!({"command": "echo hi"}))]);
    let _ran = it.run().status(0);
    assert!(reviews(&it).is_empty() && it.fake().requests().len() == 3);
}

#[test]
fn a_reviewer_looks_and_changes_nothing() {
    let it = auto().file("f", "evidence").reply(escalated("true"));
    let it = it.reply(Reply::calls([
        ("read_file", json!({"path": "f"})),
        ("run_command", json!({"command": "cat f; echo x > made; echo y >> f"})),
        ("run_command", json!({"command": "echo x > made2", "sandbox_permissions": "require_escalated"})),
        ("create_file", json!({"path": "made3", "content": ""})),
    ]));
    let it = it.reply(verdict("allow", "low", "low")).reply(Reply::text("done"));
    let _ran = it.run().status(0);
    assert!(!it.path("made").exists() && !it.path("made2").exists() && !it.path("made3").exists() && it.read("f") == b"evidence");
    let looked = &it.fake().requests()[2].body;
    assert!(
        looked.contains("evidence") && looked.contains("Read-only file system") && looked.contains("There is no tool create_file"),
        "{looked}"
    );
    assert_eq!(reviews(&it)[0]["usage"]["output"], 20);
}

#[test]
fn no_judgement_is_neither_allowed_nor_rejected() {
    for (reply, why) in [
        (Reply::text("I think it is fine."), "verdict can't be read"),
        (Reply::call("verdict", &json!({"outcome": "maybe"})), "verdict can't be read"),
        (Reply::Status(401, vec![], r#"{"error":{"message":"no"}}"#.into()), "401 Unauthorized"),
    ] {
        let it = auto().reply(escalated("echo x > ../outside")).reply(reply).reply(Reply::text("done"));
        let ran = it.run().status(0);
        assert!(!it.beside("outside").exists());
        assert!(ran.result(0).contains("no review could be made") && ran.result(0).contains(why), "{}", ran.result(0));
        assert_eq!(reviews(&it)[0]["outcome"], "unavailable");
    }
    // A verdict in words is read all the same.
    let it = auto()
        .reply(escalated("echo x > ../outside"))
        .reply(Reply::text("So: {\"outcome\": \"allow\"}"))
        .reply(Reply::text("done"));
    let _ran = it.run().status(0);
    assert!(it.beside("outside").exists());
}

#[test]
fn three_refusals_in_a_row_end_the_turn_without_another_inference() {
    let it = (0..3)
        .fold(auto(), |it, n| it.reply(escalated(&format!("echo {n} > ../outside"))).reply(verdict("deny", "high", "unknown")));
    let ran = it.run().status(0);
    assert_eq!(it.fake().requests().len(), 6);
    let end = &ran.of_type("result")[0];
    assert_eq!(end["reason"], "review_denials");
    assert!(end["text"].as_str().unwrap().contains("say so in your own words"));
    // The user's next words are authorization, and the session goes on.
    let id = it.sessions()[0].clone();
    it.fake().reply([escalated("echo yes > ../outside"), verdict("allow", "high", "high"), Reply::text("done")]);
    let it = it.command(["run", "yes, write it, I know the risk", "--resume", &id, "--mode", "auto", "--output", "jsonl"]);
    let _ran = it.run().status(0);
    assert!(it.beside("outside").exists());
    assert!(it.fake().requests()[7].body.contains("yes, write it, I know the risk"));
}

#[test]
fn supplements_and_the_review_model_are_used() {
    let it = auto().file("AGENTS_SECURITY.md", "project rule 1").reply(escalated("true")).reply(verdict("deny", "low", "low"));
    let it = it.reply(Reply::call("run_command", &json!({"command": "true"}))).reply(Reply::text("done"));
    let home = it.beside("home/.config/sid");
    std::fs::create_dir_all(&home).unwrap();
    std::fs::write(home.join("SECURITY.md"), "user rule 2").unwrap();
    std::fs::write(home.join("settings.toml"), "[permissions]\nreview_model = 'judge'\n").unwrap();
    let _ran = it.run().status(0);
    let request = it.fake().requests()[1].json();
    let system = request["messages"][0]["content"].as_str().unwrap();
    assert!(system.contains("project rule 1") && system.contains("user rule 2"), "{system}");
    assert_eq!((request["model"].as_str(), it.fake().requests()[0].json()["model"].as_str()), (Some("judge"), Some("fake-model")));
}
