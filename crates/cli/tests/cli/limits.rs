//! Rounds, tokens, time, and the final message.
use std::time::{Duration, Instant};

use serde_json::json;
use sid_testkit::{Reply, Wire};

use crate::{free, sid};

#[test]
fn at_the_round_cap_the_model_gets_one_request_without_tools() {
    for wire in [Wire::Chat, Wire::Messages] {
        let it = free().wire(wire).args(["--max-tool-rounds", "1"]);
        let it = it.reply(Reply::call("run_command", &json!({"command": "echo hi"}))).reply(Reply::text("Summary."));
        let ran = it.run().status(0);
        let requests = it.fake().requests();
        let (first, second) = (requests[0].json(), requests[1].json());
        assert!(first["tools"].is_array());
        match wire {
            Wire::Chat => assert!(second.get("tools").is_none() && second.get("tool_choice").is_none()),
            Wire::Messages => assert_eq!((&second["tool_choice"]["type"], &second["tools"]), (&json!("none"), &first["tools"])),
        }
        assert!(requests[1].body.contains("this was tool round 1 of 1"), "the note is for the model");
        assert!(!ran.result(0).contains("tool round"), "and not in the event");
        let end = &ran.of_type("result")[0];
        assert_eq!((&end["reason"], &end["text"]), (&json!("max_tool_rounds"), &json!("Summary.")));
    }
}

#[test]
fn an_empty_last_word_is_asked_for_once() {
    let it =
        free().reply(Reply::call("list_directory", &json!({"path": "."}))).reply(Reply::text("")).reply(Reply::text("Here it is."));
    let ran = it.run().status(0);
    assert_eq!((it.fake().requests().len(), ran.of_type("result")[0]["text"].as_str()), (3, Some("Here it is.")));
    assert!(it.fake().requests()[2].json().get("tools").is_none());
    // st_10: empty twice is an end all the same, and says so.
    let it = free().reply(Reply::text("")).reply(Reply::text(""));
    let ran = it.run().status(0);
    assert_eq!((it.fake().requests().len(), ran.of_type("result")[0]["text"].as_str()), (2, Some("")));
}

#[test]
fn calls_in_a_round_without_tools_are_dropped() {
    let call = || Reply::call("run_command", &json!({"command": "touch ran"}));
    let it = free().args(["--max-tool-rounds", "1"]).reply(call()).reply(call()).reply(Reply::text("Stopped."));
    let ran = it.run().status(0);
    assert_eq!((ran.of_type("tool_call").len(), ran.of_type("result")[0]["text"].as_str()), (1, Some("Stopped.")));
}

#[test]
fn the_token_limit_ends_the_turn_with_its_reason() {
    let call = || Reply::call("list_directory", &json!({"path": "."}));
    let it = free().args(["--max-tokens-total", "150"]).reply(call()).reply(call()).reply(call());
    let ran = it.run().status(0);
    assert_eq!((ran.of_type("result")[0]["reason"].as_str(), it.fake().requests().len()), (Some("max_tokens_total"), 2));
    // The session is whole: it goes on.
    it.fake().reply([Reply::text("on")]);
    let id = it.sessions()[0].clone();
    let it = it.command(["run", "more", "--resume", &id]);
    assert_eq!(it.run().status(0).stdout, "on\n");
}

#[test]
fn the_time_limit_ends_the_turn_and_its_children() {
    let it = free().args(["--max-seconds", "1"]).reply(Reply::call("run_command", &json!({"command": "sleep 30.77"})));
    let begun = Instant::now();
    let ran = it.run().status(0);
    assert!(begun.elapsed() < Duration::from_secs(5));
    assert_eq!(ran.of_type("result")[0]["reason"], "max_seconds");
    assert!(!crate::shells::alive("sleep 30.77"));
}

#[test]
fn the_output_limit_is_a_reason() {
    let it = sid().args(["hi", "--output", "jsonl"]).reply(Reply::Stops(Box::new(Reply::text("half a")), "length"));
    assert_eq!(it.run().status(0).of_type("result")[0]["reason"], "length");
    let it = sid().args(["hi", "--output", "jsonl"]).reply(Reply::Stops(Box::new(Reply::text("no")), "content_filter"));
    assert_eq!(it.run().status(0).of_type("result")[0]["reason"], "refusal");
}
