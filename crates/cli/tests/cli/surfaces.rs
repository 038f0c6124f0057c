//! The shells of the other families: a wait that is no life expectancy, input, terminals, and what is left afterwards.
use serde_json::{Value, json};
use sid_testkit::{Reply, Test};

use crate::{Script as _, sid};

fn shells(family: &str) -> Test {
    shells_in(family, "workspace_write")
}

fn shells_in(family: &str, mode: &str) -> Test {
    let it = sid().args(["go", "--output", "jsonl", "--mode", mode, "--max-tool-rounds", "500"]);
    it.file("../home/.config/sid/settings.toml", format!("[tools]\nshells = '{family}'\n"))
}

fn exec(cmd: &str, wait: u64) -> (&'static str, Value) {
    ("exec_command", json!({"cmd": cmd, "yield_time_ms": wait}))
}

fn write(id: u32, chars: &str, wait: u64) -> (&'static str, Value) {
    ("write_stdin", json!({"session_id": id, "chars": chars, "yield_time_ms": wait}))
}

/// What a Codex result says below `Output:`.
fn output(result: &str) -> &str {
    result.split_once("Output:\n").unwrap_or_else(|| panic!("{result}")).1
}

#[test]
fn codex_sessions_are_read_in_parts_and_written_to() {
    let talk = "echo ready; while read -r l; do echo \"got $l\"; [ \"$l\" = end ] && exit 3; done";
    let it = shells("codex").rounds([
        exec("echo quick", 5000),
        exec(talk, 300),
        write(2, "one\ntwo\n", 300),
        write(2, "", 250),
        write(2, "end\n", 5000),
        write(2, "", 10),
        write(2, "more\n", 10),
        write(9, "", 10),
        ("kill_session", json!({"session_id": 2})),
        ("kill_session", json!({"session_id": 9})),
        exec("exec cat", 250),
    ]);
    let ran = it.run().status(0);
    let it = |n| ran.result(n);
    assert!(
        it(0).contains("Process exited with code 0") && it(0).contains("Wall time: ") && output(&it(0)) == "quick\n",
        "{}",
        it(0)
    );
    assert!(it(0).contains("Original token count: 2\n"), "{}", it(0));
    assert!(it(1).contains("Process running with session ID 2") && output(&it(1)) == "ready\n", "{}", it(1));
    assert_eq!(output(&it(2)), "got one\ngot two\n");
    assert_eq!(output(&it(3)), "", "only what is new");
    assert!(it(4).contains("exited with code 3") && output(&it(4)) == "got end\n", "{}", it(4));
    assert!(it(5).contains("exited with code 3"), "a finished session is still readable: {}", it(5));
    assert!(it(6).contains("has ended"), "{}", it(6));
    assert!(it(7).contains("no session with id 9") && it(9).contains("no session with id 9"), "{}", it(7));
    assert!(it(8).contains("is not running"), "{}", it(8));
    assert!(it(10).contains("running with session ID 3"), "its input stays open: {}", it(10));
    crate::shells::eventually("nothing is left", || !crate::shells::alive("exec cat"));
}

#[test]
fn claude_bash_goes_on_as_a_task() {
    let it = shells("claude").rounds([
        ("Bash", json!({"command": "echo out; echo err >&2; exit 4"})),
        ("Bash", json!({"command": "read x; echo got=$x"})),
        ("Bash", json!({"command": "echo begun; sleep 0.6; echo over", "timeout": 200})),
        ("TaskOutput", json!({"task_id": 3, "block": false})),
        ("TaskOutput", json!({"task_id": "3", "timeout": 10000})),
        ("Bash", json!({"command": "while read -r l; do echo \"<$l>\"; done", "run_in_background": true})),
        ("TaskInput", json!({"task_id": 4, "input": "hello\n", "timeout": 300})),
        ("TaskStop", json!({"task_id": 4})),
        ("TaskStop", json!({"task_id": 4})),
        ("TaskOutput", json!({"task_id": 4})),
        ("Bash", json!({"command": "true", "timeout": 600_001})),
        ("TaskOutput", json!({"task_id": "x"})),
        ("TaskInput", json!({"task_id": 3, "input": "x"})),
    ]);
    let ran = it.run().status(0);
    let of = |n: usize| serde_json::from_str::<Value>(&ran.result(n)).unwrap_or_else(|_| panic!("{}", ran.result(n)));
    assert_eq!(ran.result(0), "out\nerr\nexit_code: 4");
    assert_eq!(ran.result(1), "got=\nexit_code: 0", "nothing to read: the end at once");
    assert!(ran.result(2).starts_with("begun\n") && ran.result(2).contains("task 3") && ran.result(2).contains("TaskInput"));
    assert_eq!((of(3)["retrieval_status"].as_str(), of(3)["task"]["output"].as_str()), (Some("not_ready"), Some("")));
    let done = of(4);
    assert_eq!((done["task"]["status"].as_str(), done["task"]["exitCode"].as_i64()), (Some("completed"), Some(0)), "{done}");
    assert_eq!((done["task"]["output"].as_str(), done["task"]["task_type"].as_str()), (Some("over\n"), Some("local_bash")));
    assert_eq!(of(6)["output"], "<hello>\n");
    assert_eq!((of(7)["task_type"].as_str(), of(7)["task_id"].as_u64()), (Some("local_bash"), Some(4)));
    assert!(ran.result(8).contains("is not running") && of(9)["task"]["status"] == "killed");
    assert!(ran.result(10).contains("0 to 600000") && ran.result(11).contains("no task with id x"), "{}", ran.result(10));
    assert!(ran.result(12).contains("has ended"), "{}", ran.result(12));
}

#[test]
fn grok_commands_and_their_companions() {
    let run = |command: &str, background: bool, timeout: u64| {
        ("run_terminal_command", json!({"command": command, "description": "d", "background": background, "timeout": timeout}))
    };
    let it = shells("grok").rounds([
        run("true", false, 0),
        run("echo no; exit 7", false, 0),
        run("echo begun; exec sleep 63.1", false, 200),
        run("while read -r l; do echo \"<$l>\"; done", true, 0),
        ("send_command_input", json!({"task_id": "4", "input": "x\n", "timeout_ms": 300})),
        ("get_command_or_subagent_output", json!({"task_ids": ["2", 3, "4", "77"]})),
        ("kill_command_or_subagent", json!({"task_id": "3"})),
        ("kill_command_or_subagent", json!({"task_id": "77"})),
        ("get_command_or_subagent_output", json!({"task_ids": ["3"], "timeout_ms": 5000})),
        ("get_command_or_subagent_output", json!({"task_ids": []})),
    ]);
    let ran = it.run().status(0);
    let of = |n: usize| serde_json::from_str::<Value>(&ran.result(n)).unwrap_or_else(|_| panic!("{}", ran.result(n)));
    assert_eq!(ran.result(0), "(no output)");
    assert!(ran.result(1).contains("exited with code 7") && ran.result(1).contains("no\n"));
    assert!(ran.result(2).contains("begun\nStill running, task_id: 3"), "{}", ran.result(2));
    assert_eq!(of(4)["output"], "<x>\n");
    let states: Vec<&str> =
        of(5)["tasks"].as_array().unwrap().iter().map(|it| it["status"].as_str().unwrap().to_owned().leak() as &str).collect();
    assert_eq!(states, ["failed", "running", "running", "not_found"]);
    assert_eq!((of(6)["outcome"].as_str(), of(7)["outcome"].as_str()), (Some("killed"), Some("not_found")));
    assert_eq!(of(8)["tasks"][0]["status"], "cancelled");
    assert!(ran.result(9).contains("1 to 20"));
}

#[test]
fn an_interrupt_reaches_the_command_in_its_place() {
    let trap = "trap 'echo INT' INT; echo ready; while :; do read -r l && echo \"got $l\"; [ \"$l\" = end ] && exit 0; done";
    for mode in ["workspace_write", "full_access"] {
        let it = shells_in("codex", mode);
        let it = it.rounds([exec(trap, 300), write(1, "before\n\u{3}after\n", 500), write(1, "end\n", 3000)]);
        let ran = it.run().status(0);
        assert_eq!(output(&ran.result(1)), "got before\nINT\ngot after\n", "{mode}: {}", ran.result(1));
        assert!(ran.result(2).contains("exited with code 0"), "{mode}: {}", ran.result(2));
    }
}

#[test]
fn a_terminal_only_when_asked_for() {
    let look = "test -t 0 && test -t 1 && stty size; echo \"$TERM|$NO_COLOR|$COLORTERM|$PAGER|$GIT_PAGER|$GH_PAGER\"";
    let tty = |cmd: &str| ("exec_command", json!({"cmd": cmd, "tty": true, "yield_time_ms": 3000}));
    for mode in ["workspace_write", "full_access"] {
        let it = shells_in("codex", mode).env("TERM", "xterm");
        let it = it.rounds([
            exec("test -t 0 || test -t 1 || echo pipes", 3000),
            tty(look),
            ("exec_command", json!({"cmd": "head -1 </dev/tty; cat", "tty": true, "yield_time_ms": 300})),
            write(3, "typed\n", 300),
            write(3, "\u{4}", 3000),
        ]);
        let ran = it.run().status(0);
        assert_eq!(output(&ran.result(0)), "pipes\n");
        assert_eq!(output(&ran.result(1)), "24 80\ndumb|1||cat|cat|cat\n", "{mode}");
        assert!(
            ran.result(2).contains("running with session ID 3"),
            "sh_06: no controlling terminal, so it goes on: {}",
            ran.result(2)
        );
        assert!(output(&ran.result(3)).contains("typed\n"), "{}", ran.result(3));
        assert!(ran.result(4).contains("exited with code 0"), "the end of input: {}", ran.result(4));
    }
}

#[test]
fn stopping_is_graceful_then_forceful_and_takes_the_whole_tree() {
    let it = shells("codex").rounds([
        exec("trap 'echo TERM; exit 0' TERM; echo ready; while :; do sleep 0.05; done", 300),
        ("kill_session", json!({"session_id": 1})),
        write(1, "", 10),
        exec("trap '' TERM; (trap '' TERM; sleep 64.7) & echo deaf; while :; do sleep 0.05; done", 300),
        ("kill_session", json!({"session_id": 2})),
        write(2, "", 10),
        exec("pgrep -f 'sleep 64.[7]' || echo none", 3000),
    ]);
    let ran = it.run().status(0);
    assert!(
        output(&ran.result(2)).ends_with("TERM\n") && ran.result(2).contains("was killed"),
        "unread output stays: {}",
        ran.result(2)
    );
    assert!(ran.result(5).contains("was killed"), "{}", ran.result(5));
    assert_eq!(output(&ran.result(6)), "none\n");
    assert!(!crate::shells::alive("sleep 64.7"));
}

#[test]
fn the_oldest_of_64_sessions_makes_room_and_stays_readable() {
    let start =
        |n: usize| Reply::call("exec_command", &json!({"cmd": format!("echo first {n}; exec sleep 65.3"), "yield_time_ms": 250}));
    let it = shells("codex");
    it.fake().reply((1..=65).map(start));
    it.fake().reply([
        Reply::call("write_stdin", &json!({"session_id": 1, "yield_time_ms": 5000})),
        Reply::call("write_stdin", &json!({"session_id": 2, "yield_time_ms": 0})),
        Reply::call("exec_command", &json!({"cmd": "true", "workdir": "/nowhere"})),
        Reply::call("write_stdin", &json!({"session_id": 2, "yield_time_ms": 0})),
        Reply::text("done"),
    ]);
    let ran = it.run().status(0);
    assert!(ran.result(64).contains("session ID 65"), "{}", ran.result(64));
    assert!(ran.result(65).contains("was killed"), "{}", ran.result(65));
    assert!(ran.result(66).contains("session ID 2"), "{}", ran.result(66));
    assert!(ran.result(67).contains("does not exist"), "{}", ran.result(67));
    assert!(ran.result(68).contains("session ID 2"), "a start that fails evicts nobody: {}", ran.result(68));
}

#[test]
fn an_end_that_nobody_saw_is_told_once_and_without_its_output() {
    let it = shells("codex").rounds([
        exec("sleep 0.5; echo secret-words; exit 5", 250),
        exec("exec sleep 66.9", 250),
        ("kill_session", json!({"session_id": 2})),
        exec("sleep 0.8; echo later", 5000),
        exec("true", 1000),
        write(1, "", 10),
    ]);
    let ran = it.run().status(0);
    let last = it.fake().requests().pop().unwrap().json();
    let notices: Vec<String> = last["messages"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|it| it["role"] == "user")
        .filter_map(|it| it["content"].as_str().map(str::to_owned))
        .filter(|it| it.starts_with("[sid: "))
        .collect();
    assert_eq!(
        notices,
        [
            "[sid: background command 1 (`sleep 0.5; echo secret-words; exit 5`) failed with exit code 5. Its output can still be read.]"
        ]
    );
    assert_eq!(output(&ran.result(5)), "secret-words\n");
}

#[test]
fn sh_07_a_flood_in_the_background_costs_bounded_memory_and_holds_nobody_up() {
    let it = shells("codex").rounds([
        exec("exec yes a-line-of-a-flood", 250),
        exec("while :; do echo n; done", 250),
        exec("sleep 1; echo slept", 5000),
        exec("ps -o rss= -p $PPID 2>/dev/null; echo quick", 5000),
        ("write_stdin", json!({"session_id": 1, "yield_time_ms": 10})),
    ]);
    let child = it.start();
    let pid = child.id();
    let mut most = 0;
    let started = std::time::Instant::now();
    while started.elapsed() < std::time::Duration::from_secs(3) {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        let rss = status.lines().find_map(|it| it.strip_prefix("VmRSS:")?.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok());
        most = most.max(rss.unwrap_or(0));
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    let ran = it.finish(child).status(0);
    assert!(output(&ran.result(2)) == "slept\n" && output(&ran.result(3)).ends_with("quick\n"));
    assert!(ran.result(4).contains("shortened output"), "{}", &ran.result(4)[..200]);
    assert!(most > 0 && most < 40_000, "{most} kB");
}

#[test]
fn a_shell_of_ones_own_choice_needs_full_access() {
    let call = ("exec_command", json!({"cmd": "echo $0", "shell": "/bin/bash"}));
    let it = shells("codex").rounds([call.clone()]);
    assert!(it.run().status(0).result(0).contains("full_access only"));
    let it = shells_in("codex", "full_access").rounds([call]);
    assert_eq!(output(&it.run().status(0).result(0)), "/bin/bash\n");
}

#[test]
fn another_familys_shell_widens_nothing() {
    let outside = "echo x > \"$HOME/out\"; echo $?";
    for (family, call) in [
        ("claude", ("Bash", json!({"command": outside, "dangerouslyDisableSandbox": true, "description": "why"}))),
        ("codex", ("exec_command", json!({"cmd": outside, "sandbox_permissions": "require_escalated", "justification": "why"}))),
        (
            "grok",
            (
                "run_terminal_command",
                json!({"command": outside, "description": "why", "background": false, "sandbox_permissions": "require_escalated"}),
            ),
        ),
        ("sigit", ("run_command", json!({"command": outside, "sandbox_permissions": "require_escalated", "justification": "why"}))),
    ] {
        let it = shells(family).rounds([call.clone()]);
        let said = it.run().status(0).result(0);
        assert!(said.contains("Read-only file system"), "{family}: {said}");
        let it = shells_in(family, "auto").reply(Reply::call(call.0, &call.1));
        it.fake().reply([Reply::text("{\"outcome\":\"deny\",\"rationale\":\"no\"}"), Reply::text("done")]);
        let said = it.run().status(0).result(0);
        assert!(said.contains("Rejected by automatic review"), "{family}: {said}");
        assert!(!it.beside("home/out").exists());
    }
}
