//! What a person can type at the prompt besides talking, and the options that go with it (sid's manual, OPTIONS; the notes'
//! behaviours 49 and 50).
use serde_json::json;
use sid_testkit::{Reply, Test, Wire};

use crate::sid;

fn plain(lines: &str) -> Test {
    sid().command(["--plain", "--mode", "workspace_write"]).stdin(lines)
}

fn agents(it: Test, agents: &str, tools: &str) -> Test {
    it.file("../home/.config/sid/agents.conf", agents).file("../home/.config/sid/tools.conf", tools)
}

#[test]
fn how_the_model_answers_can_be_changed_at_the_prompt() {
    let lines = "/max_tokens 2000\n/temperature 0.5\n/top_p 0.9\n/top_k 40\n/stop add END\n/stop add END\n/stop list\none\n/temperature clear\n/stop clear\n/thinking on\n/cache off\ntwo\n/temperature 3\n/top_k x\n/thinking much\n/cache maybe\n/stop\n/budget x\n/config\n/budget 10\nthree\n/budget clear\nfour\n";
    let it = plain(lines).wire(Wire::Messages);
    it.fake().reply([Reply::text("1"), Reply::text("2"), Reply::text("4")]);
    let ran = it.run().status(0);
    let all: Vec<_> = it.fake().requests().iter().map(|it| it.json()).collect();
    let (one, two) = (&all[0], &all[1]);
    assert_eq!(
        (&one["max_tokens"], &one["temperature"], &one["top_p"], &one["top_k"]),
        (&json!(2000), &json!(0.5), &json!(0.9), &json!(40))
    );
    assert_eq!(one["stop_sequences"], json!(["END"]));
    assert!(one["system"][0]["cache_control"].is_object());
    assert_eq!(two["thinking"], json!({"type": "enabled", "budget_tokens": 1024}));
    assert!(two.get("temperature").is_none() && two.get("stop_sequences").is_none() && two.get("top_k").is_none());
    assert!(!two.to_string().contains("cache_control"), "{two}");
    assert!(two["messages"].to_string().contains("one"), "the conversation goes on");
    for want in [
        "temperature takes a number from 0 to 1",
        "top_k takes a whole number",
        "/thinking takes on, off",
        "/cache takes on or off",
        "/stop takes add",
        "/budget takes a whole number",
        "the session's budget of 10 tokens is used up",
        "max_tokens: 2000\n",
    ] {
        assert!(ran.stderr.contains(want), "{want}: {}", ran.stderr);
    }
    assert_eq!(all.len(), 3, "the third was not sent");
}

#[test]
fn agents_are_listed_and_changed_and_the_conversation_goes_on() {
    let two = "build_ENABLED=YES\nbuild_NAME=Builder\nbuild_DESC='makes it'\nbuild_TOOLS=read\nbuild_MODEL=big\nlook_ENABLED=MANUAL\nlook_TOOLS=glob\nlook_MODEL=small\nlook_MAX_TOKENS=77\noff_ENABLED=NO\n";
    let it = agents(
        plain(
            "hello\n/agent\n/agent list\n/temperature 0.5\n/agent switch look\nagain\n/agent switch off\n/agent switch nobody\n/agent huh\n/model other\nlast\n/agent switch build\n",
        ),
        two,
        "read_ENABLED=YES\nglob_ENABLED=YES\n",
    );
    it.fake().reply([Reply::text("1"), Reply::text("2"), Reply::text("3")]);
    let ran = it.run().status(0);
    for want in [
        "Agent: build",
        "* build (Builder) [YES] - makes it",
        "  look [MANUAL]",
        "  off [NO]",
        "Agent: look",
        "is switched off",
        "no agent 'nobody'",
        "/agent takes",
    ] {
        assert!(ran.stderr.contains(want), "{want}: {}", ran.stderr);
    }
    let all: Vec<_> = it.fake().requests().iter().map(|it| it.json()).collect();
    let models: Vec<_> = all.iter().map(|it| it["model"].as_str().unwrap()).collect();
    assert_eq!(models, ["big", "small", "other"]);
    assert_eq!(all[1]["max_tokens"], 77);
    assert_eq!(all[1]["temperature"], 0.5, "what was said at the prompt holds with another agent");
    assert_eq!(all[1]["tools"][0]["function"]["name"], "glob");
    let said = all[2]["messages"].to_string();
    assert!(said.contains("hello") && said.contains("again"), "{said}");
    assert_eq!(it.sessions().len(), 1);
}

#[test]
fn clear_edit_save_and_system() {
    let it =
        plain("first\n/save out.md\n/clear\n/edit\n/system Be brief.\nthird\n/system\nfourth\n/save\n/save /no/such/folder/x\n")
            .env("EDITOR", "printf 'from the editor' >");
    it.fake().reply([Reply::text("1"), Reply::text("2"), Reply::text("3"), Reply::text("4")]);
    let ran = it.run().status(0);
    assert_eq!(ran.stdout, "1\n2\n3\n4\n", "{}", ran.stderr);
    let all: Vec<_> = it.fake().requests().iter().map(|it| it.json()["messages"].to_string()).collect();
    assert!(!all[1].contains("first") && all[1].contains("from the editor"), "{}", all[1]);
    assert!(all[2].contains("Be brief.") && !all[3].contains("Be brief."), "{}", all[2]);
    assert!(String::from_utf8(it.read("out.md")).unwrap().contains("first"));
    assert!(ran.stderr.contains("/save needs a file") && ran.stderr.contains("/no/such/folder/x"), "{}", ran.stderr);
    assert_eq!(it.sessions().len(), 2);
    let it = plain("/edit\n/edit\n").env("VISUAL", "true").env("EDITOR", "false");
    assert!(it.run().status(0).stderr.contains("nothing was sent"));
    let it = plain("/edit\n").env("VISUAL", "nosuch-editor");
    assert!(it.run().status(0).stderr.contains("ended with"));
}

#[test]
fn a_saved_conversation_is_loaded_into_a_session_of_its_own() {
    let it = plain(
        "remember 7\n/save all.json\n/transcript\n/clear\n/load all.json\nwhat was it\n/load nope.json\n/load f\n/load\nagain\n",
    );
    let it = it.file("f", "{\"version\": 3, \"messages\": []}");
    it.fake().reply([
        Reply::call("read_file", &json!({"path": "f"})),
        Reply::text("noted"),
        Reply::text("7"),
        Reply::text("still 7"),
    ]);
    let ran = it.run().status(0);
    let said: serde_json::Value = serde_json::from_slice(&it.read("all.json")).unwrap();
    assert_eq!((&said["version"], &said["messages"][0]), (&json!(1), &json!({"role": "user", "content": "remember 7"})));
    let requests = it.fake().requests();
    let messages = |n: usize| requests[n].json()["messages"].as_array().unwrap().clone();
    // The same conversation, with one message more.
    assert_eq!(messages(2)[1..5].to_vec(), [messages(1)[1..].to_vec(), vec![messages(2)[4].clone()]].concat());
    assert_eq!((&messages(2)[4]["content"], &messages(2)[5]["content"]), (&json!("noted"), &json!("what was it")));
    assert_eq!(messages(3).len(), 8, "what can't be loaded leaves the session as it was");
    for want in
        ["transcript.json when it is left", "nope.json: No such file", "f: it is a transcript of version 3", "/load needs a file"]
    {
        assert!(ran.stderr.contains(want), "{want}: {}", ran.stderr);
    }
    assert_eq!(it.sessions().len(), 3);
}

#[test]
fn what_is_asked_and_answered_is_kept_for_a_person_and_numbers_go_on() {
    let look = || json!({"path": "f"});
    let it = plain("go\n").file("f", "text of f");
    it.fake().reply([Reply::call("read_file", &look()), Reply::text("one"), Reply::text("two")]);
    let _ran = it.run().status(0);
    let id = it.sessions()[0].clone();
    let it = it.command(["--plain", "--mode", "workspace_write", "--resume", &id]).stdin("more\n");
    let _ran = it.run().status(0);
    let file = std::fs::read_to_string(it.journal_path(&id).with_file_name("api.jsonl")).unwrap();
    let lines: Vec<serde_json::Value> = file.lines().map(|it| serde_json::from_str(it).unwrap()).collect();
    let all = |key: &str| lines.iter().map(|it| it[key].clone()).collect::<Vec<_>>();
    assert_eq!(all("kind"), ["request", "response", "request", "response", "request", "response"]);
    assert_eq!(
        (all("seq"), all("api_seq")),
        (
            vec![1, 2, 3, 4, 5, 6].into_iter().map(Into::into).collect(),
            vec![1, 1, 2, 2, 3, 3].into_iter().map(Into::into).collect()
        )
    );
    assert_eq!(lines[0]["payload"]["messages"][1]["content"], "go");
    assert_eq!(lines[1]["payload"]["content"][0]["name"], "read_file");
    assert_eq!(lines[3]["payload"]["content"][0], json!({"type": "text", "text": "one"}));
    assert!(lines[2]["messages_before"] == 2 && lines[2]["payload"]["messages"].as_array().unwrap().len() == 2, "{}", lines[2]);
    assert_eq!(file.matches("text of f").count(), 2, "once, and once more for the new process");
    let it = plain("").command(["run", "go", "--output", "jsonl"]).reply(Reply::text("hi"));
    let _ran = it.run().status(0);
    assert!(!it.journal_path(&it.sessions()[0]).with_file_name("api.jsonl").exists(), "scripts have the journal alone");
}

#[test]
fn params_have_one_dash_or_two_and_agents_come_first() {
    let it = sid().command([
        "--plain",
        "-param-model",
        "big",
        "--param-max-tokens=100",
        "-param-temperature",
        "0.2",
        "--param-system",
        "Be kind.",
    ]);
    let it = it.stdin("hello\n").reply(Reply::text("hi"));
    let _ran = it.run().status(0);
    let request = it.fake().requests()[0].json();
    assert_eq!((&request["model"], &request["max_tokens"], &request["temperature"]), (&json!("big"), &json!(100), &json!(0.2)));
    assert!(request["messages"][0]["content"].as_str().unwrap().contains("Be kind."));
    let it = agents(it, "a_ENABLED=YES\na_MAX_TOKENS=7\na_SYSTEM='Be exact.'\n", "").reply(Reply::text("hi"));
    let _ran = it.run().status(0);
    let request = it.fake().requests()[1].json();
    assert_eq!(request["max_tokens"], 7);
    assert!(request["messages"][0]["content"].as_str().unwrap().contains("Be exact."));
    let it = sid().command(["--plain", "--mode", "full_access", "-param-no-color"]).stdin("go\n");
    it.fake().reply([Reply::call("run_command", &json!({"command": "echo \"<$NO_COLOR>\""})), Reply::text("done")]);
    let _ran = it.run().status(0);
    assert!(it.fake().requests()[1].json()["messages"].to_string().contains("<1>"));
    for (args, want) in [
        (["--param-temperature", "5"], "from 0 to 1"),
        (["--param-top-p", "-1"], "from 0 to 1"),
        (["--param-max-tokens", "many"], "invalid"),
        (["--param-top-k", "0"], "0"),
        (["--no-such-option", "x"], "unexpected argument"),
    ] {
        let ran = sid().command(args).stdin("").run().status(64);
        assert!(ran.stderr.contains(want), "{args:?}: {}", ran.stderr);
    }
}

#[test]
fn config_says_what_is_in_force_where_from_and_what_a_key_does() {
    let it = agents(
        sid().command(["config"]),
        "MODEL=every\na_ENABLED=YES\na_MAX_TOKENS=\"${N:-7}\"\nb_ALIASES=a\nb_INHERIT=YES\n",
        "fmt_ENABLED=YES\nfmt_STYLE=wide\n",
    );
    let manifest = r#"{"protocol_version": 1, "description": "d", "input_schema": {}}"#;
    let it = it.file("../home/.config/sid/tools/fmt", "#!/bin/sh\n").file("../home/.config/sid/tools/fmt.json", manifest);
    std::fs::set_permissions(it.beside("home/.config/sid/tools/fmt"), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let it = it.file("../home/.config/sid/settings.toml", "[context]\ncompact_at = 5\n").env("SID_MODEL", "m");
    let mut it = it
        .file("../home/.config/sid/providers.toml", "[[provider]]\nname = 'x'\nbase_url = 'http://y/v1'\napi_key = 'hush-hush'\n");
    let said = it.run().status(0).stdout;
    for want in [
        "a_MAX_TOKENS = \"7\"",
        "agents.conf:3)",
        "a_MODEL = \"every\"",
        "b_MAX_TOKENS = \"7\"",
        "fmt_STYLE = \"wide\"",
        "context.compact_at = \"5\"",
        "settings.toml:2)",
        "SID_MODEL = \"m\"  (the environment)",
        "provider.0.api_key = \"(set)\"",
    ] {
        assert!(said.contains(want), "{want}: {said}");
    }
    assert!(!said.contains("hush"), "{said}");
    for (key, want) in [
        ("MAX_TOKENS", "a_MAX_TOKENS = \"7\""),
        ("a_MAX_TOKENS", "the most tokens of one answer"),
        ("THINKING", "it is not set"),
        ("context.compact_at", "before it is replaced by a summary"),
        ("provider.0.base_url", "its address"),
        ("SID_HOME", "it is not set"),
    ] {
        it = it.command(["config", key]);
        let said = it.run().status(0).stdout;
        assert!(said.contains(want), "{key}: {said}");
    }
    assert!(it.command(["config", "nonsense"]).run().status(1).stdout.contains("there is no key `nonsense`"));
}

#[test]
fn bash_debug_runs_one_command_without_a_model() {
    let bash = |it: Test, switch: &str| {
        agents(it, "build_ENABLED=YES\nbuild_TOOLS=bash\n", &format!("bash_ENABLED={switch}\n"))
            .env("OPENAI_BASE_URL", "")
            .env("OPENAI_API_KEY", "")
    };
    let it = bash(sid().command(["--bash-debug", "pwd && ls"]).file("a.txt", ""), "YES");
    let ran = it.run().status(0);
    assert_eq!(ran.stdout, format!("{}\na.txt\n", it.path("").canonicalize().unwrap().display()).replace("/\n", "\n"));
    let it = bash(sid().command(["-bash-debug", "echo said; exit 3"]), "YES");
    let ran = it.run().status(1);
    assert!(ran.stdout.starts_with("said\nexit status: 3\n"), "{}", ran.stdout);
    let it = bash(sid().command(["--bash-debug", "echo asked"]), "MANUAL");
    assert_eq!(it.stdin("y\n").run().status(0).stdout, "asked\n");
    let it = bash(sid().command(["--bash-debug", "echo asked"]), "MANUAL").stdin("n\n");
    assert!(it.run().status(1).stdout.contains("Permission denied by the user"));
    let it = sid().command(["--bash-debug", "true"]);
    assert!(it.run().status(1).stderr.contains("the agent has no `bash`"));
}

#[test]
fn a_preview_is_shown_before_a_person_is_asked() {
    let it = agents(
        plain("go\nn\ny\nn\nn\n"),
        "build_ENABLED=YES\nbuild_TOOLS='edit fmt bad'\n",
        "edit_ENABLED=MANUAL\nfmt_ENABLED=MANUAL\nfmt_CONFIRM=YES\nbad_ENABLED=MANUAL\nbad_CONFIRM=YES\n",
    );
    let manifest = r#"{"protocol_version": 1, "description": "Does it.", "input_schema": {"type": "object", "properties": {}}}"#;
    let fmt = "#!/bin/sh\n[ \"$1\" = rcvar ] && { echo fmt_REQUEST_FILE fmt_WORKSPACE_ROOT; exit 0; }\n[ \"$1\" = confirm ] && { echo \"would format $(grep -c paths \"$fmt_REQUEST_FILE\") list\"; touch \"$fmt_WORKSPACE_ROOT/made\"; exit 0; }\ntouch \"$fmt_WORKSPACE_ROOT/ran\"\n";
    let it = it.file("a.txt", "one\ntwo\n");
    let it = ["fmt", "bad"].iter().fold(it, |it, name| {
        let text = if *name == "fmt" { fmt } else { "#!/bin/sh\nexit 9\n" };
        let it = it
            .file(&format!("../home/.config/sid/tools/{name}"), text)
            .file(&format!("../home/.config/sid/tools/{name}.json"), manifest);
        let path = it.beside("home/.config/sid/tools").join(name);
        std::fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        it
    });
    let change = json!({"command": "str_replace", "path": "/a.txt", "old_str": "two", "new_str": "2"});
    it.fake().reply([
        Reply::call("str_replace_based_edit_tool", &change),
        Reply::call("str_replace_based_edit_tool", &change),
        Reply::call("fmt", &json!({"paths": ["x"]})),
        Reply::call("bad", &json!({"secretly": "no"})),
        Reply::text("done"),
    ]);
    let ran = it.run().status(0);
    for want in ["Edit preview", "operation: str_replace", "-two", "+2", "would format 1 list"] {
        assert!(ran.stderr.contains(want), "{want}: {}", ran.stderr);
    }
    assert!(ran.stderr.contains("secretly"), "without a preview the input is shown: {}", ran.stderr);
    assert_eq!(it.read("a.txt"), b"one\n2\n");
    assert!(!it.path("made").exists() && !it.path("ran").exists(), "a preview changes nothing");
}
