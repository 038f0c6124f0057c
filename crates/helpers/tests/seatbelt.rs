//! The real program in the real sandbox.
#![allow(clippy::unwrap_used, clippy::disallowed_methods, reason = "test code")]
use std::{fs, path::Path, process::Command};

fn seatbelt(cwd: &Path, args: &[&str]) -> (i32, String) {
    let out = Command::new(env!("CARGO_BIN_EXE_sid-seatbelt"))
        .args(args)
        .current_dir(cwd)
        .env("OPENAI_API_KEY", "sk-secret-1")
        .env("HOME", cwd)
        .output()
        .unwrap();
    let text = [out.stdout, out.stderr].concat();
    (out.status.code().unwrap_or(-1), String::from_utf8_lossy(&text).into_owned())
}

#[test]
fn commands_write_only_where_they_may() {
    let dir = tempfile::tempdir_in("/var/tmp").unwrap();
    let root = fs::canonicalize(dir.path()).unwrap();
    for name in ["a", "b", "c"] {
        fs::create_dir(root.join(name)).unwrap();
    }
    let roots = format!("{}:{}", root.join("a").display(), root.join("b").display());
    let line = "touch a/x; touch b/x; touch c/x; env | grep -c sk-secret; exit 7";
    for option in ["--writable-roots", "-writable-roots"] {
        let (code, said) = seatbelt(&root, &[option, &roots, "--", "sh", "-c", line]);
        assert_eq!(code, 7, "{said}");
        assert!(said.contains("c/x") && said.contains("Read-only file system") && said.contains("0\n"), "{said}");
    }
    assert!(root.join("a/x").exists() && root.join("b/x").exists() && !root.join("c/x").exists());
    let (code, said) = seatbelt(&root, &["--", "touch", "a/y"]);
    assert!(code == 1 && said.contains("Read-only file system"), "{said}");
    let (code, said) = seatbelt(&root, &[&format!("--writable-roots={roots}"), "--", "printf", "%s|", "a b", "c"]);
    assert_eq!((code, said.as_str()), (0, "a b|c|"));
}

#[test]
fn mistakes_are_1_with_a_sentence() {
    let dir = tempfile::tempdir_in("/var/tmp").unwrap();
    for (args, want) in [
        (&[][..], "no command; usage"),
        (&["--"], "no command; usage"),
        (&["ls"], "'ls' is not understood"),
        (&["--writable-roots"], "needs folders"),
        (&["--writable-roots", "/nowhere", "--", "ls"], "no such directory"),
        (&["--writable-roots", "/", "--", "ls"], "can't be a workspace"),
    ] {
        let (code, said) = seatbelt(dir.path(), args);
        assert!(code == 1 && said.starts_with("sid-seatbelt: ") && said.contains(want), "{args:?}: {said}");
    }
    let (code, said) = seatbelt(dir.path(), &["--", "no-such-program-anywhere"]);
    assert!(code != 0 && said.contains("no-such-program-anywhere"), "{said}");
}

#[test]
fn the_policy_for_macos_is_printed_and_nothing_runs() {
    let dir = tempfile::tempdir_in("/var/tmp").unwrap();
    let out = std::process::Command::new(env!("CARGO_BIN_EXE_sid-seatbelt"))
        .args(["-print-macos-policy", "--writable-roots"])
        .arg(dir.path())
        .output()
        .unwrap();
    let text = String::from_utf8(out.stdout).unwrap();
    assert!(out.status.success() && text.contains("(deny default)") && text.contains("; -DWRITABLE_2="), "{text}");
    assert!(text.contains("local ip \"localhost:*\""), "{text}");
}
