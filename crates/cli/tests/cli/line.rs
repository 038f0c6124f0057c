//! `sid` line by line.
use std::{
    fs,
    process::Command,
    time::{Duration, Instant},
};

use serde_json::json;
use sid_testkit::{Reply, Test};

use crate::sid;

fn plain(mode: &str, lines: &str) -> Test {
    sid().command(["--plain", "--mode", mode]).stdin(lines)
}

fn make(name: &str) -> Reply {
    Reply::call("create_file", &json!({"path": name, "content": "x"}))
}

#[test]
fn several_turns_commands_and_a_line_that_goes_on() {
    let it = plain("auto", "hello \\\nworld\n\n/mode read_only\n/mode\n/mode nope\n/what\n/stats\n/help\nagain\n/quit\nnever\n");
    it.fake().reply([Reply::text("first answer"), Reply::text("second answer")]);
    let ran = it.run().status(0);
    assert_eq!(ran.stdout, "first answer\nsecond answer\n");
    for want in ["Mode: auto", "Mode: read_only", "there is no mode 'nope'", "There is no command /what", "60 tokens in", "/stats"]
    {
        assert!(ran.stderr.contains(want), "{want}: {}", ran.stderr);
    }
    let requests = it.fake().requests();
    assert_eq!(requests.len(), 2);
    let messages = requests[1].json()["messages"].to_string();
    assert!(
        messages.contains("hello \\nworld") && messages.contains("[sid: the user changed the mode to read_only.]"),
        "{messages}"
    );
    assert_eq!(it.sessions().len(), 1);
}

#[test]
fn a_person_answers_once_always_never_or_not_at_all() {
    let it = plain("manual", "go\ny\nmaybe\nn\na\nv\n");
    it.fake().reply([
        make("one"),
        make("two"),
        Reply::call("run_command", &json!({"command": "echo yes > three"})),
        Reply::call("run_command", &json!({"command": "echo yes > four"})),
        Reply::call("delete_file", &json!({"path": "one"})),
        Reply::call("delete_file", &json!({"path": "one"})),
        Reply::text("done"),
    ]);
    let ran = it.run().status(0);
    assert!(it.path("one").exists() && !it.path("two").exists(), "{}", ran.stderr);
    assert!(it.path("three").exists() && it.path("four").exists(), "always: asked once: {}", ran.stderr);
    let asked = ran.stderr.lines().filter(|it| it.starts_with('`') && it.contains("needs a person's approval")).count();
    assert_eq!(asked, 4, "{}", ran.stderr);
    assert!(ran.stderr.contains("Please answer y, a, n or v."));
    let last = it.fake().requests().pop().unwrap().json()["messages"].to_string();
    assert!(last.contains("Permission denied by the user") && last.contains("is switched off for this session"), "{last}");
}

#[test]
fn the_end_of_input_is_a_no_and_ends_the_session_whole() {
    let it = plain("manual", "go\n");
    let two = |name: &str| ("create_file", json!({"path": name, "content": "x"}));
    it.fake().reply([Reply::calls([two("one"), two("two")])]);
    let ran = it.run().status(0);
    assert!(!it.path("one").exists() && !it.path("two").exists() && ran.stdout.is_empty(), "{}", ran.stderr);
    assert_eq!(it.fake().requests().len(), 1, "nobody is there to read an answer");
    let ended: Vec<_> =
        it.journal().iter().filter_map(|it| it["finished"]["outcome"]["status"].as_str().map(str::to_owned)).collect();
    assert_eq!(ended, ["cancelled", "cancelled"]);
    // What the model sees is whole all the same.
    let id = it.sessions()[0].clone();
    let it = it.command(["run", "on", "--resume", &id, "--output", "jsonl"]).reply(Reply::text("done"));
    assert_eq!(it.run().status(0).of_type("result")[0]["text"], "done");
}

#[test]
fn a_person_decides_where_no_review_can_be_made() {
    for (setting, answer, there) in [("ask", "y", true), ("ask", "n", false), ("deny", "y", false)] {
        let it = plain("auto", &format!("go\n{answer}\n"));
        let it = it.file("../home/.config/sid/settings.toml", format!("[permissions]\nwhen_unavailable = '{setting}'\n"));
        let call = json!({"command": "echo x > ../outside", "sandbox_permissions": "require_escalated", "justification": "why"});
        it.fake().reply([
            Reply::call("run_command", &call),
            Reply::text("no verdict at all"),
            Reply::text("done"),
            Reply::text("more"),
        ]);
        let _ran = it.run().status(0);
        assert_eq!(it.beside("outside").exists(), there, "{setting} {answer}");
    }
}

#[test]
fn what_makes_no_sense_is_refused() {
    let it = sid().command(["--plain", "--output", "jsonl"]).stdin("");
    assert!(it.run().status(64).stderr.contains("is for `sid run`"));
    let it = sid().command::<&str>([]).stdin("hello\n");
    assert!(it.run().status(64).stderr.contains("sid --plain"));
}

/// A session on a real terminal, by tmux.
struct Screen {
    name: String,
}

impl Screen {
    fn start(it: &Test, program: &str, args: &str) -> Self {
        let name = format!("sid-test-{}", it.beside("").file_name().unwrap().to_string_lossy().replace('.', ""));
        let url = format!("{}/v1", it.fake().url());
        let home = it.beside("home").display().to_string();
        let state = it.beside("state/sessions").display().to_string();
        let line = format!(
            "env -i PATH=\"$PATH\" TERM=\"$TERM\" HOME='{home}' SID_SESSIONS='{state}' OPENAI_BASE_URL='{url}' OPENAI_API_KEY=k '{program}' {args}; echo LEFT $?"
        );
        let made = Command::new("tmux")
            .args(["-L", &name, "-f", "/dev/null", "new-session", "-d", "-x", "100", "-y", "30", "-c"])
            .arg(it.path(""))
            .args(["sh", "-c", &format!("trap : INT; {line}; sleep 60")])
            .status()
            .unwrap();
        assert!(made.success());
        Self { name }
    }

    fn keys(&self, keys: &[&str]) {
        assert!(Command::new("tmux").args(["-L", &self.name, "send-keys"]).args(keys).status().unwrap().success());
    }

    /// The screen with its colours.
    fn escapes(&self) -> String {
        let out = Command::new("tmux").args(["-L", &self.name, "capture-pane", "-p", "-e"]).output().unwrap();
        let seen = String::from_utf8_lossy(&out.stdout).replace("\u{1b}[0;1m", "\u{1b}[1m");
        // Going back to the usual is told in many ways.
        ["\u{1b}[0m", "\u{1b}[39m", "\u{1b}[49m"].iter().fold(seen, |seen, usual| seen.replace(usual, ""))
    }

    fn until(&self, want: &str) -> String {
        let begun = Instant::now();
        loop {
            let out = Command::new("tmux").args(["-L", &self.name, "capture-pane", "-p"]).output().unwrap();
            let text = String::from_utf8_lossy(&out.stdout).into_owned();
            if text.contains(want) {
                return text;
            }
            assert!(begun.elapsed() < Duration::from_secs(20), "never: {want}\n{text}");
            std::thread::sleep(Duration::from_millis(30));
        }
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        let _gone = Command::new("tmux").args(["-L", &self.name, "kill-server"]).status();
    }
}

#[test]
fn a_line_is_edited_with_the_keys_of_the_settings() {
    for (settings, keys) in [("[line]\nediting = 'vi'\n", ["Escape", "0", "x"]), ("", ["C-a", "C-d", "C-e"])] {
        let it = sid().file("../home/.config/sid/settings.toml", settings).reply(Reply::text("done"));
        let screen = Screen::start(&it, env!("CARGO_BIN_EXE_sid"), "");
        screen.until("Mode: auto");
        screen.keys(&["xgo there"]);
        screen.until("> xgo there");
        screen.keys(&keys);
        screen.until("> go there");
        screen.keys(&["Enter"]);
        screen.until("done\n>");
        assert_eq!(it.fake().requests()[0].json()["messages"][1]["content"], "go there");
    }
}

#[test]
fn lines_that_were_typed_ahead_wait_for_their_prompt() {
    let it = sid();
    it.fake().reply([
        Reply::calls([("run_command", json!({"command": "until test -e go; do sleep 0.05; done"}))]),
        Reply::text("first"),
        Reply::text("second"),
        Reply::text("third"),
    ]);
    let screen = Screen::start(&it, env!("CARGO_BIN_EXE_sid"), "");
    screen.until("Mode: auto");
    screen.keys(&["one", "Enter"]);
    screen.until("until test -e go");
    screen.keys(&["two", "Enter", "three", "Enter", "/stats", "Enter"]);
    fs::write(it.path("go"), "").unwrap();
    let seen = screen.until("tokens in");
    let asked: Vec<String> = (1..4).map(|n| it.fake().requests()[n].json()["messages"].to_string()).collect();
    assert!(asked[1].contains("\"two\"") && !asked[1].contains("\"three\"") && asked[2].contains("\"three\""), "{seen}");
}

#[test]
fn an_answer_ends_its_line_before_a_call_is_shown() {
    let it = sid().file("f", "x");
    it.fake().reply([
        Reply::Calls("I look.".to_owned(), vec![("read_file".to_owned(), json!({"path": "f"}).to_string())]),
        Reply::text("done"),
    ]);
    let screen = Screen::start(&it, env!("CARGO_BIN_EXE_sid"), "");
    screen.until("Mode: auto");
    screen.keys(&["go", "Enter"]);
    let seen = screen.until("done\n>");
    assert!(seen.contains("> go\nI look.\n→ read_file({\"path\":\"f\"})\ndone\n>"), "{seen}");
}

#[test]
fn colours_are_for_terminals_that_want_them() {
    let with = |agents: &str, args: &str| {
        let it = sid().file("f", "one\n");
        let it = it
            .file("../home/.config/sid/agents.conf", format!("build_ENABLED=YES\nbuild_TOOLS='@sigit edit'\n{agents}"))
            .file("../home/.config/sid/tools.conf", "edit_ENABLED=MANUAL\n");
        let edit = json!({"command": "str_replace", "path": "/f", "old_str": "one", "new_str": "two"});
        it.fake().reply([
            Reply::call("run_command", &json!({"command": "echo \"<$NO_COLOR>\"; false"})),
            Reply::call("str_replace_based_edit_tool", &edit),
            Reply::text("done"),
        ]);
        let screen = Screen::start(&it, env!("CARGO_BIN_EXE_sid"), args);
        screen.until("Mode: auto");
        screen.keys(&["go", "Enter"]);
        screen.until("Allow? [y]es");
        let seen = screen.escapes();
        screen.keys(&["n", "Enter"]);
        screen.until("done\n>");
        let told = it.fake().requests()[1].json()["messages"].to_string();
        (seen, told)
    };
    let (seen, told) = with("", "");
    for want in ["\u{1b}[2m→ run_command", "\u{1b}[31m  run_command: ", "\u{1b}[31m-one", "\u{1b}[32m+two", "\u{1b}[1m`str_replace"]
    {
        assert!(seen.contains(want), "{want:?}: {seen:?}");
    }
    assert!(told.contains("<>"), "{told}");
    for (agents, args) in
        [("build_NO_COLOR=YES\nbuild_USE_COLOR=YES\n", ""), ("build_USE_COLOR=NO\n", ""), ("", "--param-no-color")]
    {
        let (seen, told) = with(agents, args);
        assert!(seen.contains("→ run_command") && seen.contains("+two") && !seen.contains('\u{1b}'), "{agents}{args}: {seen:?}");
        assert!(told.contains("<1>"), "{told}");
    }
}

#[test]
fn on_a_terminal_ctrl_c_stops_the_turn_and_the_session_goes_on() {
    let it = sid();
    it.fake().reply([
        Reply::call("run_command", &json!({"command": "exec sleep 76.1"})),
        Reply::text("still here"),
        Reply::call("run_command", &json!({"command": "echo x > ../outside; head -1 </dev/tty"})),
        Reply::text("all done"),
    ]);
    let screen = Screen::start(&it, env!("CARGO_BIN_EXE_sid"), "");
    screen.until("Mode: auto");
    screen.keys(&["start it", "Enter"]);
    crate::shells::eventually("it runs", || crate::shells::alive("sleep 76.1"));
    screen.keys(&["C-c"]);
    screen.until("Interrupted.");
    crate::shells::eventually("it is gone", || !crate::shells::alive("sleep 76.1"));
    screen.keys(&["are you there?", "Enter"]);
    screen.until("still here");
    screen.keys(&["sh_06", "Enter"]);
    screen.until("all done\n>");
    screen.keys(&["C-d"]);
    screen.until("LEFT");
    assert!(!it.beside("outside").exists());
    assert_eq!(fs::read_dir(it.beside("state/sessions")).unwrap().count(), 1);
}

#[test]
fn tu_08_a_question_waits_for_an_answer_that_was_typed_after_it() {
    for args in ["--mode manual --allow-tool run_command", "--plain --mode manual --allow-tool run_command"] {
        let it = sid();
        it.fake().reply([
            Reply::call("run_command", &json!({"command": "until test -e go; do sleep 0.05; done"})),
            make("f"),
            Reply::text("all done"),
        ]);
        let screen = Screen::start(&it, env!("CARGO_BIN_EXE_sid"), args);
        screen.until("Mode: manual");
        screen.keys(&["start it", "Enter"]);
        screen.until("until test -e go");
        screen.keys(&["y", "Enter"]);
        screen.until("\ny\n");
        fs::write(it.path("go"), "").unwrap();
        screen.until("Allow? [y]es");
        screen.keys(&["n", "Enter"]);
        screen.until("all done\n>");
        assert!(!it.path("f").exists(), "{args}: it answered itself");
        screen.keys(&["C-d"]);
        screen.until("LEFT");
    }
}

#[test]
fn a_question_is_left_by_stopping_its_turn() {
    for args in ["--mode manual", "--plain --mode manual"] {
        let it = sid();
        it.fake().reply([make("f"), Reply::text("all done")]);
        let screen = Screen::start(&it, env!("CARGO_BIN_EXE_sid"), args);
        screen.until("Mode: manual");
        screen.keys(&["start it", "Enter"]);
        screen.until("Allow? [y]es");
        screen.keys(&["C-c"]);
        screen.until("Interrupted.");
        screen.keys(&["and now?", "Enter"]);
        screen.until("all done\n>");
        assert!(!it.path("f").exists() && it.fake().requests().len() == 2, "{args}");
        screen.keys(&["C-d"]);
        screen.until("LEFT");
    }
}

#[test]
fn a_signal_ends_it_at_the_prompt_and_at_a_question() {
    for (args, words, seen) in
        [("", "", "Mode: manual"), ("--plain", "", "Mode: manual"), ("", "go", "Allow? [y]es"), ("--plain", "go", "Allow? [y]es")]
    {
        let it = sid();
        it.fake().reply([make("f")]);
        let screen = Screen::start(&it, env!("CARGO_BIN_EXE_sid"), &format!("{args} --mode manual --cwd ."));
        if !words.is_empty() {
            screen.until("Mode: manual");
            screen.keys(&[words, "Enter"]);
        }
        screen.until(seen);
        // The server's window is a shell, whose child is sid.
        let pane = Command::new("tmux").args(["-L", &screen.name, "list-panes", "-F", "#{pane_pid}"]).output().unwrap();
        let shell = String::from_utf8(pane.stdout).unwrap();
        assert!(Command::new("pkill").args(["-TERM", "-P", shell.trim()]).status().unwrap().success());
        screen.until("LEFT 143");
        assert!(!it.path("f").exists());
    }
}

#[test]
fn trust_is_asked_once_for_a_content() {
    let policy = "[network]\nallowed_domains = ['good.test']\nallowed_loopback_ports = [9001]\n";
    let look = || Reply::call("run_command", &json!({"command": "env | grep -c 127.0.0.1:3128; true"}));
    let it = plain("auto", "maybe\nyes\ngo\n").file("sid.toml", policy);
    it.fake().reply([look(), Reply::text("one"), look(), Reply::text("two"), look(), Reply::text("three")]);
    let ran = it.run().status(0);
    assert!(
        ran.stderr.contains("sid.toml asks for trust. It lets commands reach:\n  good.test (port 443)\n  127.0.0.1:9001"),
        "{}",
        ran.stderr
    );
    assert!(ran.stderr.contains("Please answer yes or no.") && !ran.stderr.contains("is not trusted"), "{}", ran.stderr);
    let it = it.stdin("go\n");
    assert!(!it.run().status(0).stderr.contains("asks for trust"), "asked once");
    let it = it.file("sid.toml", format!("{policy}# more\n")).stdin("no\ngo\n");
    let ran = it.run().status(0);
    assert!(
        ran.stderr.contains("asks for trust") && ran.stderr.contains("is not trusted"),
        "a changed file is a new question: {}",
        ran.stderr
    );
    let counts: Vec<bool> =
        [1, 3, 5].iter().map(|n| it.fake().requests()[*n].json()["messages"].to_string().contains("0:\\n4\\n")).collect();
    assert_eq!(counts, [true, true, false]);
}

#[test]
fn a_manual_agent_is_asked_about() {
    let it = plain("auto", "n\n")
        .file("../home/.config/sid/agents.conf", "look_ENABLED=MANUAL\n")
        .file("../home/.config/sid/tools.conf", "");
    let ran = it.run().status(0);
    assert!(ran.stderr.contains("Not started.") && it.sessions().is_empty(), "{}", ran.stderr);
    let it = it.stdin("yes\nhello\n").reply(Reply::text("hi"));
    assert_eq!(it.run().status(0).stdout, "hi\n");
}
