//! The wall, on the real kernel.
use std::{fs, os::unix::net::UnixListener};

use serde_json::json;
use sid_testkit::{Reply, Test};

use crate::{Script as _, free, sid};

fn command(line: &str) -> (&'static str, serde_json::Value) {
    ("run_command", json!({ "command": line }))
}

/// What must not work from inside, each with a trace that would prove that it did.
#[test]
fn attempts_that_must_fail() {
    let it = free().file("f", "").git();
    fs::write(it.beside("outside"), "before").unwrap();
    let outside = it.beside("outside").display().to_string();
    let attempts = [
        format!("echo x > {outside}"),
        format!("rm {outside}"),
        format!("ln {outside} hard && echo x > hard"),
        format!("ln -s {outside} soft; echo x > soft"),
        "touch /etc/sid-was-here".to_owned(),
        "mount -o remount,rw /".to_owned(),
        "mount -t tmpfs none /etc".to_owned(),
        "unshare -m sh -c 'mount -o remount,rw /'".to_owned(),
        format!("unshare -Ur sh -c 'mount --bind /tmp /mnt && echo x > {outside}'"),
        "echo x > /proc/sys/kernel/core_pattern".to_owned(),
        "echo b > /proc/sysrq-trigger".to_owned(),
        "echo 1 > /proc/irq/default_smp_affinity".to_owned(),
        "echo x > .git/hooks/pre-commit".to_owned(),
        "git config core.fsmonitor 'touch /tmp/x'".to_owned(),
        "mv .git g".to_owned(),
        "rm -rf .git/hooks".to_owned(),
        "mv .git/config .git/c".to_owned(),
        "chroot / true".to_owned(),
        "mknod dev b 8 0".to_owned(),
        format!("kill -0 {}", std::process::id()),
        format!("ls /proc/{}/root", std::process::id()),
    ];
    for line in attempts {
        let it = sid()
            .args(["go", "--output", "jsonl", "--mode", "workspace_write", "--cwd", it.path("").to_str().unwrap()])
            .rounds([command(&line)]);
        let ran = it.run().status(0);
        assert!(ran.result(0).contains("failed"), "{line}: {}", ran.result(0));
    }
    assert_eq!(fs::read(it.beside("outside")).unwrap(), b"before");
    assert!(it.path(".git/config").exists() && !it.path(".git/hooks/pre-commit").exists());
}

#[test]
fn capabilities_are_gone_and_processes_are_our_own() {
    let ran = free()
        .rounds([command("grep -c 0000000000000000 /proc/self/status; ls /proc | grep -c '^[0-9]'; cat /proc/net/route | wc -l")])
        .run()
        .status(0);
    let lines: Vec<u32> = ran.result(0).lines().filter_map(|it| it.parse().ok()).collect();
    assert!(lines[0] >= 5 && lines[1] < 12 && lines[2] <= 1, "{}", ran.result(0));
}

#[test]
fn tmp_is_private_to_each_command() {
    let marker = format!("sid-marker-{}", std::process::id());
    let ran = free().rounds([command(&format!("touch /tmp/{marker}; ls /tmp")), command("ls -A /tmp")]).run().status(0);
    assert!(ran.result(0).contains(&marker) && !ran.result(1).contains(&marker), "{}", ran.result(1));
    assert!(!std::path::Path::new("/tmp").join(marker).exists());
}

#[test]
fn host_sockets_are_unreachable_and_own_ones_work() {
    let it = free();
    let outside = it.beside("state/service.sock");
    let _listener = UnixListener::bind(&outside).unwrap();
    let _inside = UnixListener::bind(it.path("in.sock")).unwrap();
    let connect = |path: &str| {
        format!("python3 -c 'import socket; s = socket.socket(socket.AF_UNIX); s.connect(\"{path}\"); print(\"connected\")'")
    };
    let it = it.env("SSH_AUTH_SOCK", outside.to_str().unwrap()).rounds([
        command(&connect(outside.to_str().unwrap())),
        command(&connect("in.sock")),
        command("ls -A /run | wc -l"),
    ]);
    let ran = it.run().status(0);
    assert!(!ran.result(0).contains("connected"), "{}", ran.result(0));
    assert!(ran.result(1).contains("connected"), "{}", ran.result(1));
}

#[test]
fn sockets_that_come_and_go_do_not_stop_commands() {
    let it = (0..60).fold(free().args(["--max-tool-rounds", "100"]), |it, n| {
        it.reply(Reply::call("run_command", &json!({ "command": format!("echo ran {n}") })))
    });
    let it = it.reply(Reply::text("done"));
    let (path, child) = (it.beside("state/brief.sock"), it.start());
    let (stop, stopped) = std::sync::mpsc::channel::<()>();
    let churn = std::thread::spawn(move || {
        while stopped.try_recv().is_err() {
            let _listener = UnixListener::bind(&path).unwrap();
            std::thread::sleep(std::time::Duration::from_millis(12));
            fs::remove_file(&path).unwrap();
            std::thread::sleep(std::time::Duration::from_millis(12));
        }
    });
    let ran = it.finish(child).status(0);
    stop.send(()).unwrap();
    churn.join().unwrap();
    for n in 0..60 {
        assert_eq!(ran.result(n), format!("Exit code 0:\nran {n}\n[cwd .]"));
    }
}

#[test]
fn a_living_sandbox_of_somebody_else_is_left_alone() {
    let it = free().reply(Reply::Late(std::time::Duration::from_millis(100), Box::new(Reply::text("done"))));
    let sessions = it.beside("state/sessions");
    fs::create_dir(&sessions).unwrap();
    let mut other = std::process::Command::new("bwrap");
    other.args(["--ro-bind", "/", "/", "--unshare-user", "--unshare-pid", "--proc", "/proc", "--tmpfs"]).arg(&sessions);
    let mut other = other.args(["--", "sleep", "66.25"]).spawn().unwrap();
    crate::shells::eventually("the other runs", || crate::shells::alive("sleep 66.25"));
    let _ran = it.run().status(0);
    assert!(crate::shells::alive("sleep 66.25"));
    other.kill().unwrap();
    other.wait().unwrap();
    let _left = std::process::Command::new("pkill").args(["-f", "sleep 66.25"]).status();
}

#[test]
fn sb_09_a_project_with_a_cached_dependency_builds() {
    let cargo = std::path::Path::new(env!("CARGO"));
    let home = std::env::home_dir().unwrap();
    let of = |name: &str, folder: &str| std::env::var(name).unwrap_or_else(|_| home.join(folder).display().to_string());
    let (cargo_home, rustup_home) = (of("CARGO_HOME", ".cargo"), of("RUSTUP_HOME", ".rustup"));
    let it = free()
        .file("Cargo.toml", "[package]\nname = \"p\"\nversion = \"0.1.0\"\nedition = \"2021\"\n[dependencies]\nitoa = \"1\"\n");
    let it = it.file("src/main.rs", "fn main() { println!(\"{}\", itoa::Buffer::new().format(7)) }\n");
    let mut lock = std::process::Command::new(cargo);
    lock.args(["generate-lockfile", "--offline", "-q"]).current_dir(it.path("")).env("CARGO_HOME", &cargo_home);
    assert!(lock.status().unwrap().success(), "the dependency is one of sid's own, so it is in the cache");
    let it = it.env("CARGO_HOME", &cargo_home).env("RUSTUP_HOME", &rustup_home);
    let build = format!("{} run --offline -q", cargo.display());
    let real = format!("touch {cargo_home}/planted");
    let ran = it.rounds([command(&build), command(&real), command("touch \"$CARGO_HOME/mine\"")]).run().status(0);
    assert_eq!(ran.result(0), "Exit code 0:\n7\n[cwd .]");
    assert!(ran.result(1).contains("Read-only file system"), "the real cache can't be poisoned: {}", ran.result(1));
    assert!(ran.result(2).contains("exit code 0"), "{}", ran.result(2));
}

#[test]
fn sb_11_localhost_inside_one_command_works_and_the_host_is_out_of_reach() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let script = format!(
        "python3 - <<'E'\nimport socket, threading\ns = socket.socket(); s.bind(('127.0.0.1', 0)); s.listen()\nc = socket.create_connection(s.getsockname()); print('own ok')\n\
         try:\n  socket.create_connection(('127.0.0.1', {port}), 2); print('host reached')\nexcept OSError as e: print('refused', e)\nE"
    );
    let said = free().rounds([command(&script)]).run().status(0).result(0);
    assert!(said.contains("own ok") && !said.contains("host reached"), "{said}");
}

#[test]
fn sb_01_git_works_in_a_clone_a_worktree_and_a_submodule() {
    let commit = "git -c user.name=a -c user.email=a@a commit -qam change && git log --oneline | head -1 && git status --porcelain";
    let run_in = |it: Test, dir: &str| -> (Test, String) {
        let dir = it.path(dir).display().to_string();
        let it = it.command(["run", "go", "--output", "jsonl", "--mode", "workspace_write", "--cwd", &dir]);
        let it = it.rounds([command(&format!("echo x >> f; {commit}")), command("for p in $(git rev-parse --git-common-dir) $(git rev-parse --git-dir); do echo bad > $p/hooks/x; echo bad > $p/config; done; true")]);
        let ran = it.run().status(0);
        (it, ran.result(0) + &ran.result(1))
    };
    let it = free().file("main/f", "1");
    for line in [
        "cd main && git init -q && git add -A && git -c user.name=t -c user.email=t@t commit -qm one",
        "cd main && git worktree add -q ../wt",
        "git init -q super && cd super && git -c protocol.file.allow=always submodule --quiet add ../main sub && git -c user.name=t -c user.email=t@t commit -qm s",
    ] {
        let done = it.shell_in_work("sh", &["-c", line]);
        assert!(done.status.success(), "{line}: {}", String::from_utf8_lossy(&done.stderr));
    }
    let mut it = it;
    for dir in ["main", "wt", "super/sub"] {
        let (after, said) = run_in(it, dir);
        it = after;
        assert!(said.contains("change") && !said.contains("Command failed"), "{dir}: {said}");
        let planted = it.shell_in_work("sh", &["-c", "grep -rl '^bad' main/.git/config main/.git/hooks super/.git/modules/sub/config super/.git/modules/sub/hooks 2>/dev/null"]);
        assert_eq!(String::from_utf8_lossy(&planted.stdout), "", "{dir}");
    }
}

#[test]
fn a_hostile_git_pointer_grants_nothing() {
    let it = free()
        .file("../victim/.git/worktrees/w/gitdir", "/elsewhere/.git\n")
        .file("../victim/.git/worktrees/w/commondir", "../..\n")
        .file("../victim/.git/config", "[core]\n");
    let pointer = format!("gitdir: {}\n", it.beside("victim/.git/worktrees/w").display());
    let victim = it.beside("victim/.git").display().to_string();
    let it = it.file(".git", pointer).rounds([command(&format!("touch {victim}/x {victim}/worktrees/w/y"))]);
    let ran = it.run().status(0);
    assert!(ran.result(0).contains("Read-only file system") && !it.beside("victim/.git/x").exists(), "{}", ran.result(0));
}

#[test]
fn sb_03_unusual_git_folders_do_not_stop_commands() {
    let it = free();
    std::os::unix::fs::symlink("/nowhere/p.git", it.path(".git")).unwrap();
    assert!(it.rounds([command("echo runs")]).run().status(0).result(0).contains("runs"));
    let it = free().file(".git", "not a pointer");
    assert!(it.rounds([command("echo runs")]).run().status(0).result(0).contains("runs"));
    let it = free().file("a/.git/config", "").file("b/.git/config", "");
    assert!(it.rounds([command("echo runs")]).run().status(0).result(0).contains("runs"));
}

#[test]
fn sb_04_no_placeholder_is_left_in_the_workspace() {
    let it = free().file("f", "").git();
    let state = |it: &Test| String::from_utf8(it.shell_in_work("git", &["status", "--porcelain", "--ignored"]).stdout).unwrap();
    let it = it.rounds([command("true"), command("true"), command("true")]);
    let _ran = it.run().status(0);
    assert_eq!(state(&it), "");
    it.fake().reply([Reply::call("run_command", &json!({"command": "exec sleep 62.5"}))]);
    let child = it.start();
    crate::shells::eventually("the command runs", || crate::shells::alive("sleep 62.5"));
    crate::shells::signal(&child, "KILL");
    let _ran = it.finish(child);
    it.fake().reply([Reply::text("nothing to run")]);
    let _ran = it.run().status(0);
    assert_eq!(state(&it), "", "what a killed sid left is cleared by the next, whatever that does");
}

#[test]
fn sb_05_links_in_the_workspace() {
    let it = sid().file("../repos/backend/x", "").file("../cache/x/secrets.tf", "");
    std::os::unix::fs::symlink(it.beside("repos/backend"), it.path("backend")).unwrap();
    std::os::unix::fs::symlink(it.beside("cache/x"), it.path("bazel-out")).unwrap();
    let it = it.args(["go", "--output", "jsonl", "--mode", "workspace_write", "--add-dir", "backend"]);
    let it =
        it.rounds([command("echo y > backend/f && cat backend/f"), command("echo hi"), command("echo x > bazel-out/secrets.tf")]);
    let ran = it.run().status(0);
    assert!(
        ran.result(0).contains('y') && ran.result(1).contains("hi") && ran.result(2).contains("Read-only"),
        "{}",
        ran.result(2)
    );
}

#[test]
fn a_protected_name_that_is_a_link_stops_commands_with_the_reason() {
    let it = free().file("elsewhere", "");
    std::os::unix::fs::symlink("elsewhere", it.path(".claude")).unwrap();
    let said = it.rounds([command("echo runs")]).run().status(0).result(0);
    assert!(said.contains(".claude is a link") && !said.contains("runs\n"), "{said}");
}

#[test]
fn protected_files_are_read_only_to_commands() {
    let it = free().file(".sid/mcp.toml", "").file("sid.toml", "").file(".claude/x", "");
    let it =
        it.rounds([command("echo x > .sid/mcp.toml"), command("rm sid.toml"), command("mv .claude c"), command("touch .sid/new")]);
    let ran = it.run().status(0);
    for n in 0..4 {
        assert!(ran.result(n).contains("failed"), "{n}: {}", ran.result(n));
    }
}

#[test]
fn sb_08_files_made_inside_have_the_right_owner() {
    use std::os::unix::fs::MetadataExt as _;
    let it = free().rounds([command("id -u; touch made; touch /etc/x || true")]);
    let ran = it.run().status(0);
    let (made, work) = (fs::metadata(it.path("made")).unwrap(), fs::metadata(it.path("")).unwrap());
    assert_eq!((made.uid(), made.gid()), (work.uid(), work.gid()));
    assert!(ran.result(0).contains("Read-only file system"));
}

#[test]
fn without_bwrap_nothing_runs_and_the_package_is_named() {
    // A machine without bwrap: the program itself hides it.
    let it = free().rounds([command("touch ran"), ("read_file", json!({"path": "f"}))]).file("f", "x");
    let it = it.through(["bwrap", "--dev-bind", "/", "/", "--ro-bind", "/dev/null", "/usr/bin/bwrap", "--"]);
    let ran = it.run().status(0);
    assert!(ran.result(0).contains("package `bubblewrap`") && !it.path("ran").exists(), "{}", ran.result(0));
    assert_eq!(ran.result(1), "x");
    let ran = it.command(["doctor"]).run().status(1);
    assert!(ran.stdout.contains("FIX   sandbox") && ran.stdout.contains("bubblewrap"), "{}", ran.stdout);
}

#[test]
fn an_ordinary_user_gets_the_same_wall() {
    if !rustix::process::geteuid().is_root() {
        return; // Then every other test here is that of an ordinary user.
    }
    let it = free().rounds([command("id -u; touch inside; touch /etc/x || echo walled; grep CapEff /proc/self/status")]);
    let everyone = |path: std::path::PathBuf| {
        assert!(std::process::Command::new("chmod").args(["-R", "a+rwX"]).arg(path).status().unwrap().success())
    };
    everyone(it.beside(""));
    let program = it.beside("sid");
    fs::copy(env!("CARGO_BIN_EXE_sid"), &program).unwrap();
    everyone(program);
    let it = it.through(["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--"]);
    let ran = it.run().status(0);
    let said = ran.result(0);
    assert!(
        said.contains("65534") && said.contains("walled") && said.contains("0000000000000000") && it.path("inside").exists(),
        "{said}"
    );
}

#[test]
fn a_command_that_swaps_a_link_gets_nowhere() {
    // The file tool is judged while `d` is a folder and acts when it may be a link to outside.
    let it = free().file("d/f", "x");
    fs::create_dir(it.beside("target")).unwrap();
    fs::write(it.beside("target/f"), "x").unwrap();
    let target = it.beside("target").display().to_string();
    let swap = format!("i=0; while [ $i -lt 400 ]; do mv d e; ln -s {target} d; rm d; mv e d; i=$((i+1)); done");
    let edit = |n: u32| ("edit_file", json!({"path": "d/f", "old_text": "x", "new_text": format!("x{n}")}));
    let it = it.reply(Reply::call("run_command", &json!({"command": swap, "run_in_background": true})));
    let it = (0..60).fold(it, |it, n| {
        let (tool, args) = edit(n);
        it.reply(Reply::call(tool, &args))
    });
    let it = it.reply(Reply::text("done")).args(["--max-tool-rounds", "100"]);
    let _ran = it.run().status(0);
    assert_eq!(fs::read(it.beside("target/f")).unwrap(), b"x");
}
