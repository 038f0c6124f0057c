use sid_core::{Assistant, Opened, Part, User};

use super::*;

fn records() -> Vec<Record> {
    vec![
        Record::Opened(Opened { v: 1, id: "s".into(), cwd: "/w".into(), ..Opened::default() }),
        Record::User(User { text: "naïve 日本 🙂".into(), ..User::default() }),
        Record::Assistant(Assistant { parts: vec![Part::Text("two\nlines".into())], ..Assistant::default() }),
    ]
}

fn store() -> (tempfile::TempDir, Store) {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::new(dir.path().join("sessions"));
    (dir, store)
}

fn filled(store: &Store) -> Vec<u8> {
    let mut journal = store.create("s").unwrap();
    for it in records() {
        journal.append(&it).unwrap();
    }
    journal.sync().unwrap();
    fs::read(journal.dir().join(EVENTS)).unwrap()
}

#[test]
fn ss_02_a_journal_torn_at_any_byte_keeps_all_complete_records() {
    let (_dir, store) = store();
    let whole = filled(&store);
    let path = store.root().join("s").join(EVENTS);
    for cut in 0..=whole.len() {
        fs::write(&path, &whole[..cut]).unwrap();
        let _none = fs::remove_file(store.root().join("s/events.torn"));
        let (mut journal, loaded) = store.open("s").unwrap();
        let complete =
            whole[..cut].split_inclusive(|it| *it == b'\n').filter(|it| serde_json::from_slice::<Record>(it).is_ok()).count();
        assert_eq!(loaded.records, records()[..complete], "cut {cut}");
        let torn = fs::read(store.root().join("s/events.torn")).unwrap_or_default();
        assert_eq!(loaded.notices.len(), usize::from(!torn.is_empty()));
        journal.append(&records()[0]).unwrap();
        drop(journal);
        let (_, again) = store.open("s").unwrap();
        assert_eq!(again.records.len(), complete + 1, "cut {cut}");
        assert!(again.notices.is_empty());
    }
}

#[test]
fn ss_02_a_record_glued_to_a_torn_line_is_kept() {
    let (_dir, store) = store();
    let whole = filled(&store);
    let path = store.root().join("s").join(EVENTS);
    let mut damaged = whole[..whole.len() - 9].to_vec();
    damaged.extend(serde_json::to_vec(&records()[1]).unwrap());
    damaged.push(b'\n');
    fs::write(&path, damaged).unwrap();
    let (_, loaded) = store.open("s").unwrap();
    assert_eq!(loaded.records.len(), 3);
    assert_eq!(loaded.notices.len(), 1);
    let (_, again) = store.open("s").unwrap();
    assert_eq!((again.records, again.notices.len()), (loaded.records, 0));
}

#[test]
fn damage_in_the_middle_names_the_line_and_changes_nothing() {
    let (_dir, store) = store();
    let whole = filled(&store);
    let path = store.root().join("s").join(EVENTS);
    let text = String::from_utf8(whole).unwrap().replacen("{\"user\"", "garbage", 1);
    fs::write(&path, &text).unwrap();
    let said = store.open("s").unwrap_err().to_string();
    assert!(said.contains("events.jsonl:2:"), "{said}");
    assert_eq!(fs::read_to_string(&path).unwrap(), text);
}

#[test]
fn one_writer_and_any_readers() {
    let (_dir, store) = store();
    let mut journal = store.create("s").unwrap();
    journal.append(&records()[0]).unwrap();
    let said = store.open("s").unwrap_err().to_string();
    assert!(said.contains(&std::process::id().to_string()), "{said}");
    assert!(matches!(store.delete("s"), Err(Error::Busy(..))));
    assert_eq!(store.read("s").unwrap().records.len(), 1);
    drop(journal);
    store.delete("s").unwrap();
    assert!(matches!(store.open("s"), Err(Error::NotFound(_))));
}

#[test]
fn ss_08_an_id_is_never_a_path_or_a_pattern() {
    let (dir, store) = store();
    filled(&store);
    fs::write(dir.path().join("other"), "x").unwrap();
    for id in ["*", "", "a\nb", "\u{1b}[2J", ".", "..", "s*", &"x".repeat(5000)] {
        assert!(matches!(store.delete(id), Err(Error::BadId(_))), "{id:?}");
        let said = store.find(id).unwrap_err().to_string();
        assert!(said.len() < 300 && !said.contains(['\n', '\u{1b}']), "{said}");
    }
    assert!(matches!(store.delete("../other"), Err(Error::NotFound(_))));
    assert!(store.find("s").is_ok() && dir.path().join("other").exists());
}

#[test]
fn sessions_are_named_by_id_prefix_or_path() {
    let (_dir, store) = store();
    for id in ["aa-1", "aa-2", "b"] {
        store.create(id).unwrap().append(&records()[0]).unwrap();
    }
    assert!(store.find("aa-1").is_ok() && store.find("b").is_ok());
    assert!(matches!(store.find("aa"), Err(Error::Ambiguous(_, all)) if all.len() == 2));
    let path = store.root().join("b");
    assert_eq!(store.find(path.to_str().unwrap()).unwrap(), path);
}

#[test]
fn lists_come_from_descriptions_or_first_records() {
    let (_dir, store) = store();
    filled(&store);
    let row = &store.list().unwrap()[0];
    assert_eq!((row.meta.title.as_str(), row.meta.cwd.as_str()), ("naïve 日本 🙂", "/w"));
    let (journal, _) = store.open("s").unwrap();
    journal.describe(&Meta { title: "other".into(), ..Meta::default() }).unwrap();
    assert_eq!(store.list().unwrap()[0].meta.title, "other");
}

#[test]
fn folders_and_files_are_private() {
    use std::os::unix::fs::PermissionsExt as _;
    let (_dir, store) = store();
    filled(&store);
    let mode = |it: &str| fs::metadata(store.root().join(it)).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode("."), mode("s"), mode("s/events.jsonl"), mode("s/lock")), (0o700, 0o700, 0o600, 0o600));
}
