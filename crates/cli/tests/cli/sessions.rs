//! `sid sessions`.
use serde_json::json;
use sid_testkit::Reply;

use crate::{Script as _, free};

#[test]
fn list_show_search_export_delete() {
    let it = free().rounds([("run_command", json!({"command": "echo ```fence```; exit 1"}))]);
    let _ran = it.run().status(0);
    let id = it.sessions()[0].clone();
    let it = it.command(["sessions"]);
    let listed = it.run().status(0).stdout;
    assert!(listed.starts_with(&id[..13]) && listed.contains("go") && listed.contains(" B "), "{listed}");
    let it = it.command(["sessions", "list", "--json"]);
    let row: serde_json::Value = serde_json::from_str(&it.run().status(0).stdout).unwrap();
    assert_eq!((&row["id"], &row["title"]), (&json!(id), &json!("go")));
    let it = it.command(["sessions", "list", "--cwd", "/etc"]);
    assert_eq!(it.run().status(0).stdout, "no sessions\n");
    let it = it.command(["sessions", "show", &id]);
    let shown = it.run().status(0).stdout;
    assert!(shown.contains("→ run_command") && shown.contains("failed") && shown.contains("ended    completed"), "{shown}");
    let it = it.command(["sessions", "export", &id]);
    let markdown = it.run().status(0).stdout;
    assert!(markdown.contains("## User\n\ngo") && markdown.contains("### Result (not ok)\n\n```"), "{markdown}");
    let it = it.command(["sessions", "export", &id, "--as", "json"]);
    assert_eq!(it.run().status(0).stdout, std::fs::read_to_string(it.journal_path(&id)).unwrap());
    let it = it.command(["sessions", "search", "FENCE"]);
    assert!(it.run().status(0).stdout.contains(&id));
    let it = it.command(["sessions", "delete", &id]);
    let _ran = it.run().status(0);
    assert!(it.sessions().is_empty());
    assert!(it.run().status(1).stderr.contains("not found"));
}

#[test]
fn an_exported_session_replays_exactly() {
    let it = free().file("f", "a\n").rounds([
        ("read_file", json!({"path": "f"})),
        ("edit_file", json!({"path": "f", "old_text": "a", "new_text": "b"})),
        ("run_command", json!({"command": "cat f; exit 2"})),
        ("list_directory", json!({"path": "."})),
    ]);
    let first = it.run().status(0);
    let id = it.sessions()[0].clone();
    let it = it.command(["sessions", "export", &id, "--as", "replay"]);
    let replay = it.run().status(0).stdout;
    let it = it.file("../replay.jsonl", replay).file("f", "a\n");
    let model = format!("replay:{}", it.beside("replay.jsonl").display());
    let it = it.command(["run", "go", "--output", "jsonl", "--mode", "workspace_write", "--model", &model]);
    let second = it.run().status(0);
    let contents = |ran: &sid_testkit::Ran| ran.of_type("tool_result").iter().map(|it| it["content"].clone()).collect::<Vec<_>>();
    assert_eq!(contents(&first), contents(&second));
    assert_eq!(it.read("f"), b"b\n");
}

#[test]
fn prune_takes_only_what_is_old() {
    let it = free().reply(Reply::text("x")).reply(Reply::text("y"));
    let _ran = it.run().status(0);
    let old = it.sessions()[0].clone();
    let back = std::process::Command::new("touch").args(["-d", "40 days ago"]).arg(it.journal_path(&old)).status().unwrap();
    assert!(back.success());
    let _ran = it.run().status(0);
    let it = it.command(["sessions", "prune", "--older-than", "30", "--dry-run"]);
    assert!(it.run().status(0).stdout.contains("1 would be deleted") && it.sessions().len() == 2);
    let it = it.command(["sessions", "prune", "--older-than", "30"]);
    assert!(it.run().status(0).stdout.contains("1 deleted"));
    assert!(it.sessions().len() == 1 && it.sessions()[0] != old);
}

#[test]
fn ss_08_ids_that_are_none() {
    for id in ["*", "../x", "a\nb", "\u{1b}[2J", ""] {
        for verb in ["show", "delete", "export"] {
            let ran = free().command(["sessions", verb, id]).run().status(1);
            assert!(!ran.stderr.contains('\u{1b}') && ran.stderr.trim_end().lines().count() == 1, "{verb} {id:?}: {}", ran.stderr);
        }
    }
}

#[test]
fn ss_06_a_list_reads_no_whole_journals() {
    let it = free().reply(Reply::text("x"));
    let _ran = it.run().status(0);
    let id = it.sessions()[0].clone();
    let big = std::fs::File::options().append(true).open(it.journal_path(&id)).unwrap();
    big.set_len(300 << 20).unwrap();
    let begun = std::time::Instant::now();
    let it = it.command(["sessions"]);
    assert!(it.run().status(0).stdout.contains("300 MB"));
    assert!(begun.elapsed() < std::time::Duration::from_secs(2));
}

#[test]
fn ss_05_many_at_once_on_one_home() {
    let it = (0..12).fold(free(), |it, _| it.reply(Reply::text("ok")));
    let children: Vec<_> = (0..12).map(|_| it.start()).collect();
    for child in children {
        let _ran = it.finish(child).status(0);
    }
    assert_eq!(it.sessions().len(), 12);
}

#[test]
fn a_transcript_in_the_form_of_the_manual_is_left_for_others() {
    let it = crate::sid().command(["--plain"]).stdin("go\n").file("f", "x");
    let it = it.rounds([("read_file", json!({"path": "f"})), ("read_file", json!({"path": "nope"}))]);
    let _ran = it.run().status(0);
    let path = it.journal_path(&it.sessions()[0]).with_file_name("transcript.json");
    let said: serde_json::Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    assert_eq!(said["version"], 1);
    let all = said["messages"].as_array().unwrap();
    assert_eq!(all[0], json!({"role": "user", "content": "go"}));
    assert_eq!(all[1]["content"][0]["type"], "tool_use");
    assert_eq!(all[2]["content"][0]["tool_use_id"], all[1]["content"][0]["id"]);
    assert!(all[2]["content"][0].get("is_error").is_none() && all[4]["content"][0]["is_error"] == true);
    assert_eq!(all[5]["content"], json!([{"type": "text", "text": "done"}]));
    assert_eq!(std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(path).unwrap().permissions()) & 0o777, 0o600);
}
