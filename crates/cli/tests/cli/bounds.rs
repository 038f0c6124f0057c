//! What a command may not make, and what it finds in its environment.
use std::fs;

use serde_json::json;
use sid_testkit::{Reply, Test};

use crate::{Script as _, free, sid};

fn command(line: &str) -> (&'static str, serde_json::Value) {
    ("run_command", json!({ "command": line }))
}

fn git(it: &Test, args: &[&str]) -> String {
    String::from_utf8(it.shell_in_work("git", args).stdout).unwrap()
}

#[test]
fn a_protected_name_that_did_not_exist_is_set_aside_and_the_command_has_failed() {
    let lines = [
        "mkdir .claude && echo '{}' > .claude/settings.json; echo made",
        "mkdir d && echo x > d/f && mv d .agents; echo moved",
        "ln -s /etc .codex; echo linked",
        "echo '*' > .sidignore; echo written",
        "for n in $(seq 50); do mkdir .sid 2>/dev/null; done; sleep 0.05; ls -d .sid 2>/dev/null || echo gone meanwhile",
        "echo x > rig.toml; echo x > AGENTS_SECURITY.md; true",
        "echo fine",
    ];
    let it = free().file("f", "").rounds(lines.map(command));
    let ran = it.run().status(0);
    for (n, (name, word)) in
        [(".claude", "made"), (".agents", "moved"), (".codex", "linked"), (".sidignore", "written")].into_iter().enumerate()
    {
        let said = ran.result(n);
        assert!(said.starts_with("Command failed (exit code 1)") && said.contains(word), "{said}");
        assert!(
            said.contains(&format!("{} is a protected name", it.path(name).display())) && said.contains("was moved to"),
            "{said}"
        );
        assert!(fs::symlink_metadata(it.path(name)).is_err(), "{name} is still there");
    }
    assert!(ran.result(4).contains("gone meanwhile"), "{}", ran.result(4));
    assert_eq!(ran.result(5).matches("is a protected name").count(), 2, "{}", ran.result(5));
    assert!(ran.result(6).starts_with("Exit code 0"), "{}", ran.result(6));
    let folder = fs::read_dir(it.beside("home/.cache/sid")).unwrap().next().unwrap().unwrap().path();
    assert!(folder.join("set-aside/.agents.1/f").is_file(), "nothing is lost");
    assert_eq!(it.read("f"), b"");
}

#[test]
fn what_a_file_tool_was_allowed_to_make_stays() {
    let verdict = json!({"outcome": "allow", "risk_level": "low", "user_authorization": "high", "rationale": "asked"});
    let it = sid().args(["please write .claude/x", "--output", "jsonl", "--mode", "auto"]);
    it.fake().reply([
        Reply::call("run_command", &json!({"command": "exec sleep 73.1", "run_in_background": true})),
        Reply::call("create_file", &json!({"path": ".claude/x", "content": "mine"})),
        Reply::call("verdict", &verdict),
        Reply::call("run_command", &json!({"command": "cat .claude/x"})),
        Reply::text("done"),
    ]);
    let ran = it.run().status(0);
    assert!(ran.result(2).contains("mine"), "{}", ran.result(2));
    assert_eq!(it.read(".claude/x"), b"mine");
}

#[test]
fn the_configuration_of_the_project_is_reserved_while_a_command_runs() {
    let lines = [
        "cat sid.toml && test ! -s sid.toml && git status --porcelain && echo clean",
        "echo '[network]' > sid.toml",
        "rm sid.toml; mv sid.toml x; cp f sid.toml; ln -f f sid.toml; git status --porcelain; echo end",
        "git add -A && git -c user.name=t -c user.email=t@t commit -qm y --allow-empty && git ls-files",
    ];
    let it = free().file("f", "").git().file(".git/info/exclude", "*.log");
    let it = it.rounds(lines.map(command));
    let ran = it.run().status(0);
    assert!(ran.result(0).contains("Exit code 0:\nclean\n"), "{}", ran.result(0));
    assert!(ran.result(1).contains("Read-only file system"), "{}", ran.result(1));
    assert!(ran.result(2).contains("busy") && !ran.result(2).contains("?? "), "{}", ran.result(2));
    assert!(ran.result(3).contains("Exit code 0:\nf\n["), "{}", ran.result(3));
    assert!(!it.path("sid.toml").exists() && git(&it, &["status", "--porcelain"]).is_empty());
    assert_eq!(it.read(".git/info/exclude"), b"*.log", "the user's own list is as it was");
}

#[test]
fn commands_side_by_side_share_the_reservation_and_a_persons_file_survives_it() {
    let it = free().file("f", "");
    it.fake().reply([
        Reply::call("run_command", &json!({"command": "exec sleep 73.2", "run_in_background": true})),
        Reply::call("run_command", &json!({"command": "test -e sid.toml && echo reserved"})),
        Reply::call("run_command", &json!({"command": "exec sleep 0.732"})),
        Reply::call("run_command", &json!({"command": "cat sid.toml; echo x > sid.toml"})),
        Reply::text("done"),
    ]);
    let child = it.start();
    crate::shells::eventually("the third runs", || crate::shells::alive("sleep 0.732"));
    assert_eq!(fs::metadata(it.path("sid.toml")).unwrap().len(), 0);
    fs::write(it.path("sid.toml"), "# a person's\n").unwrap();
    let ran = it.finish(child).status(0);
    assert!(ran.result(1).contains("reserved"), "{}", ran.result(1));
    assert!(ran.result(3).contains("# a person's") && ran.result(3).contains("Read-only file system"), "{}", ran.result(3));
    assert_eq!(it.read("sid.toml"), b"# a person's\n");
}

#[test]
fn a_workspace_below_the_top_of_a_repository_can_commit_and_sees_a_clean_status() {
    let it = free().file("sub/f", "").file("other/g", "").git();
    let sub = it.path("sub").display().to_string();
    let it = it.args(["--cwd", &sub]).rounds([
        command("git status --porcelain && echo x > f && git add f && git -c user.name=t -c user.email=t@t commit -qm y && echo committed"),
        command("echo x > ../other/g"),
        command("git config core.editor x"),
    ]);
    let ran = it.run().status(0);
    assert_eq!(ran.result(0), "Exit code 0:\ncommitted\n[cwd .]");
    assert!(ran.result(1).contains("Read-only file system"), "{}", ran.result(1));
    assert!(ran.result(2).contains("exit code"), "{}", ran.result(2));
    assert!(!String::from_utf8_lossy(&it.read(".git/config")).contains("editor"));
}

#[test]
fn a_repository_that_holds_the_whole_home_is_not_handed_over() {
    let it = sid().file("../home/project/f", "");
    let home = it.beside("home");
    let made = std::process::Command::new("git").args(["init", "-q"]).current_dir(&home).status().unwrap();
    assert!(made.success());
    let project = home.join("project").display().to_string();
    let it = it.command(["run", "go", "--output", "jsonl", "--mode", "workspace_write", "--cwd", &project]);
    let ran = it.rounds([command("echo x > ../.git/planted")]).run().status(0);
    assert!(ran.result(0).contains("Read-only file system"), "{}", ran.result(0));
}

#[test]
fn programs_are_found_neither_in_the_workspace_nor_in_temporary_folders() {
    let it = free().file("bin/ls", "#!/bin/sh\necho shadowed\n").file("../home/.ssh/bin/x", "").file("../home/tools/y", "");
    let planted = it.path("bin/ls");
    fs::set_permissions(&planted, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let bad = [it.path("bin").display().to_string(), "/tmp".into(), ".".into(), it.beside("home/.ssh/bin").display().to_string()];
    let good = it.beside("home/tools").display().to_string();
    let path = format!("{}:{good}:/usr/bin:/bin", bad.join(":"));
    let it = it.env("PATH", &path).env("RIG_X", "1").env("SID_Y", "1");
    let said =
        it.rounds([command("ls -d f 2>/dev/null; echo \"$PATH\"; env | grep -E '^(RIG|SID)_'; true")]).run().status(0).result(0);
    assert!(!said.contains("shadowed") && said.contains(&good), "{said}");
    let dirs: Vec<&str> = said.lines().nth(1).unwrap().split(':').collect();
    assert!(bad.iter().all(|bad| !dirs.contains(&bad.as_str())), "{said}");
    assert!(!said.contains("RIG_X") && !said.contains("SID_Y") && said.contains("/usr/local/bin"), "{said}");
}

#[test]
fn sids_own_configuration_and_state_are_protected_where_the_workspace_holds_them() {
    let it = sid().file("../home/.config/sid/settings.toml", "[permissions]\nmode = 'workspace_write'\n");
    let home = it.beside("home").display().to_string();
    let it = it.command(["run", "go", "--output", "jsonl", "--cwd", &home]).rounds([
        command("echo x > .config/sid/settings.toml"),
        command("mkdir -p .local/state/sid; echo '[]' > .local/state/sid/trust.json; true"),
        ("create_file", json!({"path": ".config/sid/x", "content": ""})),
        command("echo x > own && cat own"),
    ]);
    let ran = it.run().status(0);
    assert!(ran.result(0).contains("Read-only file system"), "{}", ran.result(0));
    assert!(ran.result(1).contains("is a protected name"), "{}", ran.result(1));
    assert!(ran.result(2).contains("protected path"), "{}", ran.result(2));
    assert!(ran.result(3).contains("Exit code 0:\nx\n"), "{}", ran.result(3));
    assert!(!it.beside("home/.local/state/sid").exists());
}

#[test]
fn in_a_container_whose_proc_is_covered_commands_get_an_empty_one() {
    // What container runtimes do; the kernel then refuses a new /proc in a user namespace of an ordinary user.
    let script = "mount -t proc none /proc && mount -t tmpfs -o ro none /proc/acpi 2>/dev/null || mount --bind /dev/null /proc/kcore; \
                  exec setpriv --reuid 65534 --regid 65534 --clear-groups \"$@\"";
    let it = free();
    let top = it.beside("");
    let open = std::process::Command::new("chown").args(["-R", "65534:65534"]).arg(&top).status().unwrap();
    assert!(open.success());
    let it = it.through(["unshare", "--pid", "--fork", "--mount", "sh", "-c", script, "x"]);
    let ran = it.rounds([command("ls /proc | wc -l; touch f && ls f")]).run().status(0);
    let said = ran.result(0);
    assert!(said.contains("Exit code 0:\n0\nf\n"), "{said}");
}

#[test]
fn without_a_place_for_caches_commands_still_run() {
    for home in ["/nonexistent", "\0unset", "/proc"] {
        let it = free().env("HOME", home).file("f", "x").git();
        let it = it.rounds([command("cat f && echo y > f && git status --short"), command("mkdir .claude; true")]);
        let ran = it.run().status(0);
        assert!(ran.result(0).starts_with("Exit code 0:\nx M f"), "{home}: {}", ran.result(0));
        assert!(ran.result(1).contains(".claude is a protected name"), "{home}: {}", ran.result(1));
        assert!(!it.path(".claude").exists() && !it.path("sid.toml").exists());
    }
}

#[test]
fn odd_places_are_workspaces_like_any_other() {
    for name in ["with space", "co:lon", "quo'te\"", "-dash", "$dollar", "new\nline", "comma,comma"] {
        let it = free().file("x", "");
        let place = it.beside("odd").join(name);
        fs::create_dir_all(&place).unwrap();
        let shown = place.display().to_string();
        let it = it.args(["--cwd", &shown]).rounds([command("echo x > f && cat f && cat sid.toml | wc -c && echo ran")]);
        let ran = it.run().status(0);
        assert!(ran.result(0).starts_with("Exit code 0:\nx\n0\nran\n"), "{name:?}: {}", ran.result(0));
        assert!(place.join("f").exists() && !place.join("sid.toml").exists());
    }
}

#[test]
fn a_workspace_in_tmp_is_there_and_the_rest_of_tmp_is_not() {
    let dir = tempfile::tempdir_in("/tmp").unwrap();
    let place = dir.path().join("w").display().to_string();
    fs::create_dir(&place).unwrap();
    fs::write(dir.path().join("beside"), "").unwrap();
    for mode in ["workspace_write", "read_only"] {
        let it = sid().args(["go", "--output", "jsonl", "--mode", mode, "--cwd", &place]);
        let ran = it.rounds([command("ls -a ..; echo x > f; pwd")]).run().status(0);
        assert!(!ran.result(0).contains("beside") && ran.result(0).contains(&place), "{mode}: {}", ran.result(0));
        assert_eq!(
            std::path::Path::new(&place).join("f").exists(),
            mode == "workspace_write" || ran.result(0).is_empty(),
            "{mode}"
        );
        let _gone = fs::remove_file(std::path::Path::new(&place).join("f"));
    }
}

#[test]
fn the_reserved_file_is_none_for_the_tools_and_can_be_made_meanwhile() {
    let verdict = json!({"outcome": "allow", "risk_level": "low", "user_authorization": "high", "rationale": "asked"});
    let it = sid().file("f", "").args(["please write sid.toml", "--output", "jsonl", "--mode", "auto"]);
    it.fake().reply([
        Reply::call("run_command", &json!({"command": "exec sleep 73.3", "run_in_background": true})),
        Reply::call("list_directory", &json!({"path": "."})),
        Reply::call("glob", &json!({"pattern": "*"})),
        Reply::call("read_file", &json!({"path": "sid.toml"})),
        Reply::call("create_file", &json!({"path": "sid.toml", "content": "[network]\n"})),
        Reply::call("verdict", &verdict),
        Reply::call("read_file", &json!({"path": "sid.toml"})),
        Reply::call("run_command", &json!({"command": "cat sid.toml; echo x >> sid.toml"})),
        Reply::text("done"),
    ]);
    let ran = it.run().status(0);
    for n in [1, 2] {
        assert!(ran.result(n).contains('f') && !ran.result(n).contains("sid.toml"), "{}", ran.result(n));
    }
    assert!(ran.result(3).contains("does not exist"), "{}", ran.result(3));
    assert!(ran.result(5).contains("[network]"), "{}", ran.result(5));
    assert!(ran.result(6).contains("Read-only file system"), "{}", ran.result(6));
    assert_eq!(it.read("sid.toml"), b"[network]\n");
}
