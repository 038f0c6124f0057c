//! A mode that changes in the middle of things.
use std::time::Duration;

use serde_json::json;
use sid_core::Outcome;
use sid_engine::Engine;
use sid_policy::{Access, Acts, Mode, Reviewed};
use sid_testkit::Reply;
use sid_tools::{Plan, Tool, View};

use crate::{World, alive, block, until_alive};

const GRACE: Duration = Duration::from_millis(500);

fn exec(cmd: &str, wait: u64) -> (&'static str, serde_json::Value) {
    ("exec_command", json!({"cmd": cmd, "yield_time_ms": wait}))
}

fn escalated(cmd: &str) -> (&'static str, serde_json::Value) {
    ("exec_command", json!({"cmd": cmd, "sandbox_permissions": "require_escalated", "justification": "because"}))
}

fn allow() -> Reply {
    Reply::call(
        "verdict",
        &json!({"outcome": "allow", "risk_level": "low", "user_authorization": "high", "rationale": "asked for"}),
    )
}

#[test]
fn a_reduction_ends_what_exceeds_it_and_the_model_is_told() {
    block(async {
        let mut world = World::new([
            Reply::calls([exec("exec sleep 71.1", 250)]),
            Reply::calls([exec("exec sleep 71.2", 30_000)]),
            Reply::calls([("create_file", json!({"path": "f", "content": "x"}))]),
            Reply::text("done"),
        ]);
        let mut engine = world.engine(Mode::FullAccess).await;
        let permissions = engine.permissions();
        let change = async {
            until_alive("71.2").await;
            permissions.set_mode(Mode::ReadOnly);
        };
        let ((results, _), ()) = tokio::join!(world.turn(&mut engine, "go"), change);
        assert!(!alive("71.1") && !alive("71.2"), "both reached further than read_only");
        assert!(results[1].contains("was killed") || results[1].contains("exited with code 143"), "{}", results[1]);
        assert!(results[2].contains("mode read_only"), "{}", results[2]);
        assert!(world.request(2).to_string().contains("[sid: the user changed the mode to read_only.]"));
        assert!(!world.path("work/f").exists());
        engine.close(GRACE).await;
    });
}

#[test]
fn a_change_that_reduces_nothing_ends_nothing() {
    block(async {
        let mut world =
            World::new([Reply::calls([exec("exec sleep 71.3", 250)]), Reply::calls([exec("echo on", 5000)]), Reply::text("done")]);
        let mut engine = world.engine(Mode::WorkspaceWrite).await;
        let permissions = engine.permissions();
        let change = async {
            until_alive("71.3").await;
            permissions.set_mode(Mode::Auto);
            permissions.set_mode(Mode::WorkspaceWrite);
        };
        let _both = tokio::join!(world.turn(&mut engine, "go"), change);
        assert!(alive("71.3"), "it never reached further than the workspace");
        engine.close(GRACE).await;
        assert!(!alive("71.3"));
    });
}

/// An approved crossing waits behind a slow command of its batch; meanwhile the mode changes.
async fn approved_then(mode: Mode) -> (World, Vec<String>, Engine) {
    let mut world =
        World::new([Reply::calls([exec("exec sleep 0.71", 5000), escalated("echo x > ../outside")]), allow(), Reply::text("done")]);
    let mut engine = world.engine(Mode::Auto).await;
    let permissions = engine.permissions();
    let change = async {
        until_alive("0.71").await;
        permissions.set_mode(mode);
    };
    let ((results, _), ()) = tokio::join!(world.turn(&mut engine, "please write outside"), change);
    (world, results, engine)
}

#[test]
fn an_approval_ends_with_the_mode_it_was_given_in() {
    block(async {
        for mode in [Mode::WorkspaceWrite, Mode::ReadOnly, Mode::Manual] {
            let (world, results, engine) = approved_then(mode).await;
            let said = format!("Not run: the mode changed to {mode} before it could start.");
            assert!(results.contains(&said), "{mode}: {results:?}");
            assert!(!world.path("outside").exists(), "{mode}");
            engine.close(GRACE).await;
        }
        let (world, _, engine) = approved_then(Mode::FullAccess).await;
        assert!(world.path("outside").exists(), "full access needs no approval");
        engine.close(GRACE).await;
    });
}

#[test]
fn only_the_elevated_call_of_a_batch_leaves_the_sandbox_and_reviews_come_first() {
    block(async {
        let look = Reply::calls([("exec_command", json!({"cmd": "ls .."}))]);
        let mut world = World::new([
            Reply::calls([escalated("echo x > ../first"), exec("echo x > ../plain", 5000), escalated("echo x > ../second")]),
            allow(),
            look,
            allow(),
            Reply::text("done"),
        ]);
        let mut engine = world.engine(Mode::Auto).await;
        let (results, _) = world.turn(&mut engine, "please write first and second outside").await;
        assert!(world.path("first").exists() && world.path("second").exists() && !world.path("plain").exists());
        assert!(results[1].contains("Read-only file system"), "{results:?}");
        let second = world.request(3).to_string();
        assert!(second.contains("home") && !second.contains("\\nfirst"), "nothing ran before all was reviewed: {second}");
        engine.close(GRACE).await;
    });
}

#[test]
fn cancelling_a_turn_ends_what_is_waited_for_and_spares_the_background() {
    block(async {
        let mut world = World::new([Reply::calls([exec("exec sleep 71.5", 250)]), Reply::calls([exec("exec sleep 71.6", 30_000)])]);
        let mut engine = world.engine(Mode::WorkspaceWrite).await;
        let stop = world.stop.clone();
        let cancel = async {
            until_alive("71.6").await;
            stop.send_replace(true);
        };
        let ((_, end), ()) = tokio::join!(world.turn(&mut engine, "go"), cancel);
        assert_eq!(end.reason, "interrupted");
        assert!(alive("71.5") && !alive("71.6"));
        // The next turn still reads it.
        world.stop.send_replace(false);
        world.fake.reply([Reply::call("write_stdin", &json!({"session_id": 1, "yield_time_ms": 1})), Reply::text("done")]);
        let (results, _) = world.turn(&mut engine, "and now").await;
        assert!(results[0].contains("session ID 1"), "{results:?}");
        engine.close(GRACE).await;
        assert!(!alive("71.5"));
    });
}

/// A tool that acts where sid can't hold it.
struct Outside {
    /// What a reviewer is asked about; `None` is a defect.
    action: Option<&'static str>,
}

impl Tool for Outside {
    fn name(&self) -> &'static str {
        "outside"
    }
    fn description(&self) -> &'static str {
        "acts elsewhere"
    }
    fn schema(&self) -> &'static str {
        r#"{"type":"object","properties":{}}"#
    }
    fn auto_guidance(&self) -> Option<&'static str> {
        Some("Outside is reviewed each time.")
    }
    fn plan(&self, _: &str, _: &View) -> Result<Plan, String> {
        let mut access = Access::none("outside", "outside");
        (access.acts, access.reviewed, access.mutates) = (Acts::Elsewhere, Reviewed::Always, true);
        access.action = self.action.map(str::to_owned);
        Ok(Plan { label: "outside".into(), access, action: Box::new(|_, _| Box::pin(async { Outcome::ok("acted") })) })
    }
}

async fn outside(mode: Mode, action: Option<&'static str>, review: Option<Reply>) -> (World, String) {
    let replies = [Some(Reply::call("outside", &json!({}))), review, Some(Reply::text("done"))];
    let mut world = World::new(replies.into_iter().flatten());
    world.tools.push(Box::new(Outside { action }));
    let mut engine = world.engine(mode).await;
    let (results, _) = world.turn(&mut engine, "go").await;
    engine.close(GRACE).await;
    (world, results[0].clone())
}

#[test]
fn what_acts_elsewhere_needs_auto_or_full_access() {
    block(async {
        for mode in [Mode::Plan, Mode::ReadOnly, Mode::WorkspaceWrite] {
            let (_, said) = outside(mode, Some("acting elsewhere"), None).await;
            assert!(said.contains("requires auto or full_access"), "{mode}: {said}");
        }
        let (_, said) = outside(Mode::FullAccess, Some("acting elsewhere"), None).await;
        assert_eq!(said, "acted");
        let (world, said) = outside(Mode::Auto, Some("acting \u{202e}elsewhere"), Some(allow())).await;
        assert_eq!(said, "acted");
        assert!(world.request(1).to_string().contains("acting "), "the reviewer reads the tool's own words");
        let system = world.request(0)["messages"][0]["content"].to_string();
        assert!(system.contains("Outside is reviewed each time."), "{system}");
        let (world, _) = outside(Mode::FullAccess, None, None).await;
        assert!(!world.request(0)["messages"][0]["content"].to_string().contains("Outside is reviewed"), "guidance is for auto");
    });
}

#[test]
fn a_tool_that_wants_a_review_of_nothing_in_particular_is_in_error() {
    block(async {
        let (world, said) = outside(Mode::Auto, None, None).await;
        assert!(said.contains("does not say of what") && said.contains("not run"), "{said}");
        assert_eq!(world.fake.requests().len(), 2, "no review was made");
    });
}
