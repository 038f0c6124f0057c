//! Search and glob.
use serde_json::json;

use crate::{Script as _, free};

#[test]
fn se_01_what_git_ignores_is_never_silently_absent() {
    let it = free().file(".gitignore", "dist/\n.env\n").file("dist/app.js", "needle").file("src/app.ts", "x").git();
    let it = it.rounds([
        ("glob", json!({"pattern": "dist/app.js"})),
        ("glob", json!({"pattern": "**/app.js"})),
        ("glob", json!({"pattern": "**/app.js", "include_ignored": true})),
        ("search_files", json!({"pattern": "needle"})),
        ("search_files", json!({"pattern": "needle", "include_ignored": true})),
        ("search_files", json!({"pattern": "needle", "path": "dist/app.js"})),
    ]);
    let ran = it.run().status(0);
    let path = it.path("dist/app.js").display().to_string();
    assert_eq!((ran.result(0), ran.result(2)), (path.clone(), path.clone()));
    assert!(ran.result(1).contains("1 ignored by Git match"), "{}", ran.result(1));
    assert!(ran.result(3).contains("1 matches are in files that Git ignores"), "{}", ran.result(3));
    assert_eq!((ran.result(4), ran.result(5)), (format!("{path}:1: needle"), format!("{path}:1: needle")));
}

#[test]
fn se_05_a_search_with_context_holds_little_memory() {
    let line = "some words of a log line that is neither short nor long\n";
    let mut log = line.repeat(1_700_000);
    log.insert_str(60_000_000 / line.len() * line.len(), "line 5999999\n");
    let it = free();
    let it = (0..2).fold(it, |it, n| it.file(&format!("logs/{n}.log"), &log));
    drop(log);
    let it = it.rounds([("search_files", json!({"pattern": "line 5999999", "path": "logs", "context_lines": 2}))]);
    let child = it.start();
    let pid = child.id();
    let peak = std::thread::spawn(move || {
        let mut peak = 0_u64;
        while let Some(kib) = std::fs::read_to_string(format!("/proc/{pid}/status"))
            .ok()
            .and_then(|it| it.lines().find(|it| it.starts_with("VmHWM"))?.split_whitespace().nth(1)?.parse().ok())
        {
            peak = peak.max(kib);
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        peak
    });
    let ran = it.finish(child).status(0);
    assert_eq!(ran.result(0).matches("line 5999999").count(), 2);
    assert_eq!(ran.result(0).lines().count(), 10, "{}", ran.result(0));
    let peak = peak.join().unwrap();
    assert!(peak < 64 << 10, "{peak} KiB");
}

#[test]
fn results_are_in_path_order_and_bounded() {
    let it = (0..30).fold(free(), |it, n| it.file(&format!("d/{n:02}.txt"), "hit\nmiss\nhit\n"));
    let it = it.file("bin", b"hit\x00hit").file("wide.txt", format!("hit {}\n", "x".repeat(2000)));
    let it = it.rounds([
        ("search_files", json!({"pattern": "^hit$", "max_results": 5})),
        ("search_files", json!({"pattern": "HIT", "ignore_case": true, "file_glob": "0*.txt"})),
        ("search_files", json!({"pattern": "("})),
        ("search_files", json!({"pattern": "hit", "path": "gone"})),
        ("search_files", json!({"pattern": "hit x"})),
        ("glob", json!({"pattern": "["})),
        ("glob", json!({"pattern": "d/{00,01}.txt"})),
    ]);
    let ran = it.run().status(0);
    let d = it.path("d").display().to_string();
    assert_eq!(
        ran.result(0),
        format!(
            "{d}/00.txt:1: hit\n{d}/00.txt:3: hit\n{d}/01.txt:1: hit\n{d}/01.txt:3: hit\n{d}/02.txt:1: hit\n{d}/02.txt:3: hit\n[showing 6 of 60 matches]"
        )
    );
    assert_eq!(ran.result(1).lines().count(), 20);
    assert!(ran.result(2).contains("not a valid regular expression"), "{}", ran.result(2));
    assert!(ran.result(3).contains("does not exist") && ran.result(5).contains("pattern is not valid"));
    assert!(ran.result(4).len() < 700 && ran.result(4).ends_with('…'));
    assert_eq!(ran.result(6).lines().count(), 2);
}

#[test]
fn files_that_the_kernel_makes_up_are_not_walked() {
    let it = free().rounds([
        ("search_files", json!({"pattern": "x", "path": "/proc"})),
        ("search_files", json!({"pattern": "x", "path": "/proc/self/environ"})),
        ("glob", json!({"pattern": "/sys/**/uevent"})),
        ("read_file", json!({"path": "a\0b"})),
        ("glob", json!({"pattern": "/proc/version"})),
    ]);
    let ran = it.run().status(0);
    for n in [0, 1, 2] {
        assert!(ran.result(n).contains("made up by the kernel"), "{n}: {}", ran.result(n));
    }
    assert!(ran.result(3).contains("can't be resolved") && ran.result(4) == "/proc/version", "{}", ran.result(3));
}

#[test]
fn the_ignore_file_of_sid_hides_from_every_route() {
    let it = free()
        .file(".sidignore", "secret.txt\nvault/\n")
        .file("secret.txt", "needle")
        .file("vault/x", "needle")
        .file("open.txt", "needle")
        .git();
    std::os::unix::fs::symlink("secret.txt", it.path("alias")).unwrap();
    let it = it.rounds([
        ("read_file", json!({"path": "secret.txt"})),
        ("read_file", json!({"path": "alias"})),
        ("edit_file", json!({"path": "vault/x", "old_text": "needle", "new_text": "x"})),
        ("list_directory", json!({"path": "."})),
        ("search_files", json!({"pattern": "needle", "include_ignored": true})),
        ("glob", json!({"pattern": "**/*", "include_ignored": true})),
        ("glob", json!({"pattern": "secret.txt"})),
        ("run_command", json!({"command": "cat secret.txt alias vault/* ; ls -A vault; git show HEAD:open.txt"})),
        ("edit_file", json!({"path": ".sidignore", "old_text": "secret.txt\n", "new_text": ""})),
        ("run_command", json!({"command": "echo > .sidignore"})),
    ]);
    let ran = it.run().status(0);
    for n in [0, 1, 2, 6] {
        assert!(ran.result(n).contains("hidden"), "{n}: {}", ran.result(n));
    }
    assert!(!ran.result(3).contains("secret") && !ran.result(3).contains("vault"), "{}", ran.result(3));
    assert_eq!(ran.result(4).lines().count(), 1, "{}", ran.result(4));
    assert!(!ran.result(5).contains("secret") && !ran.result(5).contains("vault"), "{}", ran.result(5));
    assert_eq!(ran.result(7).matches("needle").count(), 1, "{}", ran.result(7));
    assert!(ran.result(8).contains("protected path") && ran.result(9).contains("failed"), "{} {}", ran.result(8), ran.result(9));
    assert_eq!(it.read("secret.txt"), b"needle");
}
