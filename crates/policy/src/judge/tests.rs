//! Accesses × modes × rules, as tables.
use std::path::PathBuf;

use super::*;
use crate::{Answer, Exec, Hidden, Kind, PathUse, Touch};

fn fence() -> Arc<Fence> {
    let (hidden, wrong) = Hidden::default().with_root(Path::new("/w"), "secret.txt\nvault/\n");
    assert!(wrong.is_empty());
    Arc::new(Fence {
        roots: vec!["/w".into(), "/more".into()],
        protected: vec![".sid".into(), "sid.toml".into()],
        secret: vec!["/state/sessions".into()],
        hidden,
        ..Fence::default()
    })
}

fn rules(mode: Mode) -> Rules {
    Rules { mode, fence: fence(), allow: BTreeSet::new(), deny: BTreeSet::new(), default: None, tools: BTreeMap::new() }
}

fn path(lexical: &str, canonical: &str, touch: Touch) -> ResolvedPath {
    ResolvedPath { lexical: lexical.into(), canonical: Some(canonical.into()), touch, kind: Kind::File }
}

fn resolved(tool: &str, paths: &[ResolvedPath], exec: Option<Exec>) -> Resolved {
    let mutates = exec.is_some() || paths.iter().any(|it| it.touch.changes());
    let uses = paths.iter().map(|it| PathUse { path: it.lexical.clone(), touch: it.touch }).collect();
    let access = Access { mutates, paths: uses, exec, action: Some("doing it".into()), ..Access::none(tool, "op") };
    Resolved { access, paths: paths.to_vec() }
}

fn write(lexical: &str, canonical: &str) -> Resolved {
    resolved("edit_file", &[path(lexical, canonical, Touch::Write)], None)
}

fn read(at: &str) -> Resolved {
    resolved("read_file", &[path(at, at, Touch::Read)], None)
}

fn shell(escalate: Option<&str>) -> Resolved {
    let exec = Exec { command: "make".into(), cwd: PathBuf::from("/w"), escalate: escalate.map(str::to_owned), shell: None };
    resolved("run_command", &[], Some(exec))
}

fn word(verdict: &Verdict) -> String {
    match verdict {
        Verdict::Allow(permit) => permit.bounds().name().to_owned(),
        Verdict::Ask(_) => "ask".into(),
        Verdict::Review(_) => "review".into(),
        Verdict::Fault(_) => "fault".into(),
        Verdict::Deny(_) => "deny".into(),
    }
}

#[test]
fn modes_and_boundaries() {
    type Case = (&'static str, fn() -> Resolved, [&'static str; 6]);
    let cases: [Case; 12] = [
        // name, access, plan, read_only, manual, workspace_write, auto, full_access
        ("write inside", || write("/w/a", "/w/a"), ["deny", "deny", "ask", "workspace", "workspace", "unbounded"]),
        ("write in an added root", || write("/more/a", "/more/a"), ["deny", "deny", "ask", "workspace", "workspace", "unbounded"]),
        ("write outside", || write("/x", "/x"), ["deny", "deny", "ask", "deny", "review", "unbounded"]),
        ("sibling prefix", || write("/wide/a", "/wide/a"), ["deny", "deny", "ask", "deny", "review", "unbounded"]),
        ("link out", || write("/w/l/a", "/x/a"), ["deny", "deny", "ask", "deny", "review", "unbounded"]),
        ("protected", || write("/w/.sid/x", "/w/.sid/x"), ["deny", "deny", "ask", "deny", "review", "unbounded"]),
        ("alias of a protected", || write("/w/l", "/w/sid.toml"), ["deny", "deny", "ask", "deny", "review", "unbounded"]),
        ("git control", || write("/w/.GIT/config", "/w/.GIT/config"), ["deny", "deny", "deny", "deny", "deny", "unbounded"]),
        ("read inside", || read("/w/a"), ["read_only", "read_only", "workspace", "workspace", "workspace", "unbounded"]),
        ("read outside", || read("/etc/hosts"), ["read_only", "read_only", "workspace", "workspace", "review", "unbounded"]),
        ("shell", || shell(None), ["read_only", "read_only", "ask", "workspace", "workspace", "unbounded"]),
        ("shell, escalated", || shell(Some("x")), ["read_only", "read_only", "ask", "workspace", "review", "unbounded"]),
    ];
    for (name, access, want) in cases {
        let got = Mode::ALL.map(|mode| word(&rules(mode).judge(access())));
        assert_eq!(got, want, "{name}");
    }
}

#[test]
fn deny_wins_over_everything() {
    for mode in Mode::ALL {
        let mut it = rules(mode);
        it.allow.insert("read_file".into());
        it.deny.insert("read_file".into());
        assert_eq!(word(&it.judge(read("/w/a"))), "deny");
    }
}

#[test]
fn settings_and_grants() {
    let mut it = rules(Mode::Manual);
    it.allow.insert("edit_file".into());
    assert_eq!(word(&it.judge(write("/w/a", "/w/a"))), "workspace");
    assert_eq!(word(&it.judge(write("/x", "/x"))), "ask", "a grant never elevates");
    it.tools.insert("edit_file".into(), Default::Deny);
    assert_eq!(word(&it.judge(write("/w/a", "/w/a"))), "deny", "a grant does not beat a per-tool deny");

    let mut it = rules(Mode::Manual);
    it.default = Some(Default::Allow);
    assert_eq!(word(&it.judge(shell(None))), "workspace");
    assert_eq!(word(&it.judge(shell(Some("x")))), "ask");

    let mut it = rules(Mode::Auto);
    it.default = Some(Default::Deny);
    assert_eq!(word(&it.judge(read("/w/a"))), "workspace", "a default of deny covers mutating tools only");
    assert_eq!(word(&it.judge(write("/w/a", "/w/a"))), "ask");
    it.allow.insert("op".into());
    assert_eq!(word(&it.judge(write("/w/a", "/w/a"))), "workspace", "grants beat defaults, also by operation");

    let mut it = rules(Mode::FullAccess);
    it.tools.insert("run_command".into(), Default::Ask);
    assert_eq!(word(&it.judge(shell(None))), "ask");
}

#[test]
fn hidden_and_secret_paths_are_refused_in_every_mode() {
    for mode in Mode::ALL {
        for at in ["/w/secret.txt", "/w/deep/secret.txt", "/w/vault/x", "/state/sessions/other"] {
            assert_eq!(word(&rules(mode).judge(read(at))), "deny", "{at} in {mode}");
        }
        let alias = resolved("read_file", &[path("/w/alias", "/w/secret.txt", Touch::Read)], None);
        assert_eq!(word(&rules(mode).judge(alias)), "deny");
    }
}

#[test]
fn an_absent_person_is_a_refusal_that_names_the_switch() {
    let Verdict::Ask(question) = rules(Mode::Manual).judge(shell(None)) else { panic!() };
    let Err(Refusal(text)) = question.answer(Answer::Nobody) else { panic!() };
    assert!(text.contains("--allow-tool run_command") && text.contains("SIGIT_PERMISSIONS=allow"), "{text}");
}

#[test]
fn what_cannot_be_resolved_is_refused() {
    for mode in Mode::ALL {
        for mut it in [write("/w/loop", "/w/loop"), read("/w/loop")] {
            it.paths[0].canonical = None;
            assert_eq!(word(&rules(mode).judge(it)), "deny");
        }
    }
}

#[test]
fn mode_names() {
    assert_eq!("read-only".parse(), Ok(Mode::ReadOnly));
    let err = "fast".parse::<Mode>().unwrap_err().to_string();
    assert!(err.contains("'fast'") && err.contains("workspace_write"), "{err}");
}
