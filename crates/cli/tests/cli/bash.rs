//! The shell that stays between calls (sid's manual, `bash`; the notes' behaviours 35 to 37).
use std::fs;

use serde_json::{Value, json};
use sid_testkit::{Ran, Reply, Test};

use crate::{Script as _, sid};

fn world_in(mode: &str) -> Test {
    sid()
        .args(["go", "--output", "jsonl", "--mode", mode])
        .file("../home/.config/sid/agents.conf", "build_ENABLED=YES\nbuild_TOOLS=bash\n")
        .file("../home/.config/sid/tools.conf", "bash_ENABLED=YES\nbash_TIMEOUT=3\n")
}

fn bash(command: &str) -> (&'static str, Value) {
    ("bash", json!({ "command": command }))
}

fn run<const N: usize>(mode: &str, commands: [&str; N]) -> Ran {
    world_in(mode).rounds(commands.map(bash)).run().status(0)
}

#[test]
fn folder_variables_functions_and_aliases_carry_over_and_nothing_of_sids_is_shown() {
    for mode in ["workspace_write", "full_access", "read_only"] {
        let ran = run(
            mode,
            [
                "echo hello",
                "cd /usr; export A='a  b'; B=2; f() { echo \"f $1 $B\"; }; alias g='echo G'",
                "pwd; echo \"$A\"; f x; g",
                "printf 'no end of line, naïve 日本'",
                "cat <<E\nlines\nE\n# a comment",
                "false",
                "(exit 41)",
                "ls -C /usr/bin/env /usr/bin/id; test -t 1 && tput cols 2>/dev/null; stty size <&1",
                "set | grep -c '^A='; env | grep -E '^(TERM|PAGER)' | sort; echo \"${#SID_SESSION_ID} $SID_SCRATCH_DIR\"; basename \"$SID_SESSION_DIR\" | wc -c",
            ],
        );
        assert_eq!(ran.result(0), "hello\n", "{mode}");
        assert_eq!(ran.result(1), "(no output)", "{mode}");
        assert_eq!(ran.result(2), "/usr\na  b\nf x 2\nG\n", "{mode}");
        assert_eq!(ran.result(3), "no end of line, naïve 日本", "{mode}");
        assert_eq!(ran.result(4), "lines\n", "{mode}");
        assert_eq!(ran.result(5), "exit status: 1", "{mode}");
        assert_eq!(ran.result(6), "exit status: 41", "{mode}");
        assert!(ran.result(7).ends_with("24 80\n"), "{mode}: {}", ran.result(7));
        assert_eq!(ran.result(8), "1\nPAGER=cat\nTERM=dumb\n36 \n37\n", "{mode}");
    }
}

#[test]
fn whatever_a_command_is_the_next_one_finds_a_usable_shell() {
    let odd = [
        "echo 'open",
        "echo \"open",
        "}",
        "{",
        "if true; then",
        "$(",
        "break; continue; return 3",
        "read y; echo \"[$y]\"; cat; echo end",
        "exec 2>/dev/null",
        "set -x; echo traced",
        "set +x",
        "IFS=,; set -f; set -C; set -u; shopt -s extglob",
        "exec </dev/null >/dev/null",
        "echo() { :; }; printf() { :; }; builtin() { :; }; unset -f echo printf builtin",
        "trap 'true' DEBUG; trap - DEBUG",
        "",
        "\n\n",
        "\u{1b}]0;title\u{7}",
    ];
    for command in odd {
        let ran = run("workspace_write", ["x=kept", command, "/usr/bin/printf '<%s>' \"$x\""]);
        let (odd, after) = (ran.result(1), ran.result(2));
        assert!(!odd.contains("__sid") && !odd.contains('\u{1e}'), "{command:?}: {odd}");
        // Where the output went elsewhere for good, nothing can be shown; the shell answers all the same.
        let shown = if command.contains(">/dev/null") && !command.contains("2>") { "(no output)" } else { "<kept>" };
        assert!(after.ends_with(shown), "{command:?}: {after}");
    }
    let ran = run("workspace_write", ["echo 'open", "nosuch-program", "echo a\nnosuch-program", "set -x; echo traced"]);
    assert!(ran.result(0).contains("line 1: unexpected EOF") && ran.result(0).contains("exit status: "), "{}", ran.result(0));
    assert_eq!(ran.result(1), "bash: line 1: nosuch-program: command not found\nexit status: 127");
    assert_eq!(ran.result(2), "a\nbash: line 2: nosuch-program: command not found\nexit status: 127");
    assert_eq!(ran.result(3), "++ echo traced\ntraced\n");
}

#[test]
fn a_shell_that_ends_is_said_and_the_next_one_has_its_state() {
    for end in ["exit 3", "kill -9 $$", "exec true", "set -e; false"] {
        let ran = run("workspace_write", ["cd /usr; x=1", end, "echo \"$x $PWD\""]);
        assert!(ran.result(1).contains("The shell has ended"), "{end}: {}", ran.result(1));
        assert_eq!(ran.result(2), "1 /usr\n", "{end}");
    }
    assert!(run("workspace_write", ["exit 3"]).result(0).starts_with("exit status: 3\n"));
    assert!(run("workspace_write", ["kill -9 $$"]).result(0).starts_with("exit status: 137\n"));
}

#[test]
fn a_command_whose_time_is_up_is_stopped_and_the_shell_stays() {
    for mode in ["workspace_write", "full_access"] {
        let ran = run(mode, ["x=1", "echo begun; sleep 100", "echo \"$x\"", "while :; do :; done", "echo \"again $x\""]);
        assert_eq!(ran.result(1), "Error: the command timed out after 3 s and was stopped.\nbegun\n", "{mode}");
        assert_eq!(ran.result(2), "1\n", "{mode}");
        assert!(ran.result(3).contains("so the shell was ended"), "{mode}: {}", ran.result(3));
        assert_eq!(ran.result(4), "again 1\n", "{mode}");
    }
}

#[test]
fn a_flood_keeps_head_and_tail_and_the_shell() {
    let ran = run("workspace_write", ["x=1; echo first; yes | head -c 30000000; echo last", "echo \"$x\""]);
    let said = ran.result(0);
    assert!(said.starts_with("first\ny\n") && said.ends_with("last\n") && said.contains("bytes left out"), "{}", &said[..80]);
    assert!(said.len() < 60_000, "{}", said.len());
    assert_eq!(ran.result(1), "1\n");
}

#[test]
fn restart_gives_a_fresh_shell_alone_or_before_a_command() {
    let calls = [
        bash("x=1; cd /usr"),
        ("bash", json!({"restart": true})),
        bash("echo \"[$x] $PWD\""),
        bash("x=2"),
        ("bash", json!({"restart": true, "command": "echo \"[$x]\""})),
        ("bash", json!({})),
    ];
    let it = world_in("workspace_write").rounds(calls);
    let ran = it.run().status(0);
    assert_eq!(ran.result(1), "The shell was restarted.");
    assert_eq!(ran.result(2), format!("[] {}\n", it.path("").canonicalize().unwrap().display()).replace("/\n", "\n"));
    assert_eq!(ran.result(4), "[]\n");
    assert!(ran.result(5).contains("command is missing"), "{}", ran.result(5));
}

#[test]
fn a_background_process_goes_on_and_is_gone_with_the_session() {
    let it = world_in("workspace_write").rounds([
        bash("(sleep 0.3; echo late) & echo started"),
        bash("wait; echo waited"),
        bash("sleep 91.7 & echo $!"),
    ]);
    let ran = it.run().status(0);
    assert_eq!((ran.result(0).as_str(), ran.result(1).as_str()), ("started\n", "late\nwaited\n"));
    let left = std::process::Command::new("pgrep").args(["-f", "^sleep 91.7"]).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&left.stdout), "");
}

#[test]
fn the_wall_is_that_of_every_command_and_grows_with_what_must_be_protected() {
    let it = world_in("workspace_write").file(".sidignore", "hidden\n").file("hidden", "secret-words");
    let it = it.rounds([
        bash("cat hidden; touch /usr/x; echo ok > made && cat made; x=1"),
        bash("git init -q . && echo \"$x\""),
        bash("echo x > .git/config; echo x > .git/hooks/h; echo \"x is $x\"; mkdir .claude"),
        bash("echo more > /tmp/t; cat /tmp/t"),
        bash("cat /tmp/t"),
    ]);
    let ran = it.run().status(0);
    assert!(!ran.result(0).contains("secret-words") && ran.result(0).contains("Read-only file system"), "{}", ran.result(0));
    assert!(ran.result(0).contains("ok\n"));
    let second = ran.result(2);
    assert!(second.contains("The shell was started anew") && second.contains("x is 1"), "{second}");
    assert_eq!(second.matches("Read-only file system").count(), 2, "{second}");
    assert!(second.contains(".claude is a protected name") && second.contains("exit status: 1"), "{second}");
    assert_eq!(ran.result(4), "more\n", "/tmp is the shell's own");
    assert!(!it.path("sid.toml").exists() && !it.path(".claude").exists());
}

#[test]
fn the_state_survives_the_process_without_secrets() {
    let it = world_in("workspace_write").env("FROM_OUTSIDE", "1").rounds([
        bash("mkdir -p 'a b'; cd 'a b'; export GREETING=\"it's \\\"fine\\\"\"; MY_API_KEY=hush; f() { echo \"f: $1\"; }"),
        bash("alias q='echo Q'; shopt -s nullglob; arr=(1 'two words'); n=$'line\\nend'; readonly R=5; set -o pipefail"),
    ]);
    let _ran = it.run().status(0);
    let id = it.sessions()[0].clone();
    let path = it.beside("state/sessions").join(&id).join("bash-state.sh");
    let state = fs::read_to_string(&path).unwrap();
    assert!(state.contains("GREETING") && !state.contains("hush") && !state.contains("FROM_OUTSIDE"), "{state}");
    assert_eq!(std::os::unix::fs::PermissionsExt::mode(&fs::metadata(&path).unwrap().permissions()) & 0o777, 0o600);
    let look = "pwd; echo \"$GREETING\"; f x; q; shopt nullglob; echo \"${arr[1]}|$n|$R|$MY_API_KEY\"; set -o | grep pipefail";
    let it = it.args(["--resume", &id]).rounds([bash(look), bash("echo fine")]);
    let ran = it.run().status(0);
    let said = ran.result(0);
    assert!(said.contains("/a b\nit's \"fine\"\nf: x\nQ\n"), "{said}");
    assert!(said.contains("two words|line\nend|5|\n") && said.contains("pipefail"), "{said}");
    assert!(said.contains("nullglob") && said.contains("on"), "{said}");
    // A state that ends the shell is given up, and the command runs.
    fs::write(&path, "exit 7\n").unwrap();
    let it = it.rounds([bash("echo fresh")]);
    assert_eq!(it.run().status(0).result(0), "fresh\n[The state of the shell could not be restored; it began afresh.]");
}

#[test]
fn a_shell_of_its_own_for_one_command_that_leaves_the_sandbox() {
    let escalated = json!({"command": "echo \"<$x>\"; x=changed; touch ../outside && echo out; pwd", "sandbox_permissions": "require_escalated", "justification": "why not"});
    let it = world_in("auto");
    it.fake().reply([
        // The words that are reviewed are those that run, whatever the model made of its own shell.
        Reply::call("bash", &bash("x=mine; touch() { echo taken; }; alias echo='echo aliased'; PATH=/nowhere; cd /usr").1),
        Reply::call("bash", &escalated),
        Reply::text(r#"{"outcome":"allow","risk_level":"low","user_authorization":"high","rationale":"fine"}"#),
        Reply::call("bash", &json!({"command": "echo \"$x\"; /usr/bin/touch ../again"})),
        Reply::text("done"),
    ]);
    let ran = it.run().status(0);
    let outside = it.path("").canonicalize().unwrap().display().to_string();
    assert_eq!(ran.result(1), format!("<>\nout\n{}\n", outside.trim_end_matches('/')));
    assert!(it.beside("outside").exists());
    assert!(ran.result(2).starts_with("aliased mine\n") && ran.result(2).contains("Read-only"), "{}", ran.result(2));
}

#[test]
fn where_nothing_is_held_asking_to_leave_changes_nothing() {
    let asks = json!({"command": "echo \"<$x>\"; y=2", "sandbox_permissions": "require_escalated", "justification": "why not"});
    let it = world_in("full_access").rounds([bash("x=1"), ("bash", asks), bash("echo \"<$y>\"")]);
    let ran = it.run().status(0);
    assert_eq!((ran.result(1).as_str(), ran.result(2).as_str()), ("<1>\n", "<2>\n"));
}
