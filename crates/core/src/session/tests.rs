//! Records in a text notation, what comes next out.
use proptest::prelude::*;

use super::*;
use crate::{ReviewedCall, Started, Status, User};

/// `user`, `sid`, `say TEXT`, `call ID TOOL…`, `start ID`, `done ID`, `end`, `refuse`, `broken TEXT`; one record a line.
fn record(line: &str) -> Record {
    let (verb, rest) = line.split_once(' ').unwrap_or((line, ""));
    let answer = |parts: Vec<Part>| Assistant { parts, ..Assistant::default() };
    match verb {
        "user" => Record::User(User { text: rest.into(), ..User::default() }),
        "sid" => Record::User(User { text: rest.into(), from: Source::Sid, ..User::default() }),
        "say" => Record::Assistant(answer(vec![Part::Text(rest.into())])),
        "broken" => Record::Assistant(Assistant { partial: true, ..answer(vec![Part::Text(rest.into())]) }),
        "refuse" => Record::Assistant(Assistant { stop: Stop::Refusal, ..answer(vec![]) }),
        "call" => Record::Assistant(answer(
            rest.split(' ').map(|id| Part::Call(Call { id: CallId(id.into()), tool: "t".into(), args: "{}".into() })).collect(),
        )),
        "start" => Record::Started(Started { at: 0, call: CallId(rest.into()), label: String::new(), bounds: String::new() }),
        "done" => Record::Finished(Finished { at: 0, call: CallId(rest.into()), outcome: Outcome::ok("r"), note: None }),
        "deny" | "allow" => {
            let outcome = if verb == "allow" { "allowed" } else { "rejected" }.to_owned();
            let (risk, authorization, rationale) = (String::new(), String::new(), String::new());
            Record::Reviewed(ReviewedCall {
                at: 0,
                call: CallId(rest.into()),
                outcome,
                risk,
                authorization,
                rationale,
                usage: Usage::default(),
            })
        }
        "fail" => Record::Finished(Finished { at: 0, call: CallId(rest.into()), outcome: Outcome::failed("r"), note: None }),
        "end" => Record::Ended { at: 0, reason: "completed".into(), error: None },
        other => panic!("{other}"),
    }
}

fn next(lines: &str) -> String {
    let (session, _) = Session::replay(lines.split(';').map(str::trim).filter(|it| !it.is_empty()).map(record));
    match session.next(2) {
        Next::Idle => "idle".into(),
        Next::Infer { tools: true } => "infer".into(),
        Next::Infer { tools: false } => "infer without tools".into(),
        Next::Refused => "refused".into(),
        Next::WrapUp => "wrap up".into(),
        Next::Run(calls) => format!("run {}", calls.iter().map(|it| it.id.0.as_str()).collect::<Vec<_>>().join(" ")),
        Next::Interrupted(ids) => format!("interrupted {}", ids.iter().map(|it| it.0.as_str()).collect::<Vec<_>>().join(" ")),
    }
}

#[test]
fn what_comes_next() {
    for (lines, want) in [
        ("", "idle"),
        ("user hi", "infer"),
        ("user hi; say yo", "idle"),
        ("user hi; say yo; user more", "infer"),
        ("user hi; call a b", "run a b"),
        ("user hi; call a b; start a", "interrupted a"),
        ("user hi; call a b; start a; done a", "run b"),
        ("user hi; call a b; done b", "run a"),
        ("user hi; call a; start a; done a", "infer"),
        ("user hi; call a; done a; call b; done b", "infer without tools"),
        ("user hi; call a; done a; call b; done b; user more", "infer"),
        ("user hi; say  ", "wrap up"),
        ("user hi; say <think>x</think>", "wrap up"),
        ("user hi; say ; sid final?", "infer without tools"),
        ("user hi; say ; sid final?; say ", "idle"),
        ("user hi; say ; end", "idle"),
        ("user hi; refuse", "idle"),
        ("user hi; broken half", "idle"),
        ("done ghost; start ghost; end", "idle"),
        ("user hi; call a; done a; done a", "infer"),
    ] {
        assert_eq!(next(lines), want, "{lines}");
    }
}

#[test]
fn a_loop_of_refusals_ends_the_turn() {
    let denied = "call a; deny a; fail a; ";
    let deny = |n: usize| format!("user hi; {}", denied.repeat(n));
    let next = |lines: String| {
        let (session, _) = Session::replay(lines.split(';').map(str::trim).filter(|it| !it.is_empty()).map(record));
        format!("{:?}", session.next(100))
    };
    assert_eq!((next(deny(2)), next(deny(3))), ("Infer { tools: true }".into(), "Refused".into()));
    // What was allowed and succeeded ends the row; what was allowed and failed does not.
    assert_eq!(next(deny(2) + "call b; allow b; done b; " + denied), "Infer { tools: true }");
    assert_eq!(next(deny(2) + "call b; allow b; fail b; " + denied), "Refused");
    // Ten of the last fifty, whatever lies between.
    let mixed = |n: usize| format!("user hi; {}", format!("{denied}call b; allow b; done b; ").repeat(n));
    assert_eq!((next(mixed(9)), next(mixed(9) + denied)), ("Infer { tools: true }".into(), "Refused".into()));
    // The user's next message begins anew.
    assert_eq!(next(deny(3) + "user go on"), "Infer { tools: true }");
}

#[test]
fn what_the_model_sees_is_always_in_pairs() {
    let (_, items) = Session::replay(["user hi", "call a b", "done b", "user again"].map(record));
    let Item::Results(results) = &items[2] else { panic!("{items:?}") };
    assert_eq!(results[0].2.status, Status::Interrupted);
    assert_eq!(results[1].2.status, Status::Ok);
    assert_eq!(items[3], Item::User("again".into()));
}

#[test]
fn missing_and_repeated_ids_are_replaced() {
    let (session, _) = Session::replay(["user hi", "call a", "done a"].map(record));
    let Record::Assistant(answer) = record("call a b b ") else { panic!() };
    let ids: Vec<String> = session.admit(answer, 9).calls().map(|it| it.id.0.clone()).collect();
    assert_eq!(ids, ["call_sid_2", "b", "call_sid_3", "call_sid_4"]);
}

fn line() -> impl Strategy<Value = String> {
    prop_oneof![
        Just("user x".to_owned()),
        Just("say y".to_owned()),
        Just("say ".to_owned()),
        Just("end".to_owned()),
        "call [a-c]( [d-f])?",
        "start [a-f]",
        "done [a-f]",
    ]
}

proptest! {
    /// Any journal, cut anywhere, folds without a panic to a state whose calls and results pair up.
    #[test]
    fn any_prefix_is_a_session(lines in prop::collection::vec(line(), 0..30)) {
        for n in 0..=lines.len() {
            let (session, items) = Session::replay(lines[..n].iter().map(|it| record(it)));
            prop_assert_eq!(session.next(3), session.next(3));
            let mut open: Option<Vec<CallId>> = None;
            for item in &items {
                match item {
                    Item::Assistant(it) => {
                        prop_assert!(open.is_none());
                        let ids: Vec<_> = it.calls().map(|it| it.id.clone()).collect();
                        open = (!ids.is_empty()).then_some(ids);
                    }
                    Item::Results(it) => {
                        let ids: Vec<_> = it.iter().map(|it| it.0.clone()).collect();
                        prop_assert_eq!(open.take(), Some(ids));
                    }
                    Item::User(_) => prop_assert!(open.is_none()),
                }
            }
        }
    }

    #[test]
    fn records_survive_the_disk(lines in prop::collection::vec(line(), 0..10)) {
        for it in lines.iter().map(|it| record(it)) {
            let json = serde_json::to_string(&it).unwrap();
            prop_assert_eq!(serde_json::from_str::<Record>(&json).unwrap(), it);
        }
    }
}
