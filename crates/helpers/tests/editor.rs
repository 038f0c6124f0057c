//! `sid-editor-tool` as a program of an rc configuration: what it shows before, what it answers, and the skills it sees.
#![allow(clippy::unwrap_used, clippy::panic, clippy::disallowed_methods, reason = "test code")]
use std::{fs, path::Path, process::Command};

use serde_json::{Value, json};

struct World(tempfile::TempDir);

impl World {
    fn new() -> Self {
        let it = Self(tempfile::tempdir_in("/var/tmp").unwrap());
        fs::create_dir(it.0.path().join("w")).unwrap();
        it
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        self.0.path().join("w").join(name)
    }

    /// Standard output, standard error, and the status.
    fn run(&self, args: &[&str], input: &Value, vars: &[(&str, &str)]) -> (String, String, i32) {
        let request = self.0.path().join("request.json");
        let text = json!({"protocol_version": 1, "request_id": "r1", "invocation": {"tool_use_id": "t", "input": input}});
        fs::write(&request, text.to_string()).unwrap();
        let mut it = Command::new(env!("CARGO_BIN_EXE_sid-editor-tool"));
        it.args(args).env("REQUEST_FILE", request).env("RESULT_FILE", self.result()).env("WORKSPACE_ROOT", self.path(""));
        it.env_remove("DIFF").env_remove("NO_COLOR").env_remove("SKILLS_MANIFEST_FILE").envs(vars.iter().copied());
        let out = it.output().unwrap();
        let text = |it: &[u8]| String::from_utf8_lossy(it).into_owned();
        (text(&out.stdout), text(&out.stderr), out.status.code().unwrap())
    }

    fn result(&self) -> std::path::PathBuf {
        self.0.path().join("result.json")
    }

    fn answer(&self, args: &[&str], input: &Value, vars: &[(&str, &str)]) -> Value {
        let (out, err, code) = self.run(args, input, vars);
        assert_eq!((out.as_str(), code), ("", 0), "{err}");
        serde_json::from_str(&fs::read_to_string(self.result()).unwrap()).unwrap()
    }
}

#[test]
fn a_preview_names_the_lines_and_shows_the_difference_as_it_is_asked_for() {
    let it = World::new();
    fs::write(it.path("a.txt"), "one\ntwo\nthree\n").unwrap();
    let replace = json!({"command": "str_replace", "path": "/a.txt", "old_str": "two\n", "new_str": "2\n2b\n"});
    let raw = "--- a/a.txt\n+++ b/a.txt\n@@ -1,3 +1,4 @@\n one\n-two\n+2\n+2b\n three\n";
    let head = "Edit preview\nfile: a.txt\noperation: str_replace\nline range: old 2 -> new 2-3\nfile bytes: 14 -> 15 (+1)\n\n";
    let shown = |vars: &[(&str, &str)]| it.run(&["confirm"], &replace, vars).0;
    assert_eq!(shown(&[("DIFF", "")]), format!("{head}{raw}"));
    assert_eq!(shown(&[("DIFF", "grep -c '^[+-][^+-]'")]), format!("{head}3\n"));
    assert_eq!(shown(&[("DIFF", "true")]), format!("{head}{raw}"), "a filter that says nothing");
    let failed = shown(&[("DIFF", "echo broken; exit 3")]);
    assert!(failed.contains("diff renderer failed: broken") && failed.ends_with(raw), "{failed}");
    let plain = shown(&[("NO_COLOR", "")]);
    assert!(plain.contains("two") && plain.contains("2b") && !plain.contains('\u{1b}'), "{plain}");
    assert!(shown(&[]).contains('\u{1b}'), "in colour unless it is told otherwise");
    assert_eq!(fs::read_to_string(it.path("a.txt")).unwrap(), "one\ntwo\nthree\n", "nothing was done");

    let confirm = |input: Value| it.run(&["confirm"], &input, &[("DIFF", "")]);
    for (input, want) in [
        (
            json!({"command": "create", "path": "n", "file_text": "1\n2\n"}),
            "operation: create\nline range: new 1-2 added\nfile bytes: 0 -> 4 (+4)",
        ),
        (json!({"command": "insert", "path": "a.txt", "insert_line": 3, "insert_text": "end"}), "line range: new 4 added\n"),
        (
            json!({"command": "str_replace", "path": "a.txt", "old_str": "one\ntwo\n"}),
            "line range: old 1-2 removed\nfile bytes: 14 -> 6 (-8)",
        ),
        (json!({"command": "view", "path": "a.txt", "view_range": [2, -1]}), "View workspace file: a.txt lines 2-end\n"),
    ] {
        let (out, err, code) = confirm(input);
        assert!(out.contains(want) && code == 0, "{want}: {out}{err}");
    }
    // What would fail is no preview.
    for input in [
        json!({"command": "create", "path": "a.txt", "file_text": ""}),
        json!({"command": "str_replace", "path": "a.txt", "old_str": "four", "new_str": ""}),
        json!({"command": "view", "path": "../x"}),
        json!({"command": "undo_edit", "path": "a.txt"}),
    ] {
        let (out, err, code) = confirm(input.clone());
        assert!(out.is_empty() && !err.is_empty() && code == 1, "{input}: {out}{err}");
    }
    let (out, _, _) = it.run(&["--readonly", "confirm"], &json!({"path": "a.txt", "start_line": 2}), &[]);
    assert_eq!(out, "Read workspace file: a.txt lines 2-end\n");
}

#[test]
fn each_failure_has_its_code_and_is_an_answer() {
    let it = World::new();
    fs::write(it.path("a.txt"), "x\nx\n").unwrap();
    std::os::unix::fs::symlink("/etc/passwd", it.path("out")).unwrap();
    for (input, code, want) in [
        (json!({"command": "str_replace", "path": "a.txt", "old_str": "x", "new_str": "y"}), "failed", "2"),
        (json!({"command": "insert", "path": "a.txt", "insert_line": 9, "insert_text": "y"}), "failed", "from 0 to 2"),
        (json!({"command": "view", "path": "gone"}), "failed", "does not exist"),
        (json!({"command": "view", "path": "//etc/passwd"}), "invalid_input", "//"),
        (json!({"command": "view", "path": "a/../../x"}), "invalid_input", ".."),
        (json!({"command": "view", "path": "out"}), "permission_denied", "leads out of the workspace"),
        (json!({"command": "undo_edit", "path": "a.txt"}), "invalid_input", "there is no command `undo_edit`"),
        (json!({"path": "a.txt"}), "invalid_input", "command"),
    ] {
        let said = it.answer(&["run"], &input, &[]);
        assert_eq!(
            (&said["ok"], &said["request_id"], &said["error"]["code"]),
            (&json!(false), &json!("r1"), &json!(code)),
            "{said}"
        );
        assert!(said["error"]["message"].as_str().unwrap().contains(want), "{want}: {said}");
    }
    assert_eq!(fs::read_to_string(it.path("a.txt")).unwrap(), "x\nx\n");
    for args in [&["sometimes"][..], &["run", "run"]] {
        let (_, err, code) = it.run(args, &json!({}), &[]);
        assert!(code == 1 && err.contains("is not understood"), "{err}");
    }
    let (_, err, code) = it.run(&[], &json!({}), &[("WORKSPACE_ROOT", "/no/such")]);
    assert!(code == 1 && err.contains("/no/such"), "{err}");
}

#[test]
fn skills_are_viewed_by_the_list_that_sid_hands_over() {
    let it = World::new();
    let skill = it.0.path().join("skills/rust");
    fs::create_dir_all(&skill).unwrap();
    fs::write(skill.join("SKILL.md"), "Write Rust well.\n").unwrap();
    let list = it.0.path().join("skills-manifest.json");
    let write = |virtual_path: &str, content: &Path| {
        let all = json!([{"id": "rust", "virtual_path": virtual_path, "content_path": content}]);
        fs::write(&list, all.to_string()).unwrap();
    };
    write("/skills/rust/SKILL.md", &skill.join("SKILL.md"));
    let vars = [("SKILLS_MANIFEST_FILE", list.to_str().unwrap())];
    let view = json!({"command": "view", "path": "/skills/rust/SKILL.md"});
    assert_eq!(it.answer(&["run"], &view, &vars)["output"]["text"], "     1\tWrite Rust well.\n");
    assert_eq!(it.answer(&["run"], &view, &[])["ok"], false, "without the list it is a path of the workspace");
    let read = json!({"path": "/skills/rust/SKILL.md"});
    assert_eq!(it.answer(&["--readonly", "run"], &read, &vars)["ok"], true);
    let change = json!({"command": "str_replace", "path": "/skills/rust/SKILL.md", "old_str": "well", "new_str": "badly"});
    assert!(it.answer(&["run"], &change, &vars)["error"]["message"].as_str().unwrap().contains("skills can be viewed"));
    write("/skills/other/SKILL.md", &skill.join("SKILL.md"));
    let (_, err, code) = it.run(&["run"], &view, &vars);
    assert!(code == 1 && err.contains("`rust` is no skill"), "{err}");
}
