//! Commands: streams, time limits, children, the background.
use std::{
    process::Child,
    time::{Duration, Instant},
};

use serde_json::json;
use sid_testkit::Reply;

use crate::{Script as _, free, sid};

/// Whether a process with this in its command line lives.
pub(crate) fn alive(part: &str) -> bool {
    std::fs::read_dir("/proc").unwrap().flatten().any(|it| {
        let line = std::fs::read(it.path().join("cmdline")).unwrap_or_default();
        let line = String::from_utf8_lossy(&line).replace('\0', " ");
        line.contains(part) && !line.contains("bwrap") && !line.contains("sh -c")
    })
}

/// Waits until `check` holds.
#[track_caller]
pub(crate) fn eventually(what: &str, check: impl Fn() -> bool) {
    let begun = Instant::now();
    while !check() {
        assert!(begun.elapsed() < Duration::from_secs(20), "never: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

pub(crate) fn signal(child: &Child, name: &str) {
    assert!(std::process::Command::new("kill").args([&format!("-{name}"), &child.id().to_string()]).status().unwrap().success());
}

fn command(line: &str) -> (&'static str, serde_json::Value) {
    ("run_command", json!({ "command": line }))
}

#[test]
fn exit_codes_and_silence() {
    let ran = free()
        .rounds([command("true"), command("echo a; exit 3"), command("kill -9 $$"), command("printf 'no newline'")])
        .run()
        .status(0);
    assert_eq!(ran.result(0), "Command succeeded (exit code 0) with no output.\n[cwd .]");
    assert_eq!(ran.result(1), "Command failed (exit code 3):\na\n[cwd .]");
    assert!(ran.result(2).contains("137"), "{}", ran.result(2));
    assert_eq!(ran.result(3), "Exit code 0:\nno newline\n[cwd .]");
}

#[test]
fn sh_02_a_time_limit_ends_everything_and_keeps_the_output() {
    for mode in ["workspace_write", "full_access"] {
        let line = "echo begun; sh -c 'trap \"\" TERM; sleep 300.11' & sh -c 'sleep 301.11'; wait";
        let it = sid().args(["go", "--output", "jsonl", "--mode", mode]);
        let it = it.rounds([("run_command", json!({"command": line, "timeout_seconds": 1}))]);
        let said = it.run().status(0).result(0);
        assert!(said.contains("timed out after 1 s") && said.contains("begun"), "{said}");
        assert!(!alive("sleep 300.11") && !alive("sleep 301.11"), "{mode}");
    }
}

#[test]
fn a_command_gets_its_signal_before_it_is_killed() {
    let line = "trap 'echo asked; exit 5' TERM; while true; do sleep 0.1; done";
    let said = free().rounds([("run_command", json!({"command": line, "timeout_seconds": 1}))]).run().status(0).result(0);
    assert!(said.contains("asked"), "{said}");
}

#[test]
fn sh_03_signals_end_the_turn_and_every_child() {
    for (name, code, mode) in [("INT", 130, "workspace_write"), ("TERM", 143, "workspace_write"), ("TERM", 143, "full_access")] {
        let tag = format!("sleep 40{code}.{}", mode.len());
        let it =
            sid().args(["go", "--output", "jsonl", "--mode", mode]).reply(Reply::call("run_command", &json!({ "command": tag })));
        let child = it.start();
        eventually("the command runs", || alive(&tag));
        signal(&child, name);
        let begun = Instant::now();
        let ran = it.finish(child).status(code);
        assert!(begun.elapsed() < Duration::from_millis(1500), "{:?}", begun.elapsed());
        assert!(!alive(&tag), "{name} {mode}");
        assert_eq!(ran.of_type("result")[0]["reason"], "interrupted");
        // The session is whole.
        it.fake().reply([Reply::text("on")]);
        let id = it.sessions()[0].clone();
        let it = it.command(["run", "more", "--resume", &id]);
        assert_eq!(it.run().status(0).stdout, "on\n");
        let results = it.fake().requests()[1].json().to_string();
        assert!(results.contains("Cancelled by the user"), "{results}");
    }
}

#[test]
fn a_signal_ends_it_within_a_second_whatever_the_commands_think() {
    for mode in ["workspace_write", "full_access"] {
        let stubborn = |seconds: &str| format!("trap '' TERM; while true; do sleep {seconds}; done");
        let it = sid().args(["go", "--output", "jsonl", "--mode", mode]);
        let it = it.reply(Reply::call("run_command", &json!({"command": stubborn("48.11"), "run_in_background": true})));
        let it = it.reply(Reply::call("run_command", &json!({"command": stubborn("48.12")})));
        let child = it.start();
        eventually("both run", || alive("sleep 48.11") && alive("sleep 48.12"));
        signal(&child, "TERM");
        let begun = Instant::now();
        let _ran = it.finish(child).status(143);
        assert!(begun.elapsed() < Duration::from_secs(1), "{mode}: {:?}", begun.elapsed());
        assert!(!alive("sleep 48.11") && !alive("sleep 48.12"), "{mode}");
    }
}

#[test]
fn sh_03_killing_sid_kills_the_children_too() {
    for mode in ["workspace_write", "full_access"] {
        let tag = format!("sleep 405.{}", mode.len());
        let it = sid().args(["go", "--mode", mode]).reply(Reply::call("run_command", &json!({"command": format!("exec {tag}")})));
        let child = it.start();
        eventually("the command runs", || alive(&tag));
        signal(&child, "KILL");
        let _ran = it.finish(child).status(137);
        eventually("the child is gone", || !alive(&tag));
    }
}

#[test]
fn sh_04_standard_input_is_at_its_end() {
    let background = |line: &str| ("run_command", json!({"command": line, "run_in_background": true}));
    let begun = Instant::now();
    let it = free().rounds([
        command("read -r x; echo \"got=$x\""),
        command("cat"),
        background("cat; echo over"),
        ("command_output", json!({"task_id": 1})),
    ]);
    let ran = it.run().status(0);
    assert!(begun.elapsed() < Duration::from_secs(8));
    assert_eq!(ran.result(0), "Exit code 0:\ngot=\n[cwd .]");
    assert!(ran.result(3).contains("exited with code 0") && ran.result(3).contains("over"), "{}", ran.result(3));
}

#[test]
fn sh_06_there_is_no_terminal_to_grab() {
    // sid has a real terminal here; its commands must not.
    let pty = "import pty, sys; sys.exit(pty.spawn(sys.argv[1:]) >> 8)";
    for mode in ["workspace_write", "full_access"] {
        let it = sid()
            .args(["go", "--output", "jsonl", "--mode", mode])
            .rounds([command("head -1 </dev/tty; echo still here; cat /dev/stdin")]);
        let it = it.through(["python3", "-c", pty]).stdin("");
        let mut child = it.start();
        let held = child.stdin.take();
        let ran = it.finish(child).status(0);
        drop(held);
        let result = ran.stdout.lines().find(|it| it.contains("tool_result")).unwrap();
        assert!(result.contains("/dev/tty: No such device or address") && result.contains("still here"), "{mode}: {result}");
    }
}

#[test]
fn sh_07_floods_are_bounded_and_killed() {
    let flood = |seconds: u32| ("run_command", json!({"command": "yes flood", "timeout_seconds": seconds}));
    let it = free().rounds([
        flood(2),
        ("run_command", json!({"command": "yes background", "run_in_background": true})),
        ("command_output", json!({"task_id": 1, "wait_seconds": 1})),
    ]);
    let child = it.start();
    let pid = child.id();
    let peak = std::thread::spawn(move || {
        let mut peak = 0;
        while let Ok(status) = std::fs::read_to_string(format!("/proc/{pid}/status")) {
            let line =
                status.lines().find(|it| it.starts_with("VmHWM")).and_then(|it| it.split_whitespace().nth(1)?.parse::<u64>().ok());
            let Some(kib) = line else { break };
            peak = peak.max(kib);
            std::thread::sleep(Duration::from_millis(50));
        }
        peak
    });
    let ran = it.finish(child).status(0);
    assert!(ran.result(0).contains("bytes left out") && ran.result(0).len() < 60_000);
    assert!(ran.result(2).contains("still running") && ran.result(2).len() < 60_000);
    assert!(!alive("yes flood") && !alive("yes background"));
    let peak = peak.join().unwrap();
    assert!(peak < 64 << 10, "{peak} KiB");
    let written: u64 = std::fs::metadata(it.journal_path(&it.sessions()[0])).unwrap().len();
    assert!(written < 400_000, "{written}");
}

#[test]
fn sh_10_each_command_starts_in_the_workspace_and_says_so() {
    let it = free().rounds([
        command("mkdir -p s && cd s"),
        command("pwd"),
        ("run_command", json!({"command": "pwd", "cwd": "s"})),
        command("rmdir s"),
        ("run_command", json!({"command": "pwd", "cwd": "s"})),
    ]);
    let ran = it.run().status(0);
    let work = it.path("").display().to_string();
    let work = work.trim_end_matches('/');
    assert_eq!(ran.result(1), format!("Exit code 0:\n{work}\n[cwd .]"));
    assert_eq!(ran.result(2), format!("Exit code 0:\n{work}/s\n[cwd s]"));
    assert!(ran.result(4).contains("does not exist"), "{}", ran.result(4));
}

#[test]
fn sh_11_background_jobs_never_hold_up_the_end() {
    let job = || ("run_command", json!({"command": "sleep 333.5", "run_in_background": true}));
    for mode in ["workspace_write", "full_access"] {
        let begun = Instant::now();
        let _ran = sid().args(["go", "--output", "jsonl", "--mode", mode]).rounds([job(), job()]).run().status(0);
        assert!(begun.elapsed() < Duration::from_secs(5));
        assert!(!alive("sleep 333.5"), "{mode}");
    }
}

#[test]
fn nothing_left_behind_outlives_the_session() {
    for mode in ["workspace_write", "full_access"] {
        let it = sid()
            .args(["go", "--output", "jsonl", "--mode", mode])
            .rounds([command("(sleep 344.5 &) ; nohup sleep 345.5 >/dev/null 2>&1 & echo ok")]);
        let begun = Instant::now();
        let ran = it.run().status(0);
        assert!(ran.result(0).contains("ok") && begun.elapsed() < Duration::from_secs(5), "{}", ran.result(0));
        eventually("both are gone", || !alive("sleep 344.5") && !alive("sleep 345.5"));
    }
}

#[test]
fn background_tasks_are_read_and_stopped() {
    let line = "for i in 1 2 3; do echo line $i; done; exec sleep 377.5";
    let it = free().rounds([
        ("run_command", json!({"command": line, "run_in_background": true})),
        ("command_output", json!({"task_id": 1, "wait_seconds": 1})),
        ("command_output", json!({"task_id": 1, "wait_seconds": 0})),
        ("kill_command", json!({"task_id": 1})),
        ("command_output", json!({"task_id": 1})),
        ("kill_command", json!({"task_id": 9})),
    ]);
    let ran = it.run().status(0);
    assert!(ran.result(0).contains("background task 1"));
    assert!(ran.result(1).contains("is still running.\nline 1\nline 2\nline 3\n"), "{}", ran.result(1));
    assert!(ran.result(2).contains("(no new output)"), "only what is new: {}", ran.result(2));
    assert!(ran.result(3).contains("was killed") && ran.result(4).contains("was killed"));
    assert!(ran.result(5).contains("no background task with id 9"));
}

#[test]
fn st_01_characters_cut_between_two_reads_of_a_pipe() {
    let line = r"printf 'na\303'; sleep 0.2; printf '\257ve \346\227'; sleep 0.2; printf '\245\n'";
    assert_eq!(free().rounds([command(line)]).run().status(0).result(0), "Exit code 0:\nnaïve 日\n[cwd .]");
}

#[test]
fn output_that_is_not_utf_8_and_escape_sequences() {
    let ran = free().rounds([command(r"printf '\377\376ok\033[2J\n'")]).run().status(0);
    assert!(ran.result(0).contains("ok"), "{}", ran.result(0));
    // In text mode nothing of it reaches the terminal.
    let it = sid().args(["go", "--mode", "workspace_write"]).rounds([command(r"printf '\033[2J'; exit 1")]);
    let ran = it.run().status(0);
    assert!(!ran.stderr.contains('\u{1b}') && !ran.stdout.contains('\u{1b}'), "{:?}", ran.stderr);
}

#[test]
fn sh_08_a_job_that_reads_all_it_can_find_does_not_feed_itself() {
    let loud = || ("run_command", json!({"command": "while true; do echo loud; sleep 0.02; done", "run_in_background": true}));
    let reader = "while true; do for f in \"$HOME\"/.local/state/sid/sessions/*/* /tmp/* ./*; do tail -5 \"$f\"; done; sleep 0.05; done 2>&1";
    let it = free().rounds([
        loud(),
        loud(),
        ("run_command", json!({"command": reader, "run_in_background": true})),
        command("sleep 1"),
        ("command_output", json!({"task_id": 3, "wait_seconds": 0})),
    ]);
    let ran = it.run().status(0);
    assert!(ran.result(4).len() < 60_000 && !ran.result(4).contains("loud"), "{}", ran.result(4));
    let session = it.journal_path(&it.sessions()[0]);
    let kept: u64 = std::fs::read_dir(session.parent().unwrap()).unwrap().flatten().map(|it| it.metadata().unwrap().len()).sum();
    assert!(kept < 100_000, "{kept}");
}

/// A model slow enough that the sandbox of the next command is made while it answers.
fn slowly(it: sid_testkit::Test, calls: &[&str]) -> sid_testkit::Test {
    let late = |it| Reply::Late(Duration::from_millis(150), Box::new(it));
    let it = calls.iter().fold(it, |it, line| it.reply(late(Reply::call("run_command", &json!({ "command": line })))));
    it.reply(late(Reply::text("done")))
}

#[test]
fn a_sandbox_made_ahead_says_what_sh_says_of_whatever_it_is_given() {
    let all = [
        "true",
        "nosuch",
        "echo one\nnosuch",
        "if",
        "echo 'a",
        "echo \"a\nb",
        "echo a |",
        "true &&",
        "{ echo a; ",
        "}",
        "f() {",
        "case x in",
        "echo `a",
        "echo $0 $# [$n$c$d] $- $LINENO",
        "exec ls /",
        "exec </etc/passwd; read a; echo \"$a\"",
        "exec nosuch",
        "eval 'echo a; nosuch'",
        "trap 'echo bye' EXIT; echo hi; nosuch",
        "printf 'exec </etc/hostname\\necho in' > s; . ./s; echo out",
        "cat; read x; echo \"[$x]\"",
        "cat <<E\n$((1+2))\nE",
        "cat <<E\nopen",
        "# a comment",
        "set -e; false; echo no",
        "set -u; echo $zz",
        "cd /nonexistent; pwd",
        "echo a\\",
        "return 3; echo no",
        "f() { return 4; }; f",
        "(exit 9)",
        "kill -9 $$",
        "[ -t 0 ]; readlink /proc/self/fd/0",
        "sleep 0 & wait; echo $?",
    ];
    let late = |it| Reply::Late(Duration::from_millis(60), Box::new(it));
    let it = all.iter().fold(free().args(["--max-tool-rounds", "100"]), |it, line| {
        it.reply(late(Reply::call("run_command", &json!({ "command": line }))))
    });
    let it = it.reply(late(Reply::text("done")));
    let ran = it.run().status(0);
    for (n, line) in all.iter().enumerate() {
        let plain = it.shell_in_work("sh", &["-c", "exec /bin/sh -c \"$1\" 2>&1 </dev/null", "sh", line]);
        let said = String::from_utf8_lossy(&plain.stdout).into_owned();
        let (got, wanted) = (ran.result(n), said.trim_end());
        assert!(got.contains(wanted), "{line:?}\nwant {wanted}\ngot {got}");
        let code = plain.status.code();
        let code = code.map_or("killed by signal 9".to_owned(), |it| format!("xit code {it}"));
        assert!(got.contains(&code) || got.contains("xit code 137"), "{line:?} {code}: {got}");
        let _next = std::fs::remove_file(it.path("s"));
    }
}

#[test]
fn a_sandbox_made_ahead_runs_commands_like_any_other() {
    let work = "tr '\\0' ' ' </proc/1/cmdline | grep -cE 'read -r [n]|-- /bin/sh $'";
    let lines = "echo one\n\necho \"two\n  three\"\nexit 7";
    let quotes = r#"printf '%s|' "$0" '$HOME' \\ "a  b"; cat; pwd; echo $(ls -l /proc/self/fd | grep -c pipe)"#;
    let it = slowly(free(), &[quotes, work, lines, quotes, "(echo (", "kill -9 $$"]);
    let ran = it.run().status(0);
    assert!(ran.result(1).contains("Exit code 0:\n1\n"), "the second was made ahead: {}", ran.result(1));
    assert_eq!(ran.result(2), "Command failed (exit code 7):\none\ntwo\n  three\n[cwd .]");
    let here = it.path("").display().to_string();
    assert!(ran.result(0).starts_with("Exit code 0:\n/bin/sh|$HOME|\\|a  b|"), "{}", ran.result(0));
    assert_eq!(ran.result(3), ran.result(0), "the first was made on the spot");
    assert!(ran.result(4).contains("Syntax error") && ran.result(5).contains("137"), "{} {}", ran.result(4), ran.result(5));
    // The one made for a command that never came is gone too.
    eventually("no sandbox is left", || !sandboxes().contains(here.trim_end_matches('/')));
}

#[test]
fn commands_of_one_answer_find_sandboxes_made_beside_each_other() {
    let behind = "tr '\\0' ' ' </proc/1/cmdline | grep -cE 'read -r [n]|-- /bin/sh $'";
    let hook = "echo x > .git/hooks/h";
    let lines = ["true", behind, behind, "mkdir .claude; echo made", behind, "git init -q", hook, "cat .git/hooks/h"];
    let calls = lines.map(|line| ("run_command", json!({ "command": line })));
    let ran = free().reply(Reply::calls(calls)).reply(Reply::text("done")).run().status(0);
    for n in [1, 2, 4] {
        assert_eq!(ran.result(n), "Exit code 0:\n1\n[cwd .]", "{n}");
    }
    assert!(ran.result(3).contains(".claude"), "the note is of the command that it is about: {}", ran.result(3));
    assert!(ran.result(5).contains("succeeded"), "{}", ran.result(5));
    assert!(ran.result(6).contains("Read-only file system"), "one made before there was a repository: {}", ran.result(6));
    assert!(ran.result(7).contains("No such file"), "{}", ran.result(7));
}

/// The command lines of all sandboxes.
pub(crate) fn sandboxes() -> String {
    let all = std::fs::read_dir("/proc").unwrap().flatten().filter_map(|it| std::fs::read(it.path().join("cmdline")).ok());
    all.filter(|it| it.starts_with(b"/usr/bin/bwrap")).map(|it| String::from_utf8_lossy(&it).into_owned()).collect()
}

#[test]
fn a_sandbox_made_ahead_is_thrown_away_when_the_workspace_changed() {
    let it = slowly(free(), &["true", "true", "echo x > sid.toml", "echo x > .git/hooks/h"]);
    let child = it.start();
    it.fake().wait_for(3);
    // While the third answer is on its way, and a sandbox is waiting for its command.
    std::thread::sleep(Duration::from_millis(60));
    std::fs::write(it.path("sid.toml"), "mine").unwrap();
    it.shell_in_work("git", &["init", "-q"]);
    let ran = it.finish(child).status(0);
    assert!(ran.result(2).contains("failed") && ran.result(3).contains("failed"), "{} {}", ran.result(2), ran.result(3));
    assert_eq!(it.read("sid.toml"), b"mine");
}
