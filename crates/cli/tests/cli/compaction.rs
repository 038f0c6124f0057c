//! Conversations that become too long, `/compact`, and the expert who remembers (sid's manual; the cases of context overflow).
use serde_json::{Value, json};
use sid_testkit::{Reply, Test, Wire};

use crate::{free, sid};

const AT_100: &str = "[context]\ncompact_at = 100\n";

fn look() -> Reply {
    Reply::call("read_file", &json!({"path": "f"}))
}

fn limited(it: Test) -> Test {
    it.file("../home/.config/sid/settings.toml", AT_100).file("f", "words of the file")
}

fn words(request: &Value) -> Vec<String> {
    let text = |it: &Value| it.as_str().map_or_else(|| it.to_string(), str::to_owned);
    request["messages"].as_array().unwrap().iter().map(|it| text(&it["content"])).collect()
}

fn tools(request: &Value) -> Vec<String> {
    let all = request["tools"].as_array().cloned().unwrap_or_default();
    all.iter().map(|it| it.pointer("/function/name").unwrap_or(&it["name"]).as_str().unwrap().to_owned()).collect()
}

#[test]
fn a_conversation_that_is_long_is_summarised_and_the_turn_goes_on() {
    for wire in [Wire::Chat, Wire::Messages] {
        let it = limited(free()).wire(wire);
        it.fake().reply([look(), Reply::text("SUMMARY of it"), Reply::text("done")]);
        let ran = it.run().status(0);
        assert_eq!(ran.of_type("result")[0]["text"], "done");
        let all: Vec<Value> = it.fake().requests().iter().map(|it| it.json()).collect();
        let (asked, after) = (words(&all[1]), words(&all[2]));
        assert!(asked.last().unwrap().contains("Write a hand-off") && asked.concat().contains("words of the file"), "{asked:?}");
        let first = after.iter().find(|it| it.contains("SUMMARY of it")).unwrap();
        assert!(first.contains("The user's last message, in full:") && first.contains("go"), "{first}");
        assert!(!after.concat().contains("words of the file"), "{after:?}");
        assert!(!tools(&all[1]).contains(&"ask_an_expert".to_owned()) || wire == Wire::Chat);
        assert!(tools(&all[2]).contains(&"ask_an_expert".to_owned()));
        // Resuming is continuing, from the summary.
        let id = it.sessions()[0].clone();
        assert!(it.journal().iter().any(|it| it["compacted"]["summary"] == "SUMMARY of it"));
        let it = it.args(["--resume", &id]).reply(Reply::text("still here"));
        let ran = it.run().status(0);
        assert_eq!(ran.of_type("result")[0]["text"], "still here");
        let last = it.fake().requests().pop().unwrap().json();
        assert!(words(&last).concat().contains("SUMMARY of it") && tools(&last).contains(&"ask_an_expert".to_owned()));
    }
}

#[test]
fn the_expert_answers_from_all_that_was_said() {
    let it = limited(free());
    it.fake().reply([
        look(),
        // Long enough that what follows is not worth another one.
        Reply::text(&"SUMMARY ".repeat(60)),
        Reply::call("ask_an_expert", &json!({"question": "What did the file say?"})),
        Reply::text("words of the file"),
        Reply::call("ask_an_expert", &json!({"question": " "})),
        Reply::text("done"),
    ]);
    let ran = it.args(["--max-tokens-total", "100000"]);
    let it = ran;
    let ran = it.run().status(0);
    assert_eq!(ran.result(1), "words of the file");
    assert!(ran.result(2).contains("question must not be empty"), "{}", ran.result(2));
    let asked = it.fake().requests()[3].json();
    let said = words(&asked);
    assert!(said[0].contains("answer exactly: I don't know") && said.concat().contains("words of the file"), "{said:?}");
    assert!(said.last().unwrap().contains("What did the file say?"));
    assert_eq!(it.sessions().len(), 1, "nothing is kept of asking");
}

#[test]
fn a_refused_length_is_mended_once() {
    let long = || {
        Reply::Status(400, Vec::new(), r#"{"error":{"message":"This model's maximum context length is 4096 tokens"}}"#.to_owned())
    };
    let it = free().file("f", "x".repeat(9_000));
    it.fake().reply([look(), long(), long(), Reply::text("SHORT"), Reply::text("done")]);
    let ran = it.run().status(0);
    assert_eq!(ran.of_type("result")[0]["text"], "done");
    let all: Vec<Value> = it.fake().requests().iter().map(|it| it.json()).collect();
    // Asked in full, refused; asked with outcomes cut, answered.
    assert!(all[2].to_string().len() > all[3].to_string().len() && all[3].to_string().contains("bytes left out"), "{}", all[3]);
    assert!(words(&all[4]).concat().contains("SHORT"));
}

#[test]
fn cx_01_compaction_that_does_not_help_ends_with_the_cause() {
    let long = || Reply::Status(413, Vec::new(), "{}".to_owned());
    let it = free().file("f", "x");
    it.fake().reply([look(), long(), Reply::text("SUMMARY"), long()]);
    let ran = it.run().status(1);
    let said = ran.of_type("error")[0]["message"].as_str().unwrap().to_owned();
    assert!(said.contains("too long") && said.contains("was compacted and is still too long"), "{said}");
    assert_eq!(it.fake().requests().len(), 4);
    let it = free().file("f", "x");
    it.fake().reply([look(), long(), long(), long(), long(), long(), long()]);
    let ran = it.run().status(1);
    assert!(ran.of_type("error")[0]["message"].as_str().unwrap().contains("could not be summarised"), "{}", ran.stdout);
}

#[test]
fn a_summary_that_failed_is_tried_again_at_the_next_refusal() {
    let long = || Reply::Status(413, Vec::new(), "{}".to_owned());
    let broken = Reply::Status(400, Vec::new(), r#"{"error":{"message":"no"}}"#.to_owned());
    let it = sid().command(["--plain"]).stdin("one\ntwo\n");
    it.fake().reply([long(), broken, long(), Reply::text("SUMMARY"), Reply::text("done")]);
    let ran = it.run().status(0);
    assert_eq!(ran.stdout, "done\n", "{}", ran.stderr);
    assert!(ran.stderr.contains("could not be summarised") && !ran.stderr.contains("still too long"), "{}", ran.stderr);
}

#[test]
fn compact_goes_on_in_a_session_of_its_own() {
    let it = sid()
        .command(["--plain", "--mode", "workspace_write"])
        .stdin("remember 4711\n/compact\nwhat was it?\n/compact\nand now?\n");
    it.fake().reply([
        Reply::text("remembered"),
        Reply::text("FIRST summary"),
        Reply::call("ask_an_expert", &json!({"question": "which number?"})),
        Reply::text("4711"),
        Reply::text("it was 4711"),
        Reply::text("SECOND summary"),
        Reply::call("ask_an_expert", &json!({"question": "which number?"})),
        Reply::call("ask_an_expert", &json!({"question": "which number, at the start?"})),
        Reply::text("4711, they said"),
        Reply::text("the older one says 4711"),
        Reply::text("again 4711"),
    ]);
    let ran = it.run().status(0);
    assert_eq!(ran.stdout, "remembered\nit was 4711\nagain 4711\n", "{}", ran.stderr);
    let ids = it.sessions();
    assert_eq!(ids.len(), 3);
    for id in &ids {
        let good = id.len() == 31 && id.as_bytes()[10] == b'T' && id.as_bytes()[19] == b'.';
        assert!(good, "a person's sessions have the local time as their id: {id}");
    }
    let meta = |id: &str| -> Value {
        let path = it.journal_path(id).with_file_name("session.json");
        serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
    };
    let mut sorted = ids;
    sorted.sort();
    assert_eq!(meta(&sorted[0])["compacted_from"], Value::Null);
    let first = meta(&sorted[0]);
    let (text, micros) = (first["created_at"].as_str().unwrap(), first["created_unix_micros"].as_u64().unwrap());
    assert!(text.len() == 32 && sorted[0].starts_with(&text[..10]) && micros > 1_700_000_000_000_000, "{first}");
    assert!(first["pid"].as_u64().is_some() && first["id"] == sorted[0].as_str(), "{first}");
    assert_eq!(meta(&sorted[1])["compacted_from"]["session_id"], json!(sorted[0]));
    assert_eq!(meta(&sorted[2])["compacted_from"]["session_id"], json!(sorted[1]));
    let all: Vec<Value> = it.fake().requests().iter().map(|it| it.json()).collect();
    let child = words(&all[2]);
    assert!(child[1].contains(&sorted[0]) && child[1].contains("ask_an_expert") && child[2] == "FIRST summary", "{child:?}");
    assert!(words(&all[8]).concat().contains("remember 4711"), "the second expert asked the first one");
}

#[test]
fn the_expert_is_the_model_that_is_talked_to() {
    let it = sid().command(["--plain", "--mode", "workspace_write"]).stdin("start\n/compact\n/model other-one\nask\n");
    it.fake().reply([
        Reply::text("begun"),
        Reply::text("SUMMARY"),
        Reply::call("ask_an_expert", &json!({"question": "how did it begin?"})),
        Reply::text("with start"),
        Reply::text("done"),
    ]);
    let ran = it.run().status(0);
    assert_eq!(ran.stdout, "begun\ndone\n", "{}", ran.stderr);
    let models: Vec<String> = it.fake().requests().iter().map(|it| it.json()["model"].as_str().unwrap().to_owned()).collect();
    assert!(models[..2].iter().all(|it| it != "other-one") && models[2..].iter().all(|it| it == "other-one"), "{models:?}");
}

#[test]
fn experts_ask_each_other_only_so_far() {
    let lines = format!("start\n{}ask\n", "/compact\n".repeat(9));
    let it = sid().command(["--plain", "--mode", "workspace_write"]).stdin(lines);
    let ask = || Reply::call("ask_an_expert", &json!({"question": "how did it begin?"}));
    it.fake().reply([Reply::text("begun")]);
    it.fake().reply((0..9).map(|n| Reply::text(&format!("SUMMARY {n}"))));
    it.fake().reply((0..9).map(|_| ask()));
    it.fake().reply((1..=8).rev().map(|n| Reply::text(&format!("passed on by {n}"))));
    it.fake().reply([Reply::text("done")]);
    let ran = it.run().status(0);
    assert_eq!(ran.stdout, "begun\ndone\n", "{}", ran.stderr);
    let all: Vec<Value> = it.fake().requests().iter().map(|it| it.json()).collect();
    assert_eq!(all.len(), 28, "the ninth expert is not asked");
    assert_eq!(words(&all[19]).last().unwrap(), "I don't know");
    assert_eq!(words(&all[27]).last().unwrap(), "passed on by 1");
}

#[test]
fn the_compact_agents_prompt_is_used_and_a_failure_leaves_the_session() {
    let it = sid().command(["--plain", "--mode", "workspace_write"]).stdin("hello\n/compact\nstill there?\n/compact\nyes?\n");
    let it = it
        .file("../home/.config/sid/agents.conf", "build_ENABLED=YES\ncompact_ENABLED=NO\ncompact_SYSTEM='You shorten.'\n")
        .file("../home/.config/sid/tools.conf", "");
    it.fake().reply([
        Reply::text("hi"),
        Reply::Status(400, Vec::new(), r#"{"error":{"message":"no"}}"#.to_owned()),
        Reply::text("yes"),
        Reply::text("SUM"),
        Reply::text("here"),
    ]);
    let ran = it.run().status(0);
    assert_eq!(ran.stdout, "hi\nyes\nhere\n", "{}", ran.stderr);
    assert!(ran.stderr.contains("The session is as it was."), "{}", ran.stderr);
    assert_eq!(it.sessions().len(), 2);
    assert_eq!(words(&it.fake().requests()[1].json())[0], "You shorten.");
}
