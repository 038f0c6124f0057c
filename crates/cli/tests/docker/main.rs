//! Sessions whose commands run in a container, against a real Docker daemon. `./check` starts one with an image of Debian's
//! minimal system, `bubblewrap` and `socat`, and names its socket in `SID_TEST_DOCKER_SOCKET`.
#![allow(clippy::unwrap_used, clippy::panic, clippy::disallowed_methods, clippy::expect_used, reason = "test code")]
use std::{
    io::{Read as _, Write as _},
    net::TcpListener,
    path::Path,
    process::Command,
    thread,
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use sid_testkit::{Ran, Reply, Test};

/// The image that `./check` makes, and one without the two programs.
const IMAGE: &str = "sid-test";
const BARE: &str = "sid-test-bare";

fn socket() -> String {
    std::env::var("SID_TEST_DOCKER_SOCKET").expect("./check starts a daemon and sets SID_TEST_DOCKER_SOCKET")
}

fn docker(args: &[&str]) -> String {
    let out = Command::new("docker").arg("-H").arg(format!("unix://{}", socket())).args(args).output().unwrap();
    assert!(out.status.success(), "{args:?}: {}", String::from_utf8_lossy(&out.stderr));
    String::from_utf8(out.stdout).unwrap()
}

/// A workspace whose commands run in a container; the lines go into `[docker]`.
fn world(mode: &str, lines: &str) -> Test {
    let it = Test::new(env!("CARGO_BIN_EXE_sid")).args(["go", "--output", "jsonl", "--mode", mode, "--trust"]);
    let settings = format!("[docker]\nsocket_path = '{}'\n{lines}\n[tools]\nshells = 'codex'\n", socket());
    it.file("../home/.config/sid/settings.toml", settings)
}

fn image(mode: &str) -> Test {
    world(mode, &format!("image = '{IMAGE}'"))
}

fn exec(cmd: &str) -> (&'static str, Value) {
    ("exec_command", json!({"cmd": cmd, "yield_time_ms": 20_000}))
}

fn run<const N: usize>(it: &Test, calls: [(&str, Value); N]) -> Ran {
    it.fake().reply(calls.iter().map(|(tool, args)| Reply::call(tool, args)).chain([Reply::text("done")]));
    it.run().status(0)
}

fn containers() -> String {
    docker(&["ps", "-a", "--format", "{{.Names}}", "--filter", "label=dev.sid.managed=true"])
}

#[test]
fn commands_run_in_the_container_behind_the_same_wall() {
    let it = image("workspace_write").file("f", "from here").file("sid.toml", "").file(".sid/x", "").file(".sidignore", "hidden\n");
    let it = it.file("hidden", "secret-words").git();
    let ran = run(
        &it,
        [
            exec("pwd; cat f; test -e /etc/debian_version && test ! -e /work && echo inside; echo made > new"),
            exec(
                "touch /etc/x /usr/x; echo x > sid.toml; echo x > .sid/y; echo x > .git/config; echo x > .git/hooks/h; cat hidden; id -u",
            ),
            exec("echo private > /tmp/t; ls /proc; true"),
            exec("cat /tmp/t; mkdir .claude; true"),
            ("read_file", json!({"path": "/workspace/new"})),
            ("read_file", json!({"path": "/etc/passwd"})),
            ("create_file", json!({"path": "by-tool", "content": "x"})),
            exec("cat by-tool && exit 7"),
            exec("git --version || true; mount -o remount,rw / ; unshare -m true; cat /proc/1/environ"),
        ],
    );
    assert!(ran.result(0).contains("/workspace\nfrom here") && ran.result(0).contains("inside"), "{}", ran.result(0));
    let walls = ran.result(1);
    assert_eq!(walls.matches("Read-only file system").count(), 6, "{walls}");
    assert!(!walls.contains("secret-words"), "{walls}");
    assert!(ran.result(3).contains("No such file") && ran.result(3).contains(".claude is a protected name"), "{}", ran.result(3));
    assert!(ran.result(4).contains("made"), "a path as the model knows it: {}", ran.result(4));
    assert!(ran.result(5).contains("root:x:0:0"), "{}", ran.result(5));
    assert!(ran.result(7).contains("exited with code 7"), "{}", ran.result(7));
    assert_eq!(it.read("new"), b"made\n");
    let system = it.fake().requests()[0].json()["messages"][0]["content"].to_string();
    assert!(system.contains("Working directory: /workspace"), "{system}");
    let name = format!("sid-{}", it.sessions()[0]);
    assert!(!containers().contains(&name), "a container of one session goes with it");
    assert!(!it.path("sid.toml").metadata().unwrap().is_dir() && !it.path(".sid-network").exists());
}

#[test]
fn file_tools_follow_the_rules_of_paths_inside_the_container() {
    let links = "ln -s /workspace/f /tmp/in; ln -s /etc/debian_version out; ln -s /workspace/hidden /opt/h; mkfifo /opt/pipe; \
                 echo of-the-container >/opt/only; ln /opt/only /opt/second; chmod 640 /opt/only";
    let read = |path: &str| ("read_file", json!({"path": path}));
    let create = |path: &str| ("create_file", json!({"path": path, "content": "made"}));
    let edit = |path: &str, old: &str| ("edit_file", json!({"path": path, "old_text": old, "new_text": "changed"}));
    let with = |mode: &str| image(mode).file("f", "from here").file(".sidignore", "hidden\n").file("hidden", "secret-words").git();
    let it = with("full_access");
    let ran = run(
        &it,
        [
            exec(links),
            read("/opt/only"),
            read("/tmp/in"),
            read("out"),
            read("../etc/debian_version"),
            read("/opt/h"),
            read("/opt/pipe"),
            read("/opt"),
            read("/nowhere/x"),
            ("list_directory", json!({"path": "/opt"})),
            create("/opt/new/deep/it's"),
            create("/opt/only"),
            edit("/opt/new/deep/it's", "made"),
            edit("/opt/only", "of-the-container"),
            exec("cat \"/opt/new/deep/it's\" /opt/second; stat -c %a /opt/only; ls -A /opt /opt/new/deep"),
            ("delete_file", json!({"path": "/opt/in-vain"})),
            ("delete_file", json!({"path": "/opt/h"})),
            ("search_files", json!({"pattern": "x", "path": "/etc"})),
            exec("touch '/opt/two words'; test -e /opt/h || echo gone; cat hidden; ls /opt"),
            ("create_directory", json!({"path": "/opt/a/b"})),
        ],
    );
    let said = |n: usize, want: &str| assert!(ran.result(n).contains(want), "{n}: {}", ran.result(n));
    said(1, "of-the-container");
    said(2, "from here");
    assert_eq!(ran.result(3), ran.result(4), "one file, by two ways");
    said(3, "1");
    said(5, "is hidden from you");
    said(6, "not a regular file");
    said(7, "is a folder");
    said(8, "/nowhere/x does not exist");
    said(9, "[FILE] only");
    said(10, "Created file: /opt/new/deep/it's");
    said(11, "exists already");
    said(12, "Edited file");
    said(13, "Edited file");
    said(14, "changedchanged\n640\n");
    assert!(!ran.result(14).contains(".tmp"), "{}", ran.result(14));
    said(15, "does not exist");
    said(16, "Deleted file: /opt/h");
    said(17, "search there with a command");
    said(18, "gone\nsecret-words");
    said(19, "Created directory: /opt/a/b");
    // With a boundary they look, and change nothing beyond the roots.
    let it = with("workspace_write");
    std::os::unix::fs::symlink("/opt", it.path("out")).unwrap();
    let calls = [read("/etc/passwd"), create("/opt/x"), create("out/x"), edit("/etc/passwd", "root"), exec("ls /opt/x; true")];
    let ran = run(&it, calls);
    let said = |n: usize, want: &str| assert!(ran.result(n).contains(want), "{n}: {}", ran.result(n));
    said(0, "root:x:0:0");
    (1..4).for_each(|n| said(n, "leaves the workspace, and mode workspace_write"));
    said(4, "cannot access '/opt/x'");
}

#[test]
fn the_bash_of_a_configuration_works_there_without_staying() {
    let it = image("workspace_write")
        .file("../home/.config/sid/agents.conf", "a_ENABLED=YES\na_TOOLS='bash fmt'\n")
        .file("../home/.config/sid/tools.conf", "bash_ENABLED=YES\nbash_TIMEOUT=2\nfmt_ENABLED=YES\n")
        .file("../home/.config/sid/tools/fmt", "#!/bin/sh\n")
        .file("../home/.config/sid/tools/fmt.json", r#"{"protocol_version": 1, "description": "d", "input_schema": {}}"#);
    let program = it.beside("home/.config/sid/tools/fmt");
    std::fs::set_permissions(program, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let bash = |command: &str| ("bash", json!({ "command": command }));
    let ran = run(
        &it,
        [
            bash("cd /usr; x=(it 's'); echo \"${x[1]} in $PWD\"; test -e /etc/debian_version && exit 3"),
            bash("echo \"<$x> $PWD\"; touch /usr/x"),
            bash("echo begun; sleep 30"),
            ("bash", json!({"restart": true})),
            ("fmt", json!({})),
        ],
    );
    assert!(ran.result(0).starts_with("s in /usr\nexit status: 3\n[In a container each command has"), "{}", ran.result(0));
    assert!(ran.result(1).starts_with("<> /workspace\n") && ran.result(1).contains("Read-only file system"), "{}", ran.result(1));
    assert!(ran.result(2).contains("timed out after 2 s") && ran.result(2).contains("begun"), "{}", ran.result(2));
    assert_eq!(ran.result(3), "The shell was restarted.");
    assert!(ran.result(4).contains("do not run in a container"), "{}", ran.result(4));
}

#[test]
fn read_only_and_full_access_are_what_they_are_elsewhere() {
    let it = image("read_only").file("f", "x");
    let ran = run(&it, [exec("cat f; echo y > f; echo t > /tmp/t && cat /tmp/t")]);
    assert!(ran.result(0).contains('x') && ran.result(0).contains("Read-only file system") && ran.result(0).contains("t\n"));
    let it = image("full_access").file("f", "x");
    let ran = run(&it, [exec("touch /etc/changed && echo changed; pwd"), exec("ls /etc/changed")]);
    assert!(ran.result(0).contains("changed\n/workspace"), "{}", ran.result(0));
    assert!(ran.result(1).contains("/etc/changed"), "the container is one for the whole session");
}

#[test]
fn sessions_are_written_interrupted_and_ended_and_leave_nothing() {
    let it = world("workspace_write", &format!("image = '{IMAGE}'\nname = 'sid-test-kept-{}'", std::process::id()));
    let trap = "trap 'echo INT' INT; trap 'echo TERM; exit 3' TERM; echo ready; while :; do sleep 0.1; done";
    let start = |cmd: &str| ("exec_command", json!({"cmd": cmd, "yield_time_ms": 1500}));
    let ran = run(
        &it,
        [
            start("while read -r l; do echo \"<$l>\"; done"),
            ("write_stdin", json!({"session_id": 1, "chars": "one\ntwo\n", "yield_time_ms": 1500})),
            start(trap),
            ("write_stdin", json!({"session_id": 2, "chars": "\u{3}", "yield_time_ms": 1500})),
            ("kill_session", json!({"session_id": 2})),
            ("write_stdin", json!({"session_id": 2, "yield_time_ms": 1})),
            start("trap '' TERM; exec sleep 81.1"),
            ("kill_session", json!({"session_id": 3})),
            start("exec sleep 81.2"),
        ],
    );
    assert!(ran.result(1).contains("<one>\n<two>"), "{}", ran.result(1));
    assert!(ran.result(3).contains("INT") && ran.result(3).contains("session ID 2"), "{}", ran.result(3));
    assert!(ran.result(5).contains("TERM"), "{}", ran.result(5));
    let name = format!("sid-test-kept-{}", std::process::id());
    assert!(containers().contains(&name), "one with a name is kept");
    // What sid gives up ends, and a sid that is killed takes its commands along.
    let left =
        || docker(&["exec", &name, "sh", "-c", "for p in /proc/[0-9]*; do tr '\\0' ' ' <$p/cmdline 2>/dev/null; echo; done"]);
    until("nothing is left", || !left().contains("sleep 81"));
    it.fake().reply([Reply::call("exec_command", &json!({"cmd": "exec sleep 81.3", "yield_time_ms": 30_000}))]);
    let child = it.start();
    until("it runs", || left().contains("sleep 81.3"));
    assert!(Command::new("kill").args(["-KILL", &child.id().to_string()]).status().unwrap().success());
    let _ran = it.finish(child);
    until("it is gone", || !left().contains("sleep 81.3"));
    docker(&["rm", "-f", &name]);
}

#[test]
fn a_terminal_is_one_in_the_container_too() {
    for mode in ["workspace_write", "full_access"] {
        let it = image(mode);
        let terminal = |cmd: &str| ("exec_command", json!({"cmd": cmd, "tty": true, "yield_time_ms": 10_000}));
        let session = |cmd: &str| ("exec_command", json!({"cmd": cmd, "tty": true, "yield_time_ms": 1000}));
        let ran = run(
            &it,
            [
                terminal(
                    "test -t 0 && test -t 1 && test -t 2 && stty size && echo \"$TERM $PAGER, it's a \\\"tty\\\": [!!]\"; exit 7",
                ),
                session("trap 'echo INT' INT; echo ready; while read -r l; do echo \"<$l>\"; done; echo end"),
                ("write_stdin", json!({"session_id": 2, "chars": "one\n", "yield_time_ms": 1000})),
                ("write_stdin", json!({"session_id": 2, "chars": "\u{3}", "yield_time_ms": 1000})),
                session("cat; echo end"),
                ("write_stdin", json!({"session_id": 3, "chars": "\u{4}", "yield_time_ms": 10_000})),
            ],
        );
        assert!(ran.result(0).contains("24 80\ndumb cat, it's a \"tty\": [!!]"), "{mode}: {}", ran.result(0));
        assert!(ran.result(0).contains("exited with code 7"), "{mode}: {}", ran.result(0));
        assert!(ran.result(2).contains("<one>"), "{mode}: {} {}", ran.result(1), ran.result(2));
        assert!(ran.result(3).contains("INT"), "{mode}: {}", ran.result(3));
        assert!(ran.result(5).contains("end") && ran.result(5).contains("exited with code 0"), "{mode}: {}", ran.result(5));
    }
}

fn until(what: &str, check: impl Fn() -> bool) {
    let begun = Instant::now();
    while !check() {
        assert!(begun.elapsed() < Duration::from_secs(20), "never: {what}");
        thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn the_managed_network_reaches_into_the_container() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let mut buffer = [0; 1000];
            let _request = stream.read(&mut buffer);
            let _gone = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 7\r\nConnection: close\r\n\r\nreached");
        }
    });
    let policy = format!("[network]\nallowed_domains = ['good.test']\nallowed_loopback_ports = [{port}]\n");
    let it = image("workspace_write").file("sid.toml", policy).file("f", "").git();
    let get = |port: u16, first: &str| format!("printf '{first}\\r\\n\\r\\n' | socat -t 3 - TCP:127.0.0.1:{port}; echo");
    let ran = run(
        &it,
        [
            exec(&get(port, "GET / HTTP/1.1\\r\\nHost: x")),
            exec(&format!("{}; echo $HTTPS_PROXY", get(3128, "CONNECT bad.test:443 HTTP/1.1\\r\\nHost: bad.test:443"))),
            exec("ls -a; ls .sid-network/command-*; echo x > .sid-network/x; rm -r .sid-network; ls .sid-network | wc -l"),
            exec(
                "(printf wrong-token; sleep 2) | socat -t 3 - UNIX-CONNECT:$(ls -d .sid-network/command-*)/http.sock; echo closed",
            ),
        ],
    );
    assert!(ran.result(0).contains("reached"), "{}", ran.result(0));
    let said = ran.result(1);
    assert!(said.contains("403 Forbidden") && said.contains("http://127.0.0.1:3128"), "{said}");
    assert!(said.contains("[network: bad.test:443 was not reached: it is not among"), "{said}");
    assert!(ran.result(2).contains("http.sock") && ran.result(2).contains("Read-only file system"), "{}", ran.result(2));
    assert!(ran.result(3).contains("closed") && !ran.result(3).contains("HTTP/1.1"), "{}", ran.result(3));
    assert!(!it.path(".sid-network").exists(), "everything is removed");
}

#[test]
fn what_can_not_hold_commands_says_what_to_do() {
    let said = |lines: &str| {
        let it = world("workspace_write", lines);
        let ran = it.run();
        assert_eq!(ran.status, 1, "{}", ran.stderr);
        ran.stdout + &ran.stderr
    };
    let bare = said(&format!("image = '{BARE}'"));
    assert!(bare.contains("install the packages `bubblewrap` and `socat`") && bare.contains("is missing"), "{bare}");
    assert!(said("image = 'no-such-image'").contains("no Docker container can be made from the image no-such-image"));
    assert!(said("container = 'no-such'").contains("the Docker container no-such can't be used"));
    assert!(
        said("container = 'a'\nimage = 'b'").contains("settings.toml:4: `docker.container` and `docker.image` can't both be set")
    );
    assert!(said("image = 'a'\nworkdir = 'rel'").contains("must be an absolute path"));
    // One that runs, but without the namespaces, and without the workspace.
    let name = format!("sid-test-strict-{}", std::process::id());
    docker(&["run", "-d", "--pull", "never", "--name", &name, IMAGE, "sleep", "infinity"]);
    let unmounted = said(&format!("container = '{name}'"));
    docker(&["rm", "-f", &name]);
    assert!(unmounted.contains("has no bind mount of") && unmounted.contains("-v "), "{unmounted}");
    let it = world("workspace_write", &format!("container = '{name}'"));
    let bind = format!("{}:/elsewhere", it.path("").display());
    docker(&["run", "-d", "--pull", "never", "--name", &name, "-v", &bind, IMAGE, "sleep", "infinity"]);
    let ran = it.run();
    docker(&["rm", "-f", &name]);
    assert!(ran.stdout.contains("--security-opt seccomp=unconfined"), "{}", ran.stdout);
    let it = image("workspace_write").env("PATH", "/nowhere");
    let without = it.run().stdout;
    assert!(without.contains("package `docker.io`") || Path::new("/usr/bin/docker").exists(), "{without}");
}

#[test]
fn an_existing_container_keeps_running() {
    let name = format!("sid-test-own-{}", std::process::id());
    let it = world("workspace_write", &format!("container = '{name}'")).file("f", "x");
    let bind = format!("{}:/elsewhere", it.path("").display());
    docker(&[
        "run",
        "-d",
        "--pull",
        "never",
        "--name",
        &name,
        "--security-opt",
        "seccomp=unconfined",
        "-v",
        &bind,
        IMAGE,
        "sleep",
        "infinity",
    ]);
    let ran = run(&it, [exec("pwd; cat f")]);
    let running = docker(&["inspect", "--format", "{{.State.Running}}", &name]);
    docker(&["rm", "-f", &name]);
    assert!(ran.result(0).contains("/elsewhere\nx"), "{}", ran.result(0));
    assert_eq!(running.trim(), "true");
}
