//! Nothing acknowledged is ever lost.
use std::fs;

use serde_json::{Value, json};
use sid_testkit::{Reply, Test, Wire};

use crate::{
    Script as _, free,
    shells::{alive, eventually, signal},
    sid,
};

fn again(it: Test, id: &str) -> Test {
    it.command(["run", "continue", "--resume", id, "--output", "jsonl", "--mode", "workspace_write"])
}

#[test]
fn a_resume_goes_on_where_it_was() {
    for wire in [Wire::Chat, Wire::Messages] {
        let it = free().wire(wire).rounds([("run_command", json!({"command": "echo first-result"}))]);
        let _ran = it.run().status(0);
        let id = it.sessions()[0].clone();
        it.fake().reply([Reply::text("second")]);
        let it = again(it, &id[..20]);
        let ran = it.run().status(0);
        assert_eq!(
            (ran.of_type("session")[0]["resumed"].as_bool(), ran.of_type("session")[0]["session_id"].as_str()),
            (Some(true), Some(&*id))
        );
        let body = &it.fake().requests()[2].body;
        assert!(body.contains("first-result") && body.contains("continue") && body.contains("done"), "{body}");
    }
}

#[test]
fn a_session_is_named_by_its_id_its_folder_or_its_description() {
    let it = free().reply(Reply::text("first"));
    let _ran = it.run().status(0);
    let id = it.sessions()[0].clone();
    let dir = it.beside("state/sessions").join(&id);
    let mut it = it;
    for spec in [id.clone(), dir.display().to_string(), dir.join("session.json").display().to_string()] {
        it.fake().reply([Reply::text("more")]);
        it = again(it, &spec);
        let ran = it.run().status(0);
        assert_eq!(ran.of_type("session")[0]["session_id"], id.as_str(), "{spec}");
    }
    assert_eq!(it.sessions().len(), 1);
    for (spec, want) in
        [("nope", "saved session not found: nope"), ("./nope", "saved session not found"), ("a b", "can't be a session id")]
    {
        it = again(it, spec);
        let ran = it.run();
        assert!(
            ran.status != 0 && (ran.stdout.contains(want) || ran.stderr.contains(want)),
            "{spec}: {} {}",
            ran.stdout,
            ran.stderr
        );
    }
}

#[test]
fn ss_01_a_killed_call_is_reported_and_never_run_again() {
    for wire in [Wire::Chat, Wire::Messages] {
        let slow = json!({"command": "echo x >> ran; exec sleep 60.25"});
        let calls = Reply::calls([("run_command", slow), ("run_command", json!({"command": "echo y >> second"}))]);
        let it = free().wire(wire).reply(calls);
        let child = it.start();
        eventually("the command runs", || alive("sleep 60.25"));
        signal(&child, "KILL");
        let _ran = it.finish(child).status(137);
        let id = it.sessions()[0].clone();
        it.fake().reply([Reply::text("on")]);
        let it = again(it, &id);
        let ran = it.run().status(0);
        assert_eq!(
            (it.read("ran"), it.read("second")),
            (b"x\n".to_vec(), b"y\n".to_vec()),
            "the first is not repeated, the second is run now"
        );
        let body = &it.fake().requests()[1].body;
        assert!(body.contains("it may have run"), "{body}");
        assert_eq!(ran.of_type("result")[0]["text"], "on");
        let it = again(it, &id).reply(Reply::text("and on"));
        let _ran = it.run().status(0);
    }
}

#[test]
fn a_failed_turn_is_saved_and_continued() {
    let it = free().reply(Reply::call("create_file", &json!({"path": "a", "content": ""}))).reply(Reply::Status(
        401,
        vec![],
        String::new(),
    ));
    let _ran = it.run().status(1);
    let id = it.sessions()[0].clone();
    it.fake().reply([Reply::text("mended")]);
    let it = again(it, &id);
    assert_eq!(it.run().status(0).of_type("result")[0]["text"], "mended");
}

#[test]
fn one_writer_and_readers_are_never_blocked() {
    let it = free().reply(Reply::call("run_command", &json!({"command": "exec sleep 61.25"})));
    let child = it.start();
    eventually("the command runs", || alive("sleep 61.25"));
    let id = it.sessions()[0].clone();
    let pid = child.id();
    let it = again(it, &id);
    let ran = it.run().status(1);
    let message = ran.of_type("error")[0]["message"].as_str().unwrap().to_owned();
    assert!(message.contains(&pid.to_string()) && message.contains("in use"), "{message}");
    let it = it.command(["sessions", "show", &id]);
    assert!(it.run().status(0).stdout.contains("started"));
    let it = it.command(["sessions", "delete", &id]);
    assert!(it.run().status(1).stderr.contains("in use"));
    signal(&child, "TERM");
    let _ran = it.finish(child).status(143);
}

/// The journal of a whole session of twenty rounds, the replay of its model, and how it ended.
fn whole() -> (Vec<String>, String, Vec<Value>) {
    let it = (0..20).fold(free(), |it, n| match n % 4 {
        0 => it.reply(Reply::call("run_command", &json!({"command": format!("echo {n} >> log")}))),
        1 => it.reply(Reply::calls([("read_file", json!({"path": "log"})), ("list_directory", json!({"path": "."}))])),
        2 => it.reply(Reply::call("create_file", &json!({"path": format!("f{n}"), "content": "x"}))),
        _ => it.reply(Reply::call("read_file", &json!({"path": "gone"}))),
    });
    let it = it.reply(Reply::text("the end"));
    let _ran = it.run().status(0);
    let id = it.sessions()[0].clone();
    let lines: Vec<String> = fs::read_to_string(it.journal_path(&id)).unwrap().lines().map(str::to_owned).collect();
    let it = it.command(["sessions", "export", &id, "--as", "replay"]);
    let replay = it.run().status(0).stdout;
    (lines, replay, it.journal())
}

#[test]
fn ss_02_killed_after_every_record_of_twenty_rounds_it_ends_the_same() {
    let (lines, replay, full) = whole();
    assert!(lines.len() > 70, "{}", lines.len());
    for n in 1..=lines.len() {
        let it = sid().file("../replay.jsonl", &replay);
        let dir = it.beside("state/sessions/cut");
        fs::create_dir_all(&dir).unwrap();
        fs::write(dir.join("events.jsonl"), lines[..n].join("\n") + "\n").unwrap();
        let model = format!("replay:{}", it.beside("replay.jsonl").display());
        let it =
            it.command(["run", "go on", "--resume", "cut", "--output", "jsonl", "--mode", "workspace_write", "--model", &model]);
        let answers = lines[..n].iter().filter(|it| it.starts_with("{\"assistant\"")).count();
        let finished = answers == 21;
        let ran = it.run().status(i32::from(finished));
        if !finished {
            assert_eq!(ran.of_type("result")[0]["text"], "the end", "cut {n}");
        }
        let journal = it.journal();
        let count = |journal: &[Value], kind: &str| journal.iter().filter(|it| it.get(kind).is_some()).count();
        assert_eq!(count(&journal, "assistant"), count(&full, "assistant"), "cut {n}");
        assert_eq!(count(&journal, "finished"), count(&full, "finished"), "cut {n}: every call has one outcome");
        let interrupted = journal.iter().filter(|it| it["finished"]["outcome"]["status"] == "interrupted").count();
        let started_last = lines[..n].iter().filter(|it| it.starts_with("{\"started\"")).count()
            - lines[..n].iter().filter(|it| it.starts_with("{\"finished\"")).count();
        assert_eq!(interrupted, started_last, "cut {n}");
    }
}

/// What a process leaves that dies right after its n-th record, for every n: found by watching the journal and killing it.
#[test]
fn killed_for_real_at_every_record_nothing_is_lost_or_done_twice() {
    let rounds: Vec<Value> = (0..6).map(|n| json!({"command": format!("echo {n} >> log")})).collect();
    // The model takes its time, as real ones do: long enough for the look at what was left behind.
    let late = |it| Reply::Late(std::time::Duration::from_millis(15), Box::new(it));
    let answers = |it: Test| {
        let it = rounds.iter().fold(it, |it, args| it.reply(late(Reply::call("run_command", args))));
        it.reply(late(Reply::text("the end")))
    };
    let records = 2 + 3 * rounds.len() + 2;
    for n in 1..records {
        let it = answers(free());
        let child = it.start();
        let lines =
            || it.sessions().first().map_or(0, |id| fs::read_to_string(it.journal_path(id)).unwrap_or_default().lines().count());
        eventually("the record", || lines() >= n);
        signal(&child, "KILL");
        let _ran = it.finish(child);
        let id = it.sessions()[0].clone();
        let before: Vec<Value> = it.journal();
        let acknowledged = before.iter().filter(|it| it["finished"]["outcome"]["status"] == "ok").count();
        let it = again(it, &id);
        it.fake().reply([late(Reply::text("the end"))]);
        let ran = it.run().status(0);
        assert_eq!(ran.of_type("result")[0]["text"], "the end", "{n}");
        let here = it.beside("").display().to_string();
        eventually("no sandbox is left behind", || !crate::shells::sandboxes().contains(&here));
        let log = String::from_utf8(fs::read(it.path("log")).unwrap_or_default()).unwrap();
        let mut seen: Vec<&str> = log.lines().collect();
        assert!(seen.len() >= acknowledged, "{n}: {acknowledged} were acknowledged, the log is {log:?}");
        seen.dedup();
        assert_eq!(seen.join("\n"), log.trim_end(), "{n}: something was done twice");
    }
}

#[test]
fn ss_02_torn_at_every_byte_of_its_last_records_it_still_resumes() {
    let it = free().file("r", "").rounds([("run_command", json!({"command": "echo naïve 日本"}))]);
    let _ran = it.run().status(0);
    let id = it.sessions()[0].clone();
    let path = it.journal_path(&id);
    let whole = fs::read(&path).unwrap();
    let first = whole.iter().position(|it| *it == b'\n').unwrap() + 1;
    let it = it.file("../replay.jsonl", "{\"assistant\":{\"at\":0,\"parts\":[{\"text\":\"a\"}]}}\n".repeat(5));
    let model = format!("replay:{}", it.beside("replay.jsonl").display());
    let it = it.command(["run", "more", "--resume", &id, "--mode", "read_only", "--model", &model]);
    for cut in (first..whole.len()).step_by(7) {
        fs::write(&path, &whole[..cut]).unwrap();
        let ran = it.run().status(0);
        let torn = whole[cut - 1] != b'\n' && whole[cut] != b'\n';
        assert_eq!(ran.stderr.contains("set aside"), torn, "cut {cut}: {}", ran.stderr);
        assert!(fs::read_to_string(&path).unwrap().lines().all(|it| serde_json::from_str::<Value>(it).is_ok()), "cut {cut}");
    }
}

#[test]
fn damage_is_named_and_nothing_is_changed() {
    let it = free().reply(Reply::text("x"));
    let _ran = it.run().status(0);
    let id = it.sessions()[0].clone();
    let path = it.journal_path(&id);
    let text = fs::read_to_string(&path).unwrap().replacen("{\"user\"", "{\"usr\"", 1);
    fs::write(&path, &text).unwrap();
    let it = again(it, &id);
    let ran = it.run().status(1);
    assert!(ran.of_type("error")[0]["message"].as_str().unwrap().contains("events.jsonl:2: not a record"), "{}", ran.stdout);
    assert_eq!(fs::read_to_string(&path).unwrap(), text);
}

#[test]
fn a_full_disk_ends_the_turn_and_leaves_the_journal_whole() {
    // A file system of 64 KiB for the sessions, in a namespace of its own.
    let it = free().env("SID_SESSIONS", "/mnt/sessions");
    let keep = it.beside("state/copy").display().to_string();
    let script = format!("\"$@\"; code=$?; cp -r /mnt/sessions {keep}; exit $code");
    let it = it.through(
        [
            "bwrap",
            "--bind",
            "/",
            "/",
            "--dev-bind",
            "/dev",
            "/dev",
            "--size",
            "65536",
            "--tmpfs",
            "/mnt",
            "--",
            "sh",
            "-c",
            &script,
            "sh",
        ]
        .map(str::to_owned),
    );
    let it =
        (0..10).fold(it, |it, _| it.reply(Reply::call("run_command", &json!({"command": "head -c 20000 /dev/zero | tr '\\0' x"}))));
    let ran = it.run().status(1);
    let message = ran.of_type("error")[0]["message"].as_str().unwrap().to_owned();
    assert!(message.contains("journal can't be written") && message.contains("No space left"), "{message}");
    let session = fs::read_dir(it.beside("state/copy")).unwrap().flatten().next().unwrap();
    let text = fs::read_to_string(session.path().join("events.jsonl")).unwrap();
    assert!(text.ends_with('\n') && text.lines().all(|it| serde_json::from_str::<Value>(it).is_ok()));
}

#[test]
fn journals_do_not_grow_with_the_square_of_the_session() {
    let rounds = |n: u32| {
        let it = (0..n).fold(free().args(["--max-tool-rounds", "500"]), |it, _| {
            it.reply(Reply::call("run_command", &json!({"command": "seq 100"})))
        });
        let it = it.reply(Reply::text("x"));
        let _ran = it.run().status(0);
        let dir = it.journal_path(&it.sessions()[0]);
        let sent = it.fake().requests().last().unwrap().body.len() as u64;
        (fs::read_dir(dir.parent().unwrap()).unwrap().flatten().map(|it| it.metadata().unwrap().len()).sum::<u64>(), sent)
    };
    let ((small, _), (large, conversation)) = (rounds(10), rounds(40));
    assert!(large < small * 5, "{small} {large}");
    assert!(large * 2 < conversation * 3, "at most 1.5 times the conversation: {large} of {conversation}");
}
