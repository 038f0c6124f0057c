//! What endpoints really send, and what is said when they fail.
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use sid_testkit::{Reply, Test, Wire};

use crate::{free, sid};

fn chat(delta: &Value, finish: Option<&str>) -> Vec<u8> {
    format!("data: {}\n\n", json!({"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]})).into_bytes()
}

const DONE: &[u8] = b"data: [DONE]\n\n";

#[test]
fn st_01_text_cut_at_every_byte() {
    for (wire, crlf) in [(Wire::Chat, "\n"), (Wire::Chat, "\r\n"), (Wire::Messages, "\r\n")] {
        let text = "naïve 日本 🙂";
        let frames = match wire {
            Wire::Chat => format!(
                "data: {}\n\ndata: {}\n\ndata: [DONE]\n\n",
                json!({"choices": [{"index": 0, "delta": {"content": text}}]}),
                json!({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
            ),
            Wire::Messages => format!(
                "event: content_block_start\ndata: {}\n\ndata: {}\n\ndata: {}\n\ndata: {}\n\n",
                json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}),
                json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": text}}),
                json!({"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {}}),
                json!({"type": "message_stop"})
            ),
        };
        let bytes = frames.replace('\n', crlf).into_bytes();
        let it = sid().wire(wire).args(["hi"]).reply(Reply::Raw(bytes.iter().map(|it| vec![*it]).collect()));
        assert_eq!(it.run().status(0).stdout, format!("{text}\n"));
        assert!(it.journal().iter().any(|it| it["assistant"]["parts"][0]["text"] == text));
    }
}

/// Two reads, in every shape that endpoints send parallel calls in.
#[test]
fn st_08_parallel_calls_in_every_shape() {
    let f = |name: &str, args: &str| json!({"name": name, "arguments": args});
    let (a, b) = (r#"{"path":"a.txt"}"#, r#"{"path":"b.txt"}"#);
    let shapes: Vec<(&str, Vec<Value>)> = vec![
        (
            "all index 0",
            vec![
                json!([{"index": 0, "id": "1", "function": f("read_file", a)}]),
                json!([{"index": 0, "id": "2", "function": f("read_file", b)}]),
            ],
        ),
        (
            "no index",
            vec![json!([{"id": "1", "function": f("read_file", a)}]), json!([{"id": "2", "function": f("read_file", b)}])],
        ),
        (
            "both in one delta, no index",
            vec![json!([{"id": "1", "function": f("read_file", a)}, {"id": "2", "function": f("read_file", b)}])],
        ),
        (
            "interleaved, id once",
            vec![
                json!([{"index": 0, "id": "1", "function": f("read_file", "")}, {"index": 1, "id": "2", "function": f("read_file", "")}]),
                json!([{"index": 0, "function": {"arguments": &a[..5]}}, {"index": 1, "function": {"arguments": &b[..9]}}]),
                json!([{"index": 1, "function": {"arguments": &b[9..]}}, {"index": 0, "function": {"arguments": &a[5..]}}]),
            ],
        ),
        (
            "first index 1",
            vec![
                json!([{"index": 1, "id": "1", "function": f("read_file", a)}]),
                json!([{"index": 2, "id": "2", "function": f("read_file", b)}]),
            ],
        ),
        (
            "later deltas with empty id and name",
            vec![
                json!([{"index": 0, "id": "1", "function": f("read_file", "")}]),
                json!([{"index": 0, "id": "", "function": f("", a)}]),
                json!([{"index": 1, "id": "2", "function": f("read_file", "")}]),
                json!([{"index": 1, "id": "", "function": f("", b)}]),
            ],
        ),
        (
            "id and name apart",
            vec![
                json!([{"index": 0, "id": "1"}]),
                json!([{"index": 0, "function": {"name": "read_file"}}]),
                json!([{"index": 0, "function": {"arguments": a}}]),
                json!([{"index": 1, "id": "2"}, {"index": 1, "function": f("read_file", b)}]),
            ],
        ),
        (
            "no id at all",
            vec![json!([{"index": 0, "function": f("read_file", a)}]), json!([{"index": 1, "function": f("read_file", b)}])],
        ),
        ("no id, no index", vec![json!([{"function": f("read_file", a)}]), json!([{"function": f("read_file", b)}])]),
        (
            "the same id twice",
            vec![
                json!([{"index": 0, "id": "1", "function": f("read_file", a)}]),
                json!([{"index": 1, "id": "", "function": f("read_file", b)}]),
            ],
        ),
        (
            "arguments as an object",
            vec![
                json!([{"index": 0, "id": "1", "function": {"name": "read_file", "arguments": {"path": "a.txt"}}}]),
                json!([{"index": 1, "id": "2", "function": {"name": "read_file", "arguments": {"path": "b.txt"}}}]),
            ],
        ),
    ];
    for (name, deltas) in shapes {
        let mut frames: Vec<Vec<u8>> = deltas.iter().map(|it| chat(&json!({ "tool_calls": it }), None)).collect();
        frames.extend([chat(&json!({}), Some("tool_calls")), DONE.to_vec()]);
        let it = free().file("a.txt", "AAA").file("b.txt", "BBB").reply(Reply::Raw(frames)).reply(Reply::text("ok"));
        let ran = it.run().status(0);
        assert_eq!((ran.of_type("tool_call").len(), ran.result(0), ran.result(1)), (2, "AAA".into(), "BBB".into()), "{name}");
        let calls = it.fake().requests()[1].json()["messages"][2]["tool_calls"].clone();
        assert_ne!(calls[0]["id"], calls[1]["id"], "{name}");
    }
}

#[test]
fn st_09_cut_arguments_are_never_executed() {
    for (stop, told) in [("length", "output limit"), ("tool_calls", "not valid JSON|failed to parse")] {
        let call = Reply::Calls(String::new(), vec![("create_file".into(), r#"{"path": "new.txt", "content": "half"#.into())]);
        let it = free().reply(Reply::Stops(Box::new(call), stop)).reply(Reply::text("ok"));
        let ran = it.run().status(0);
        assert!(!it.path("new.txt").exists());
        assert!(told.split('|').any(|it| ran.result(0).contains(it)), "{stop}: {}", ran.result(0));
    }
    // The stream ends in the middle of the call: nothing is run, the request is tried again.
    let half = vec![chat(
        &json!({"tool_calls": [{"index": 0, "id": "1", "function": {"name": "create_file", "arguments": "{\"path\": \"n"}}]}),
        None,
    )];
    let it = free().reply(Reply::Cut(half)).reply(Reply::text("again"));
    assert_eq!(it.run().status(0).of_type("result")[0]["text"], "again");
    assert!(!it.path("n").exists());
}

#[test]
fn st_10_reasons_that_do_not_fit() {
    let call = || Reply::call("list_directory", &json!({"path": "."}));
    let it = free().reply(Reply::Stops(Box::new(call()), "stop")).reply(Reply::Stops(Box::new(Reply::text("end")), "tool_calls"));
    assert_eq!(it.run().status(0).of_type("result")[0]["text"], "end");
    let it = free().reply(Reply::Stops(Box::new(Reply::text("odd")), "eos_token"));
    assert_eq!(it.run().status(0).of_type("result")[0]["text"], "odd");
}

#[test]
fn st_12_arguments_that_are_not_json_become_a_result_for_the_model() {
    let raw = |args: &str| Reply::Calls(String::new(), vec![("read_file".into(), args.into())]);
    for (args, want) in [
        (r#"{"path": "a" "b"}"#, "column"),
        ("", "missing required parameter"),
        ("\"{}\"", "missing required parameter"),
        (r#"{"path":"a.txt",}"#, "trailing comma"),
    ] {
        let it = free().file("a.txt", "A").reply(raw(args)).reply(Reply::text("ok"));
        let ran = it.run().status(0);
        assert!(ran.result(0).contains(want), "{args}: {}", ran.result(0));
        assert_eq!(ran.of_type("tool_call")[0]["arguments"], args, "the event shows the model's own words");
    }
    let it = free().file("a.txt", "A").reply(raw(r#""{\"path\":\"a.txt\"}""#)).reply(Reply::text("ok"));
    assert_eq!(it.run().status(0).result(0), "A");
}

#[test]
fn ss_01_a_call_of_an_impossible_name_does_not_poison_the_session() {
    for wire in [Wire::Chat, Wire::Messages] {
        let odd = |name: &str| Reply::Calls(String::new(), vec![(name.into(), "{}".into())]);
        let it = free().wire(wire).reply(odd("functions.read file/日")).reply(odd(&"x".repeat(200))).reply(Reply::text("ok"));
        let ran = it.run().status(0);
        assert_eq!((ran.of_type("result")[0]["text"].as_str(), ran.of_type("tool_result").len()), (Some("ok"), 2));
    }
}

#[test]
fn unknown_tools_are_named_to_the_model() {
    let it = free().reply(Reply::call("teleport", &json!({}))).reply(Reply::text("ok"));
    let said = it.run().status(0).result(0);
    assert!(said.contains("Unknown tool: teleport") && said.contains("read_file"), "{said}");
}

#[test]
fn stream_options_refused_once_and_remembered() {
    let refusal = Reply::Status(400, vec![], r#"{"error":{"message":"unknown field stream_options"}}"#.into());
    let it = free().reply(refusal).reply(Reply::call("list_directory", &json!({"path": "."}))).reply(Reply::text("ok"));
    let _ran = it.run().status(0);
    let has: Vec<bool> = it.fake().requests().iter().map(|it| it.body.contains("stream_options")).collect();
    assert_eq!(has, [true, false, false]);
}

#[test]
fn hl_01_failures_name_host_status_and_remedy() {
    let host = |it: &Test| it.fake().url().replace("http://", "");
    for (code, body, want) in [
        (401, r#"{"error":{"message":"bad key sk-test-key-1234"}}"#, &["401", "bad key [key]", "Check OPENAI_API_KEY"][..]),
        (404, r#"{"error":{"message":"no such model"}}"#, &["404", "no such model", "Check the model name ('fake-model')"]),
        (429, r#"{"error":{"code":"insufficient_quota","message":"pay"}}"#, &["429", "quota is used up"]),
        (302, "", &["302", "keys are sent only to the host that was configured"]),
        (400, "<html>proxy</html>", &["400 Bad Request."]),
    ] {
        let it = sid().args(["hi", "--output", "jsonl"]).reply(Reply::Status(code, vec![], body.into()));
        let ran = it.run().status(1);
        let message = ran.of_type("error")[0]["message"].as_str().unwrap().to_owned();
        assert!(want.iter().all(|it| message.contains(it)) && message.contains(&host(&it)), "{code}: {message}");
        assert_eq!((ran.of_type("session").len(), ran.of_type("result").len(), it.fake().requests().len()), (1, 0, 1));
    }
}

#[test]
fn hl_01_tries_are_used_up_and_counted() {
    let it =
        (0..5).fold(sid().args(["hi"]), |it, _| it.reply(Reply::Status(500, vec![], r#"{"error":{"message":"boom"}}"#.into())));
    let ran = it.run().status(1);
    assert_eq!(it.fake().requests().len(), 5);
    assert!(
        ran.stderr.contains("500 Internal Server Error: boom") && ran.stderr.contains("Gave up after 5 tries"),
        "{}",
        ran.stderr
    );
}

#[test]
fn an_unreachable_host_is_named() {
    let it = sid().args(["hi", "--model", "m"]).env("OPENAI_BASE_URL", "http://127.0.0.1:9/v1");
    let ran = it.run().status(1);
    assert!(ran.stderr.contains("request to 127.0.0.1:9 failed") && ran.stderr.contains("base URL"), "{}", ran.stderr);
    assert!(ran.stderr.contains("Gave up after 3 tries"), "{}", ran.stderr);
}

#[test]
fn st_05_errors_inside_a_200() {
    let error = b"data: {\"error\":{\"message\":\"Overloaded\"}}\n\n".to_vec();
    // First: tried again.
    let it = sid().args(["hi"]).reply(Reply::Raw(vec![error.clone()])).reply(Reply::text("ok"));
    let ran = it.run().status(0);
    assert!(ran.stdout == "ok\n" && ran.stderr.contains("Overloaded") && ran.stderr.contains("Trying again"), "{}", ran.stderr);
    // After something was shown: an error, and what was shown is kept.
    let it = sid().args(["hi", "--output", "jsonl"]).reply(Reply::Raw(vec![chat(&json!({"content": "half"}), None), error]));
    let ran = it.run().status(1);
    assert_eq!(ran.of_type("assistant_delta")[0]["text"], "half");
    assert!(ran.of_type("error")[0]["message"].as_str().unwrap().contains("Overloaded"));
    assert!(it.journal().iter().any(|it| it["assistant"]["partial"] == true && it["assistant"]["parts"][0]["text"] == "half"));
    // Nothing at all; a JSON error; a web page.
    let it = sid().args(["hi"]).reply(Reply::Raw(vec![])).reply(Reply::text("ok"));
    assert_eq!(it.run().status(0).stdout, "ok\n");
    let it = sid()
        .args(["hi"])
        .reply(Reply::Whole("application/json", r#"{"error":{"message":"busy"}}"#.into()))
        .reply(Reply::text("ok"));
    let ran = it.run().status(0);
    assert!(ran.stderr.contains("busy"), "{}", ran.stderr);
    let ran = sid().args(["hi"]).reply(Reply::Whole("text/html", "<html>portal</html>".into())).run().status(1);
    assert!(ran.stderr.contains("web page instead of a model's answer"), "{}", ran.stderr);
}

#[test]
fn an_answer_without_end_is_cut_off() {
    let piece = vec![b'x'; 1 << 20];
    let it = sid().args(["hi"]).reply(Reply::Raw((0..80).map(|_| piece.clone()).collect()));
    assert!(it.run().status(1).stderr.contains("larger than 64 MiB"));
}

#[test]
fn an_answer_that_was_not_streamed_is_taken() {
    let chat = json!({"choices": [{"index": 0, "message": {"role": "assistant", "content": "whole"}, "finish_reason": "stop"}]});
    assert_eq!(sid().args(["hi"]).reply(Reply::Whole("application/json", chat.to_string())).run().status(0).stdout, "whole\n");
    let message =
        json!({"type": "message", "content": [{"type": "text", "text": "whole"}], "stop_reason": "end_turn", "usage": {}});
    let it = sid().wire(Wire::Messages).args(["hi"]).reply(Reply::Whole("application/json", message.to_string()));
    assert_eq!(it.run().status(0).stdout, "whole\n");
}

#[test]
fn st_06_retry_after_is_obeyed_bounded_and_said() {
    let busy = |after: &str| Reply::Status(429, vec![("retry-after", after.into())], r#"{"error":{"message":"slow down"}}"#.into());
    let it = sid().args(["hi"]).reply(busy("2")).reply(Reply::Status(529, vec![], String::new())).reply(Reply::text("ok"));
    let ran = it.run().status(0);
    let at: Vec<Instant> = it.fake().requests().iter().map(|it| it.at).collect();
    assert!(at[1] - at[0] >= Duration::from_millis(1950), "{:?}", at[1] - at[0]);
    assert!(ran.stderr.contains("Trying again in 2.0 s"), "{}", ran.stderr);
    let it = sid().args(["hi"]).reply(busy("86400"));
    let ran = it.run().status(1);
    assert!(ran.stderr.contains("86400 s") && it.fake().requests().len() == 1, "{}", ran.stderr);
    let it = sid().args(["hi"]).reply(busy("Wed, 21 Oct 2015 07:28:00 GMT")).reply(Reply::text("ok"));
    let _ran = it.run().status(0);
}

#[test]
fn a_wait_between_tries_can_be_interrupted() {
    let it = sid().args(["hi"]).reply(Reply::Status(429, vec![("retry-after", "30".into())], String::new()));
    let child = it.start();
    it.fake().wait_for(1);
    crate::shells::signal(&child, "INT");
    let begun = Instant::now();
    let _ran = it.finish(child).status(130);
    assert!(begun.elapsed() < Duration::from_secs(2));
}

#[test]
fn a_start_that_hangs_can_be_interrupted() {
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let it = sid().args(["hi"]).env("OPENAI_BASE_URL", &format!("http://{}/v1", silent.local_addr().unwrap()));
    let child = it.start();
    let _held = silent.accept().unwrap();
    crate::shells::signal(&child, "TERM");
    let _ran = it.finish(child).status(143);
}

#[test]
fn cx_04_every_request_extends_the_one_before() {
    for wire in [Wire::Chat, Wire::Messages] {
        let call = |n: u32| Reply::call("run_command", &json!({"command": format!("echo {n}")}));
        let it = free().wire(wire).reply(call(1)).reply(call(2)).reply(Reply::text("one")).reply(call(3)).reply(Reply::text("two"));
        let _ran = it.run().status(0);
        let id = it.sessions()[0].clone();
        let it = it.command(["run", "more", "--resume", &id, "--mode", "workspace_write"]);
        let _ran = it.run().status(0);
        let plain: Vec<String> =
            it.fake().requests().iter().map(|it| it.body.replace(r#","cache_control":{"type":"ephemeral"}"#, "")).collect();
        for pair in plain.windows(2) {
            let shared = pair[0].bytes().zip(pair[1].bytes()).take_while(|(a, b)| a == b).count();
            let tail = pair[0].rfind("],\"stream\"").unwrap();
            assert!(shared >= tail, "{wire:?}: only {shared} of {tail} bytes are shared");
        }
    }
}

#[test]
fn anthropic_requests_carry_cache_breakpoints() {
    let it = sid().wire(Wire::Messages).args(["hi"]).reply(Reply::text("ok"));
    let _ran = it.run().status(0);
    let body = it.fake().requests()[0].json();
    assert_eq!(body["system"][0]["cache_control"]["type"], "ephemeral");
    assert_eq!(body["messages"][0]["content"][0]["cache_control"]["type"], "ephemeral");
    assert!(it.fake().requests()[0].headers.iter().any(|(name, value)| name == "x-api-key" && value == "sk-test-key-1234"));
}

#[test]
fn blocks_that_only_the_wire_understands_go_back_unchanged() {
    let thinking = r#"{"type":"thinking","thinking":"hm","signature":"sig=="}"#;
    let frames = [
        json!({"type": "message_start", "message": {"id": "m", "usage": {}}}),
        json!({"type": "content_block_start", "index": 0, "content_block": {"type": "thinking", "thinking": "", "signature": ""}}),
        json!({"type": "content_block_delta", "index": 0, "delta": {"type": "thinking_delta", "thinking": "hm"}}),
        json!({"type": "content_block_delta", "index": 0, "delta": {"type": "signature_delta", "signature": "sig=="}}),
        json!({"type": "content_block_start", "index": 1, "content_block": {"type": "tool_use", "id": "t", "name": "list_directory", "input": {}}}),
        json!({"type": "content_block_delta", "index": 1, "delta": {"type": "input_json_delta", "partial_json": "{\"path\":\".\"}"}}),
        json!({"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {}}),
        json!({"type": "message_stop"}),
    ];
    let raw = Reply::Raw(frames.iter().map(|it| format!("data: {it}\n\n").into_bytes()).collect());
    let it = free().wire(Wire::Messages).reply(raw).reply(Reply::text("ok"));
    let _ran = it.run().status(0);
    assert!(it.fake().requests()[1].body.contains(thinking), "{}", it.fake().requests()[1].body);
}

#[test]
fn profiles_and_replays() {
    let it = sid().args(["hi", "--model", "mine/other"]).env("OPENAI_BASE_URL", "").env("OPENAI_API_KEY", "");
    let config = it.beside("home/.config/sid");
    std::fs::create_dir_all(&config).unwrap();
    let text = format!(
        "active = 'mine'\n[[provider]]\nname = 'mine'\nbase_url = '{}/v1'\napi_key = 'k-from-file'\nmodel = 'm'\n",
        it.fake().url()
    );
    std::fs::write(config.join("providers.toml"), text).unwrap();
    let it = it.reply(Reply::text("ok"));
    let _ran = it.run().status(0);
    assert_eq!(it.fake().requests()[0].json()["model"], "other");
    std::fs::write(config.join("providers.toml"), "actve = 'mine'\n").unwrap();
    let ran = it.run().status(1);
    assert!(ran.stderr.contains("providers.toml:1: there is no key `actve`; did you mean `active`?"), "{}", ran.stderr);

    let it = sid().args(["hi", "--model", "replay:gone.jsonl"]);
    assert!(it.run().status(1).stderr.contains("gone.jsonl: can't read the recording"));
    let it = sid()
        .args(["hi", "--model", "replay:r.jsonl"])
        .file("r.jsonl", "{\"assistant\":{\"at\":0,\"parts\":[{\"text\":\"recorded\"}]}}\n");
    assert_eq!(it.run().status(0).stdout, "recorded\n");
    let it = it.file("r.jsonl", "{\"assistant\":1}\n");
    assert!(it.run().status(1).stderr.contains("r.jsonl:1: not a line of a recording"));
}
