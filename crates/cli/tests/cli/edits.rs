//! Bytes that were not asked to change stay.
use std::{
    fs,
    os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink},
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use sid_testkit::{Reply, Test};

use crate::{Script as _, free};

fn edit(path: &str, old: &str, new: &str) -> (&'static str, Value) {
    ("edit_file", json!({"path": path, "old_text": old, "new_text": new}))
}

fn read(path: &str) -> (&'static str, Value) {
    ("read_file", json!({ "path": path }))
}

fn edited(file: &[u8], old: &str, new: &str) -> (Vec<u8>, String) {
    let it = free().file("f", file).rounds([edit("f", old, new)]);
    let ran = it.run().status(0);
    (it.read("f"), ran.result(0))
}

#[test]
fn ed_01_crlf_files_and_what_git_says() {
    let it = free().file("a.txt", "one\r\ntwo\r\nthree\r\n").git().rounds([edit("a.txt", "one\ntwo", "one\nTWO\nnew")]);
    let _ran = it.run().status(0);
    assert_eq!(it.read("a.txt"), b"one\r\nTWO\r\nnew\r\nthree\r\n");
    assert_eq!(String::from_utf8_lossy(&it.shell_in_work("git", &["diff", "--numstat"]).stdout), "2\t1\ta.txt\n");
}

#[test]
fn ed_02_04_07_13_everything_else_stays() {
    let cases: [(&[u8], &str, &str, &[u8]); 6] = [
        (b"a\r\nb\nprog 1%\rprog 2%\nend\n", "end", "END", b"a\r\nb\nprog 1%\rprog 2%\nEND\n"),
        (b"\xEF\xBB\xBFint x;\r\nint y;\r\n", "int x;", "int z;", b"\xEF\xBB\xBFint z;\r\nint y;\r\n"),
        (b"a\nb", "a", "A", b"A\nb"),
        (b"a\nb\n", "b", "B", b"a\nB\n"),
        (
            "say “hi” — it’s\nname = e\u{301}te\u{301}\n".as_bytes(),
            "say ",
            "tell ",
            "tell “hi” — it’s\nname = e\u{301}te\u{301}\n".as_bytes(),
        ),
        (b"caf\xE9 cr\xE8me\n", "crème", "noir", b"caf\xE9 noir\n"),
    ];
    for (before, old, new, after) in cases {
        assert_eq!(edited(before, old, new).0, after, "{old}");
    }
}

#[test]
fn ed_04_the_model_never_sees_the_byte_order_mark() {
    let it = free().file("P.cs", b"\xEF\xBB\xBFint x;\r\n").rounds([read("P.cs")]);
    assert_eq!(it.run().status(0).result(0), "int x;\r\n");
}

#[test]
fn ed_13_a_miss_names_the_look_alike() {
    let (after, said) = edited("name = e\u{301}te\u{301}\n".as_bytes(), "\u{e9}t\u{e9}", "hiver");
    assert_eq!(after, "name = e\u{301}te\u{301}\n".as_bytes());
    assert!(said.contains("other Unicode characters"), "{said}");
}

#[test]
fn ed_09_10_links_stay_links_and_the_target_changes() {
    let it = free().file("real/host/x", "").file("real/conf", "v1").file("real/s.json", r#"{"k":1}"#);
    symlink("real/conf", it.path("conf")).unwrap();
    symlink("../s.json", it.path("real/host/s.json")).unwrap();
    symlink("real/host", it.path("synced")).unwrap();
    symlink("synced", it.path("dot")).unwrap();
    let it = it.rounds([edit("conf", "v1", "v2"), edit("dot/s.json", "1", "2")]);
    let _ran = it.run().status(0);
    assert!(fs::symlink_metadata(it.path("conf")).unwrap().is_symlink());
    assert!(fs::symlink_metadata(it.path("real/host/s.json")).unwrap().is_symlink());
    assert_eq!((it.read("real/conf"), it.read("real/s.json")), (b"v2".to_vec(), br#"{"k":2}"#.to_vec()));
}

#[test]
fn ed_09_a_link_out_of_the_workspace_is_judged_by_its_target() {
    let it = free();
    fs::write(it.beside("outside"), "v1").unwrap();
    symlink(it.beside("outside"), it.path("conf")).unwrap();
    symlink(it.beside("nothing"), it.path("dangling")).unwrap();
    let it = it.rounds([edit("conf", "v1", "v2"), ("create_file", json!({"path": "dangling", "content": "x"}))]);
    let ran = it.run().status(0);
    assert_eq!(fs::read(it.beside("outside")).unwrap(), b"v1");
    assert!(!it.beside("nothing").exists());
    assert!(ran.result(0).contains("leaves the workspace") && ran.result(1).contains("leaves the workspace"), "{}", ran.result(1));
}

#[test]
fn ed_11_hard_links_stay_together_and_a_before_image_is_kept() {
    let it = free().file("a", "x");
    fs::hard_link(it.path("a"), it.path("b")).unwrap();
    let inode = fs::metadata(it.path("a")).unwrap().ino();
    let it = it.rounds([edit("a", "x", "y")]);
    let _ran = it.run().status(0);
    assert_eq!((it.read("a"), it.read("b"), fs::metadata(it.path("a")).unwrap().ino()), (b"y".to_vec(), b"y".to_vec(), inode));
    let kept = fs::read_dir(it.journal_path(&it.sessions()[0]).with_file_name("before")).unwrap().next().unwrap().unwrap();
    assert_eq!(fs::read(kept.path()).unwrap(), b"x");
}

#[test]
fn modes_and_attributes_stay() {
    let it = free().file("run.sh", "echo 1\n");
    fs::set_permissions(it.path("run.sh"), fs::Permissions::from_mode(0o751)).unwrap();
    let flags = rustix::fs::XattrFlags::empty();
    let attributes = rustix::fs::setxattr(it.path("run.sh"), "user.note", b"kept", flags).is_ok();
    let it = it.rounds([edit("run.sh", "1", "2")]);
    let _ran = it.run().status(0);
    assert_eq!(fs::metadata(it.path("run.sh")).unwrap().permissions().mode() & 0o7777, 0o751);
    if attributes {
        let mut value = [0; 8];
        assert_eq!(rustix::fs::getxattr(it.path("run.sh"), "user.note", &mut value), Ok(4));
    }
    assert_eq!(fs::read_dir(it.path("")).unwrap().count(), 1, "no temporary file is left");
}

#[test]
fn ed_14_a_change_by_others_is_never_overwritten() {
    let change = |it: &Test| fs::write(it.path("f"), "A\nB\nUSER\n").unwrap();
    let call = |(tool, args): (&'static str, Value)| Reply::call(tool, &args);
    let late = Reply::Late(Duration::from_millis(700), Box::new(call(edit("f", "B", "C"))));
    let it = free()
        .file("f", "A\nB\n")
        .reply(call(read("f")))
        .reply(late)
        .reply(call(read("f")))
        .reply(call(edit("f", "B", "C")))
        .reply(Reply::text("ok"));
    let child = it.start();
    it.fake().wait_for(2);
    change(&it);
    let ran = it.finish(child).status(0);
    assert!(ran.result(1).contains("changed since you read it"), "{}", ran.result(1));
    assert!(ran.result(3).contains("Edited file"), "{}", ran.result(3));
    assert_eq!(it.read("f"), b"A\nC\nUSER\n");
    // A command is a second writer like any other.
    let shell = ("run_command", json!({"command": "echo more >> f"}));
    let it = free().file("f", "A\n").rounds([read("f"), shell, edit("f", "A", "B"), ("delete_file", json!({"path": "f"}))]);
    let ran = it.run().status(0);
    assert!(ran.result(2).contains("changed since") && ran.result(3).contains("changed since"), "{}", ran.result(3));
    assert_eq!(it.read("f"), b"A\nmore\n");
}

#[test]
fn ed_14_large_files_too() {
    let text = "line\n".repeat(2_000_000) + "end\n";
    let look = || ("read_file", json!({"path": "f", "start_line": 1, "end_line": 2}));
    let shell = ("run_command", json!({"command": "echo more >> f"}));
    let it = free().file("f", &text).rounds([
        look(),
        edit("f", "end", "END"),
        edit("f", "END", "end"),
        shell,
        edit("f", "end", "x"),
        look(),
        edit("f", "end", "x"),
    ]);
    let ran = it.run().status(0);
    assert!(ran.result(1).contains("Edited") && ran.result(2).contains("Edited"), "{} {}", ran.result(1), ran.result(2));
    assert!(ran.result(4).contains("changed since") && ran.result(6).contains("Edited"), "{} {}", ran.result(4), ran.result(6));
    assert!(it.read("f") == (text.replace("end", "x") + "more\n").as_bytes());
}

#[test]
fn edits_of_one_batch_see_each_other() {
    let calls = [edit("f", "a", "b"), edit("f", "b", "c"), read("f")];
    let it = free().file("f", "a").reply(Reply::calls(calls)).reply(Reply::text("ok"));
    let ran = it.run().status(0);
    assert_eq!((it.read("f"), ran.result(2)), (b"c".to_vec(), "c".into()));
}

#[test]
fn ed_16_a_file_is_never_replaced_unseen() {
    let it = free()
        .file("TODOS.txt", "precious")
        .file(".gitignore", "TODOS.txt")
        .rounds([("create_file", json!({"path": "TODOS.txt", "content": "x"}))]);
    assert!(it.run().status(0).result(0).contains("exists already"));
    assert_eq!(it.read("TODOS.txt"), b"precious");
}

#[test]
fn ed_17_images_and_other_binaries_are_named_not_sent() {
    let mut png = b"\x89PNG\r\n\x1a\n\x00\x00".to_vec();
    png.resize(12 << 20, 0x41);
    let it = free().file("big.png", png).file("fake.png", "just text").rounds([
        read("big.png"),
        read("fake.png"),
        edit("big.png", "PNG", "x"),
    ]);
    let ran = it.run().status(0);
    assert!(ran.result(0).contains("not text"), "{}", ran.result(0));
    assert_eq!(ran.result(1), "just text");
    assert!(ran.result(2).contains("not text"), "{}", ran.result(2));
    assert!(it.fake().requests().iter().all(|it| it.body.len() < 100_000));
}

#[test]
fn ambiguous_and_impossible_edits_write_nothing() {
    for (old, new, want) in
        [("a", "b", "is there 2 times"), ("zz", "b", "not found"), ("", "b", "old_text is empty"), ("a", "a", "are the same")]
    {
        let (after, said) = edited(b"a a", old, new);
        assert!(after == b"a a" && said.contains(want), "{old:?}: {said}");
    }
    let (after, said) = edited(b"caf\xE9 tr\xE8s bon\n", "bon", "日本");
    assert!(after == b"caf\xE9 tr\xE8s bon\n" && said.contains("has no '日'"), "{said}");
    let edits = json!({"path": "f", "edits": [{"old_text": "a", "new_text": "b"}, {"old_text": "nope", "new_text": "x"}]});
    let it = free().file("f", "a").rounds([("multi_edit", edits)]);
    let said = it.run().status(0).result(0);
    assert!(said.contains("edit #2") && it.read("f") == b"a", "{said}");
}

#[test]
fn huge_and_special_files_neither_hang_nor_fill_memory() {
    let it = free().file("small", "x");
    let big = fs::File::create(it.path("big")).unwrap();
    big.set_len(1 << 30).unwrap();
    let text: String = (0..3_000_000).map(|n| format!("line {n}\n")).collect();
    let it = it.file("long.txt", text);
    assert!(std::process::Command::new("mkfifo").arg(it.path("fifo")).status().unwrap().success());
    let it = it.rounds([
        read("big"),
        edit("big", "a", "b"),
        read("fifo"),
        edit("fifo", "a", "b"),
        ("search_files", json!({"pattern": "x", "path": "fifo"})),
        read("/dev/zero"),
        read("long.txt"),
        ("read_file", json!({"path": "long.txt", "start_line": 2_999_999, "end_line": 3_000_000})),
    ]);
    let begun = Instant::now();
    let child = it.start();
    let pid = child.id();
    let peak = std::thread::spawn(move || {
        let mut peak = 0;
        while let Some(kib) = fs::read_to_string(format!("/proc/{pid}/status"))
            .ok()
            .and_then(|it| it.lines().find(|it| it.starts_with("VmHWM"))?.split_whitespace().nth(1)?.parse::<u64>().ok())
        {
            peak = peak.max(kib);
            std::thread::sleep(Duration::from_millis(20));
        }
        peak
    });
    let ran = it.finish(child).status(0);
    assert!(begun.elapsed() < Duration::from_secs(20));
    assert!(ran.result(1).contains("at most"), "{}", ran.result(1));
    for n in [2, 3, 4, 5] {
        assert!(ran.result(n).contains("not a regular file"), "{n}: {}", ran.result(n));
    }
    assert!(ran.result(6).starts_with("line 0\n") && ran.result(6).contains("bytes"), "{}", &ran.result(6)[..100]);
    assert!(ran.result(7).contains("line 2999998\nline 2999999"), "{}", ran.result(7));
    let peak = peak.join().unwrap();
    assert!(peak < 100 << 10, "{peak} KiB");
}

#[test]
fn reading_is_bounded_and_says_how_to_go_on() {
    let text: String = (1..=2000).map(|n| format!("line {n} é\n")).collect();
    let it = free().file("f", &text).file("one", "é".repeat(20_000)).rounds([
        read("f"),
        ("read_file", json!({"path": "f", "start_line": 3, "end_line": 4})),
        ("read_file", json!({"path": "f", "start_line": 4, "end_line": 3})),
        ("read_file", json!({"path": "f", "start_line": 9999})),
        read("one"),
        read("gone"),
        read("."),
    ]);
    let ran = it.run().status(0);
    assert!(ran.result(0).contains("continue with start_line"), "{}", ran.result(0));
    assert!(
        ran.result(1).starts_with("Lines 3-4 of 2000 in ") && ran.result(1).ends_with("line 3 é\nline 4 é"),
        "{}",
        ran.result(1)
    );
    assert!(ran.result(2).contains("before start_line"), "{}", ran.result(2));
    assert!(ran.result(3).contains("only 2000 lines"), "{}", ran.result(3));
    assert!(ran.result(4).contains("10000 of 20000 characters"), "{}", &ran.result(4)[ran.result(4).len() - 200..]);
    assert!(ran.result(5).contains("does not exist") && ran.result(6).contains("is a folder"));
}

#[test]
fn folders_and_deletion() {
    let it = free().file("full/x", "").file("f", "1");
    symlink("full", it.path("l")).unwrap();
    let rm = |path: &str| ("delete_file", json!({ "path": path }));
    let it = it.rounds([
        ("create_directory", json!({"path": "a/b/c"})),
        ("create_directory", json!({"path": "a"})),
        ("create_file", json!({"path": "new/deep/f", "content": "x"})),
        rm("a/b/c"),
        rm("full"),
        rm("l"),
        rm("f"),
        rm("f"),
        ("list_directory", json!({"path": "."})),
        ("list_directory", json!({"path": "a/b"})),
    ]);
    let ran = it.run().status(0);
    assert!(ran.result(1).contains("exists already") && it.read("new/deep/f") == b"x");
    assert!(ran.result(3).contains("Deleted directory") && ran.result(4).contains("not empty"));
    assert!(ran.result(5).contains("Deleted") && it.path("full/x").exists() && !it.path("l").exists());
    assert!(ran.result(7).contains("does not exist"));
    assert_eq!(ran.result(8), "[DIR]  a\n[DIR]  full\n[DIR]  new\n");
    assert!(ran.result(9).starts_with("(empty directory: "));
}

#[test]
fn names_that_are_not_utf_8_do_no_harm() {
    use std::os::unix::ffi::OsStrExt as _;
    let it = free().file("ok.txt", "needle");
    fs::write(it.path("").join(std::ffi::OsStr::from_bytes(b"caf\xe9\n\x1b[2J.txt")), "needle").unwrap();
    let it = it.rounds([
        ("list_directory", json!({"path": "."})),
        ("search_files", json!({"pattern": "needle"})),
        ("glob", json!({"pattern": "*.txt"})),
        ("run_command", json!({"command": "cat *"})),
    ]);
    let ran = it.run().status(0);
    assert!(ran.result(0).contains("ok.txt") && !ran.result(0).contains('\u{1b}'), "{:?}", ran.result(0));
    assert!(ran.result(1).contains("ok.txt:1: needle"));
    assert!(ran.result(3).contains("needleneedle"), "{}", ran.result(3));
}
