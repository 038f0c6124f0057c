//! The editor and the small readers of rc configurations, as the model calls them (sid's manual, TOOLS; the notes' behaviours 38 to
//! 44).
use std::{collections::BTreeMap, fs, os::unix::fs::PermissionsExt as _};

use serde_json::{Value, json};
use sid_testkit::Test;

use crate::{Script as _, sid};

const EDITOR: &str = "str_replace_based_edit_tool";

fn world() -> Test {
    world_in("workspace_write")
}

fn world_in(mode: &str) -> Test {
    sid()
        .args(["go", "--output", "jsonl", "--mode", mode])
        .file("../home/.config/sid/agents.conf", "build_ENABLED=YES\nbuild_TOOLS='edit read search glob git_status git-diff'\n")
        .file(
            "../home/.config/sid/tools.conf",
            "edit_ENABLED=YES\nread_ENABLED=YES\nsearch_ENABLED=YES\nglob_ENABLED=YES\ngit_status_ENABLED=YES\ngit_diff_ENABLED=YES\n",
        )
}

fn call(tool: &'static str, args: Value) -> (&'static str, Value) {
    (tool, args)
}

/// What a call of the editor does to these files: whether it succeeds, what it says, and the files after it.
fn edited(files: &[(&str, &str)], calls: &[Value]) -> (Vec<(bool, String)>, BTreeMap<String, String>) {
    let it = files.iter().fold(world(), |it, (name, text)| it.file(name, text));
    let it = calls.iter().fold(it, |it, args| it.reply(sid_testkit::Reply::call(EDITOR, args)));
    let it = it.reply(sid_testkit::Reply::text("done"));
    let ran = it.run().status(0);
    let results = ran.of_type("tool_result");
    let said = results.iter().map(|it| (it["is_error"] == false, it["content"].as_str().unwrap_or_default().to_owned())).collect();
    let mut after = BTreeMap::new();
    let mut todo = vec![it.path("")];
    while let Some(dir) = todo.pop() {
        for entry in fs::read_dir(dir).unwrap().flatten() {
            let path = entry.path();
            if path.is_dir() {
                todo.push(path);
            } else {
                let name = path.strip_prefix(it.path("")).unwrap().display().to_string();
                after.insert(name, fs::read_to_string(&path).unwrap());
            }
        }
    }
    (said, after)
}

/// One sequence of calls: its files, the calls, whether each succeeds, and what is there afterwards where that is not the same.
type Case<'a> = (&'a str, &'a [(&'a str, &'a str)], Vec<Value>, &'a [bool], Option<&'a [(&'a str, &'a str)]>);

const THREE: &[(&str, &str)] = &[("a.txt", "one\ntwo\nthree\n")];

fn view(path: &str, range: &[i64]) -> Value {
    json!({"command": "view", "path": path, "view_range": range})
}

fn change(old: &str, new: &str) -> Value {
    json!({"command": "str_replace", "path": "/a.txt", "old_str": old, "new_str": new})
}

fn insert(line: i64, text: &str) -> Value {
    json!({"command": "insert", "path": "/a.txt", "insert_line": line, "insert_text": text})
}

/// The kinds of the vendor's reference, where DESIGN and the manual do not say otherwise. They do for tabs and CRLF (bytes that
/// were not asked for stay), for relative paths (they are of the workspace) and for `create` (missing folders are made).
fn cases() -> Vec<Case<'static>> {
    let whole = |path: &str| json!({"command": "view", "path": path});
    vec![
        ("view whole", THREE, vec![whole("/a.txt")], &[true], None),
        ("view range", THREE, vec![view("/a.txt", &[2, 3])], &[true], None),
        ("view range to the end", THREE, vec![view("/a.txt", &[2, -1])], &[true], None),
        ("view range reversed", THREE, vec![view("/a.txt", &[3, 1])], &[false], None),
        ("view range past the end", THREE, vec![view("/a.txt", &[1, 99])], &[false], None),
        ("view range from zero", THREE, vec![view("/a.txt", &[0, 2])], &[false], None),
        ("view range of one number", THREE, vec![view("/a.txt", &[1])], &[false], None),
        ("view what is missing", &[], vec![whole("/nope")], &[false], None),
        ("view a folder", &[("d/b.txt", "1"), ("d/e/c.txt", "1")], vec![whole("/")], &[true], None),
        ("view a folder with a range", &[("d/b.txt", "1")], vec![view("/d", &[1, 2])], &[false], None),
        ("view an empty file", &[("e", "")], vec![whole("/e")], &[true], None),
        ("view without a final newline", &[("e", "x\ny")], vec![whole("/e")], &[true], None),
        (
            "create",
            &[],
            vec![json!({"command": "create", "path": "/n.txt", "file_text": "hi\n"})],
            &[true],
            Some(&[("n.txt", "hi\n")]),
        ),
        ("create empty", &[], vec![json!({"command": "create", "path": "/n", "file_text": ""})], &[true], Some(&[("n", "")])),
        (
            "create in a missing folder",
            &[],
            vec![json!({"command": "create", "path": "notes/todo.md", "file_text": "# Todo\n"})],
            &[true],
            Some(&[("notes/todo.md", "# Todo\n")]),
        ),
        ("create what exists", THREE, vec![json!({"command": "create", "path": "/a.txt", "file_text": "X"})], &[false], None),
        ("create without text", &[], vec![json!({"command": "create", "path": "/n"})], &[false], None),
        ("replace", THREE, vec![change("two", "TWO")], &[true], Some(&[("a.txt", "one\nTWO\nthree\n")])),
        ("replace what is not there", THREE, vec![change("four", "x")], &[false], None),
        ("replace what is there twice", &[("a.txt", "x\nx\n")], vec![change("x", "y")], &[false], None),
        (
            "replace by nothing",
            THREE,
            vec![json!({"command": "str_replace", "path": "/a.txt", "old_str": "two\n"})],
            &[true],
            Some(&[("a.txt", "one\nthree\n")]),
        ),
        ("replace without old", THREE, vec![json!({"command": "str_replace", "path": "/a.txt", "new_str": "z"})], &[false], None),
        ("replace empty old", THREE, vec![change("", "z")], &[false], None),
        (
            "replace characters of patterns",
            &[("a.txt", "a.*b\n")],
            vec![change(".*", "$1 \\1")],
            &[true],
            Some(&[("a.txt", "a$1 \\1b\n")]),
        ),
        ("replace beside tabs", &[("a.txt", "\tx\n\tz\n")], vec![change("\tx", "\ty")], &[true], Some(&[("a.txt", "\ty\n\tz\n")])),
        ("replace in CRLF", &[("a.txt", "a\r\nb\r\n")], vec![change("a", "A\nB")], &[true], Some(&[("a.txt", "A\r\nB\r\nb\r\n")])),
        ("replace over lines", THREE, vec![change("one\ntwo", "1\n2")], &[true], Some(&[("a.txt", "1\n2\nthree\n")])),
        ("replace what overlaps", &[("a.txt", "aaa")], vec![change("aa", "b")], &[true], Some(&[("a.txt", "ba")])),
        ("insert at the top", THREE, vec![insert(0, "top")], &[true], Some(&[("a.txt", "top\none\ntwo\nthree\n")])),
        ("insert at the end", THREE, vec![insert(3, "end")], &[true], Some(&[("a.txt", "one\ntwo\nthree\nend\n")])),
        ("insert past the end", THREE, vec![insert(9, "x")], &[false], None),
        ("insert before the top", THREE, vec![insert(-1, "x")], &[false], None),
        ("insert nowhere", THREE, vec![json!({"command": "insert", "path": "/a.txt", "insert_text": "x"})], &[false], None),
        ("insert without a final newline", &[("a.txt", "x")], vec![insert(1, "y")], &[true], Some(&[("a.txt", "x\ny")])),
        ("insert lines", THREE, vec![insert(1, "p\nq\n")], &[true], Some(&[("a.txt", "one\np\nq\n\ntwo\nthree\n")])),
        (
            "insert by the other name",
            THREE,
            vec![json!({"command": "insert", "path": "a.txt", "insert_line": 0, "new_str": "top"})],
            &[true],
            Some(&[("a.txt", "top\none\ntwo\nthree\n")]),
        ),
        (
            "no undo",
            THREE,
            vec![change("two", "TWO"), json!({"command": "undo_edit", "path": "/a.txt"})],
            &[true, false],
            Some(&[("a.txt", "one\nTWO\nthree\n")]),
        ),
        ("an unknown command", THREE, vec![json!({"command": "delete", "path": "/a.txt"})], &[false], None),
        ("no command", THREE, vec![json!({"path": "/a.txt"})], &[false], None),
        ("a way out", THREE, vec![whole("../x"), whole("//etc/passwd"), whole("a/../../x")], &[false, false, false], None),
    ]
}

#[test]
fn edits_are_those_of_the_reference() {
    for (name, files, calls, ok, after) in cases() {
        let (said, found) = edited(files, &calls);
        let got: Vec<bool> = said.iter().map(|it| it.0).collect();
        assert_eq!(got, ok, "{name}: {said:?}");
        let wanted: BTreeMap<_, _> =
            after.unwrap_or(files).iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect();
        assert_eq!(found, wanted, "{name}");
        assert!(said.iter().all(|it| !it.1.trim().is_empty()), "{name}");
    }
}

#[test]
fn what_is_shown_has_the_numbers_of_lines() {
    let (said, _) = edited(THREE, &[json!({"command": "view", "path": "/a.txt"}), view("a.txt", &[2, -1]), change("two", "TWO")]);
    assert_eq!(said[0].1, "     1\tone\n     2\ttwo\n     3\tthree\n");
    assert_eq!(said[1].1, "     2\ttwo\n     3\tthree\n");
    assert!(said[2].1.contains("     2\tTWO\n"), "{}", said[2].1);
    let (said, _) = edited(&[("d/e/f", ""), ("d/.k", ""), ("b", "")], &[json!({"command": "view", "path": "/"})]);
    assert!(said[0].1.ends_with("b\nd\nd/e\n"), "{}", said[0].1);
}

#[test]
fn a_link_out_of_the_workspace_is_followed_by_nobody() {
    for mode in ["workspace_write", "full_access"] {
        let it = world_in(mode).file("../outside", "secret-words\n");
        std::os::unix::fs::symlink(it.beside("outside"), it.path("link")).unwrap();
        let it = it.rounds([
            call(EDITOR, json!({"command": "view", "path": "/link"})),
            call(EDITOR, json!({"command": "str_replace", "path": "/link", "old_str": "secret", "new_str": "x"})),
            call("read", json!({"path": "/link"})),
            call("read", json!({"path": "/etc/hostname"})),
        ]);
        let ran = it.run().status(0);
        for n in 0..4 {
            assert!(
                ran.of_type("tool_result")[n]["is_error"] == true && !ran.result(n).contains("words"),
                "{mode} {n}: {}",
                ran.result(n)
            );
        }
        assert_eq!(fs::read_to_string(it.beside("outside")).unwrap(), "secret-words\n");
        assert!(ran.result(3).contains("not found"), "/ is the workspace: {}", ran.result(3));
    }
}

#[test]
fn read_search_and_glob_take_the_parameters_of_the_manual() {
    let it = world().file("src/a.py", "alpha(1)\nbeta\n").file("src/deep/b.py", "alpha\n").file("c.rs", "x.y\nxzy\n").git();
    let it = it.rounds([
        call("read", json!({"path": "src/a.py"})),
        call("read", json!({"path": "/src/a.py", "start_line": 2, "end_line": -1})),
        call("read", json!({"path": "src/a.py", "start_line": 3, "end_line": 2})),
        call("read", json!({"path": "src/a.py", "start_line": 9})),
        call("read", json!({"path": "src"})),
        call("search", json!({"pattern": "alpha"})),
        call("search", json!({"pattern": "alpha(", "fixed_strings": true, "path": "src"})),
        call("search", json!({"pattern": "x.y", "fixed_strings": true, "include": "*.rs"})),
        call("search", json!({"pattern": "alpha(", "path": "src"})),
        call("search", json!({"pattern": "a", "max_results": 1})),
        call("search", json!({"pattern": "a", "max_results": 0})),
        call("search", json!({"pattern": "a", "path": "../x"})),
        call("glob", json!({"pattern": "src/**/*.py"})),
        call("glob", json!({"pattern": "*.py"})),
        call("glob", json!({"pattern": "*.go"})),
    ]);
    let ran = it.run().status(0);
    assert_eq!(ran.result(0), "     1\talpha(1)\n     2\tbeta\n");
    assert_eq!(ran.result(1), "     2\tbeta\n");
    assert!(ran.result(2).contains("start_line 3 is greater than end_line 2"), "{}", ran.result(2));
    assert!(ran.result(3).contains("only 2 lines"), "{}", ran.result(3));
    assert_eq!(ran.result(4), "a.py\ndeep/");
    assert!(ran.result(5).contains("src/a.py:1: alpha(1)") && ran.result(5).contains("src/deep/b.py:1:"), "{}", ran.result(5));
    assert!(ran.result(6).contains("a.py:1:") && !ran.result(6).contains("b.py"), "{}", ran.result(6));
    assert!(ran.result(7).contains("c.rs:1:") && !ran.result(7).contains("c.rs:2:"), "{}", ran.result(7));
    assert!(ran.result(8).contains("not a valid regular expression"), "{}", ran.result(8));
    assert!(ran.result(9).contains("[showing 1 of"), "{}", ran.result(9));
    assert!(ran.result(10).contains("max_results is 0") && ran.result(11).contains(".."), "{}", ran.result(10));
    for n in [12, 13] {
        assert!(ran.result(n).contains("src/a.py") && ran.result(n).contains("src/deep/b.py"), "{}", ran.result(n));
    }
    assert!(ran.result(14).contains("No files found"), "{}", ran.result(14));
}

#[test]
fn a_program_of_the_users_takes_the_place_of_the_editor() {
    let tool = crate::skills::helper("sid-editor-tool");
    let script = format!(
        "#!/bin/sh\nP=$RCVAR_ARGV0\nif [ $1 = rcvar ]; then for it in REQUEST_FILE RESULT_FILE WORKSPACE_ROOT; do echo ${{P}}_$it; done; exit; fi\nfor it in REQUEST_FILE RESULT_FILE WORKSPACE_ROOT; do eval export $it=\\$${{P}}_$it; done\necho \"$1\" >>\"$WORKSPACE_ROOT/asked\"\nexec '{tool}' \"$1\"\n"
    );
    let it = world().file("../home/.config/sid/tools/edit", script).file("a.txt", "one\n");
    fs::set_permissions(it.beside("home/.config/sid/tools/edit"), fs::Permissions::from_mode(0o755)).unwrap();
    let it = it.rounds([
        call(EDITOR, json!({"command": "str_replace", "path": "/a.txt", "old_str": "one", "new_str": "two"})),
        call(EDITOR, json!({"command": "view", "path": "/a.txt"})),
        call(EDITOR, json!({"command": "view", "path": "/nope"})),
    ]);
    let ran = it.run().status(0);
    assert_eq!(fs::read_to_string(it.path("a.txt")).unwrap(), "two\n", "{}", ran.result(0));
    assert_eq!(ran.result(1), "     1\ttwo\n");
    assert!(ran.of_type("tool_result")[2]["is_error"] == true && ran.result(2).contains("does not exist"), "{}", ran.result(2));
    assert_eq!(fs::read_to_string(it.path("asked")).unwrap(), "run\nrun\nrun\n");
}
