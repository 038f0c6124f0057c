//! The reviewer across several reviews.
use std::time::Duration;

use serde_json::{Value, json};
use sid_policy::Mode;
use sid_testkit::Reply;

use crate::{World, block};

const GRACE: Duration = Duration::from_millis(500);

fn escalated(cmd: &str) -> Reply {
    Reply::call("exec_command", &json!({"cmd": cmd, "sandbox_permissions": "require_escalated", "justification": "because"}))
}

fn verdict(outcome: &str) -> Reply {
    Reply::call(
        "verdict",
        &json!({"outcome": outcome, "risk_level": "low", "user_authorization": "high", "rationale": "as \"asked\""}),
    )
}

/// The user messages of a request.
fn asked(request: &Value) -> Vec<String> {
    let all = request["messages"].as_array().unwrap().iter().filter(|it| it["role"] == "user");
    all.map(|it| it["content"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn a_later_review_is_told_what_is_new_and_no_more() {
    block(async {
        let mut world = World::new([
            escalated("echo first"),
            verdict("allow"),
            escalated("echo second"),
            verdict("allow"),
            Reply::text("done"),
        ]);
        let mut engine = world.engine(Mode::Auto).await;
        let (results, _) = world.turn(&mut engine, "please run both outside").await;
        assert!(results.iter().all(|it| it.contains("exited with code 0")), "{results:?}");
        let (first, second) = (asked(&world.request(1)), asked(&world.request(3)));
        assert_eq!((first.len(), second.len()), (1, 2));
        assert_eq!(first[0], second[0], "its own history stays");
        assert!(
            second[1].contains("context for this one, not precedent") && second[1].contains("continued=\"true\""),
            "{}",
            second[1]
        );
        assert!(!second[1].contains("please run both outside"), "what it knows is not sent again: {}", second[1]);
        assert!(second[1].contains("echo second"));
        engine.close(GRACE).await;
    });
}

#[test]
fn an_edited_policy_counts_from_the_next_review_on_and_begins_anew() {
    block(async {
        let mut world = World::new([
            escalated("echo first"),
            verdict("allow"),
            Reply::text("done"),
            escalated("echo second"),
            verdict("allow"),
            Reply::text("done"),
        ]);
        let mut engine = world.engine(Mode::Auto).await;
        let _first = world.turn(&mut engine, "run it outside").await;
        std::fs::write(world.path("SECURITY.md"), format!("Never on Mondays.{}", "x".repeat(40_000))).unwrap();
        let _second = world.turn(&mut engine, "again").await;
        let request = world.request(4);
        let system = request["messages"][0]["content"].as_str().unwrap();
        assert!(system.contains("Never on Mondays.") && system.len() < 40_000, "{}", system.len());
        assert!(asked(&request).len() == 1 && asked(&request)[0].contains("run it outside"), "all is told again");
        engine.close(GRACE).await;
    });
}

#[test]
fn a_review_without_an_end_is_timed_out_and_the_next_is_told_everything() {
    block(async {
        let slow = Reply::Late(Duration::from_secs(5), Box::new(verdict("allow")));
        let mut world =
            World::new([escalated("echo x > ../outside"), slow, escalated("echo again"), verdict("allow"), Reply::text("done")]);
        world.review.time = Some(Duration::from_millis(300));
        let mut engine = world.engine(Mode::Auto).await;
        let (results, _) = world.turn(&mut engine, "please do it outside").await;
        assert!(results[0].contains("did not finish in time") && results[0].contains("unproven, not unsafe"), "{}", results[0]);
        assert!(!world.path("outside").exists());
        let last = asked(&world.request(3));
        assert!(last.len() == 1 && last[0].contains("please do it outside"), "{last:?}");
        engine.close(GRACE).await;
    });
}

#[test]
fn a_reviewer_reaches_no_running_command_and_leaves_none() {
    block(async {
        let mut world = World::new([
            Reply::call("exec_command", &json!({"cmd": "while read -r l; do eval \"$l\"; done", "yield_time_ms": 250})),
            escalated("echo asked"),
            Reply::call("write_stdin", &json!({"session_id": 1, "chars": "touch planted\n"})),
            Reply::call("exec_command", &json!({"cmd": "exec sleep 74.1", "yield_time_ms": 250})),
            verdict("deny"),
            Reply::call("exec_command", &json!({"cmd": "exec sleep 74.2", "yield_time_ms": 250})),
            Reply::text("done"),
        ]);
        let mut engine = world.engine(Mode::Auto).await;
        let (results, _) = world.turn(&mut engine, "go").await;
        assert!(world.request(3).to_string().contains("There is no tool write_stdin"), "{}", world.request(3));
        assert!(!world.path("work/planted").exists() && !crate::alive("74.1"));
        assert!(results[2].contains("session ID 2"), "its ids are not used up: {}", results[2]);
        engine.close(GRACE).await;
    });
}

#[test]
fn input_to_a_running_command_is_reviewed_and_never_lifts_anything() {
    block(async {
        let shell = "while read -r l; do eval \"$l\"; done";
        let mut world = World::new([
            Reply::call("exec_command", &json!({"cmd": shell, "yield_time_ms": 250})),
            Reply::call("write_stdin", &json!({"session_id": 1, "chars": "", "yield_time_ms": 1})),
            Reply::call("write_stdin", &json!({"session_id": 1, "chars": "echo x > ../outside\n", "yield_time_ms": 500})),
            verdict("allow"),
            Reply::call("write_stdin", &json!({"session_id": 1, "chars": "exit 0\n", "yield_time_ms": 500})),
            verdict("deny"),
            Reply::text("done"),
        ]);
        let mut engine = world.engine(Mode::Auto).await;
        let (results, _) = world.turn(&mut engine, "go").await;
        assert!(results[2].contains("Read-only file system") && !world.path("outside").exists(), "{}", results[2]);
        assert!(results[3].contains("Rejected by automatic review"), "{}", results[3]);
        let review = asked(&world.request(3)).pop().unwrap();
        assert!(review.contains("to the input of running command 1"), "{review}");
        assert_eq!(world.fake.requests().len(), 7, "reading alone is not reviewed");
        engine.close(GRACE).await;
    });
}
