//! Every wire runs one matrix: `tests/data/<wire>/<case>/response.sse` in, `events.txt` out, in any chunking; and what was
//! answered goes back as `request.json`.
use std::{fmt::Write as _, fs, path::PathBuf};

use proptest::prelude::*;
use sid_core::{Assistant, CallId, Item, Outcome, Part};

use super::*;
use crate::{body::Tools, chat::Asks};

fn cases() -> Vec<(Wire, PathBuf)> {
    let data = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/data");
    let of = |wire, name: &str| {
        let all = fs::read_dir(data.join(name)).unwrap().map(|it| it.unwrap().path()).filter(|it| it.is_dir());
        all.map(move |it| (wire, it)).collect::<Vec<_>>()
    };
    let mut out = [of(Wire::Chat, "chat"), of(Wire::Messages, "messages")].concat();
    out.sort_by(|a, b| a.1.cmp(&b.1));
    out
}

fn decode(wire: Wire, pieces: &[&[u8]]) -> (String, Option<Assistant>) {
    let (mut decoder, mut deltas) = (Decoder::new(wire), Vec::new());
    let fed = pieces.iter().try_for_each(|it| decoder.feed(it, &mut deltas));
    let done = fed.and_then(|()| decoder.finish(&mut deltas));
    let mut out = String::new();
    for delta in &deltas {
        writeln!(out, "{delta:?}").unwrap();
    }
    let answer = match done {
        Err(failure) => {
            writeln!(out, "failure: {failure} (transient: {})", failure.transient).unwrap();
            decoder.partial()
        }
        Ok(answer) => Some(answer),
    };
    if let Some(it) = &answer {
        for part in &it.parts {
            writeln!(out, "{}", serde_json::to_string(part).unwrap()).unwrap();
        }
        writeln!(out, "stop {:?}, partial {}, usage {:?}", it.stop, it.partial, it.usage).unwrap();
    }
    (out, answer)
}

/// Compares with a file of the data; `UPDATE_DATA=1` writes it instead, to be read before it is committed.
#[track_caller]
fn golden(path: PathBuf, got: &str) {
    if option_env!("UPDATE_DATA").is_some() {
        fs::File::create(&path).and_then(|mut it| std::io::Write::write_all(&mut it, got.as_bytes())).unwrap();
    }
    assert_eq!(got, fs::read_to_string(&path).unwrap_or_default(), "{}", path.display());
}

#[test]
fn every_case_decodes_as_recorded_whole_and_by_bytes() {
    for (wire, case) in cases() {
        let bytes = fs::read(case.join("response.sse")).unwrap();
        let (whole, answer) = decode(wire, &[&bytes]);
        golden(case.join("events.txt"), &whole);
        assert_eq!(decode(wire, &bytes.chunks(1).collect::<Vec<_>>()), (whole, answer), "{} by bytes", case.display());
    }
}

#[test]
fn every_wire_runs_the_same_matrix() {
    for case in ["text", "calls", "reasoning", "length", "refusal", "error", "cut", "awkward"] {
        assert_eq!(cases().iter().filter(|(_, it)| it.ends_with(case)).count(), 2, "{case}");
    }
}

#[test]
fn what_was_answered_goes_back_as_recorded() {
    let tool = ToolSpec { name: "glob".into(), description: "d".into(), schema: r#"{"type":"object","properties":{}}"#.into() };
    for (wire, case) in cases() {
        let bytes = fs::read(case.join("response.sse")).unwrap();
        let Some(answer) = decode(wire, &[&bytes]).1 else { continue };
        let mut talk = Conversation::new(wire, "m", "system", std::slice::from_ref(&tool));
        talk.push(&Item::User("hi".into()));
        let results: Vec<_> = answer.calls().map(|it| (it.id.clone(), it.tool.clone(), Outcome::ok("r"), None)).collect();
        talk.push(&Item::Assistant(answer));
        if results.is_empty() {
            talk.push(&Item::User("go on".into()));
        } else {
            talk.push(&Item::Results(results));
        }
        let body = String::from_utf8(talk.body(Tools::Offered, Asks::Usage)).unwrap();
        let (test_wire, version) = match wire {
            Wire::Chat => (sid_testkit::Wire::Chat, ""),
            Wire::Messages => (sid_testkit::Wire::Messages, "2023-06-01"),
        };
        let headers = [("content-type".into(), "application/json".into()), ("anthropic-version".into(), version.into())];
        if !case.ends_with("awkward") {
            assert_eq!(sid_testkit::check(test_wire, &headers, body.as_bytes()), None, "{}: {body}", case.display());
        }
        golden(case.join("request.json"), &(body + "\n"));
    }
}

#[test]
fn ids_and_parts_of_another_wire_are_made_fit() {
    let call = sid_core::Call { id: CallId("functions.run:0".into()), tool: "glob".into(), args: "{\"a\": 1,".into() };
    let reasoning = serde_json::value::to_raw_value(&serde_json::json!({"reasoning_content": "hm"})).unwrap();
    let parts = vec![Part::Opaque(sid_core::Opaque { wire: "chat".into(), json: reasoning }), Part::Call(call)];
    let mut talk = Conversation::new(Wire::Messages, "m", "s", &[]);
    talk.push(&Item::User("hi".into()));
    talk.push(&Item::Assistant(Assistant { parts, ..Assistant::default() }));
    talk.push(&Item::Results(vec![(CallId("functions.run:0".into()), "glob".into(), Outcome::failed(""), Some("note".into()))]));
    let body = String::from_utf8(talk.body(Tools::Withheld, Asks::Plain)).unwrap();
    let headers = [("content-type".into(), "application/json".into()), ("anthropic-version".into(), "x".into())];
    assert_eq!(sid_testkit::check(sid_testkit::Wire::Messages, &headers, body.as_bytes()), None);
    assert!(
        body.contains(r#""id":"functions_run_0""#) && !body.contains("reasoning_content") && body.contains(r#""input":{}"#),
        "{body}"
    );
    assert!(body.contains(r#""content":"(no output)\n\nnote","is_error":true"#), "{body}");
}

proptest! {
    /// Any chunking of any case decodes alike.
    #[test]
    fn any_chunking_decodes_alike(which in 0usize..17, cuts in prop::collection::vec(0usize..4000, 0..12)) {
        let all = cases();
        let (wire, case) = &all[which % all.len()];
        let bytes = fs::read(case.join("response.sse")).unwrap();
        let mut cuts: Vec<usize> = cuts.into_iter().map(|it| it % bytes.len()).chain([0, bytes.len()]).collect();
        cuts.sort_unstable();
        let pieces: Vec<&[u8]> = cuts.windows(2).map(|it| &bytes[it[0]..it[1]]).collect();
        prop_assert_eq!(decode(*wire, &pieces), decode(*wire, &[&bytes]));
    }

    /// No bytes at all make a decoder panic, and what comes out is a session's record.
    #[test]
    fn any_bytes_are_survived(which in 0usize..17, at in 0usize..4000, junk in prop::collection::vec(any::<u8>(), 0..40), erase in 0usize..60) {
        let all = cases();
        let (wire, case) = &all[which % all.len()];
        let mut bytes = fs::read(case.join("response.sse")).unwrap();
        let at = at % bytes.len();
        let end = (at + erase).min(bytes.len());
        bytes.splice(at..end, junk);
        if let (_, Some(answer)) = decode(*wire, &[&bytes]) {
            prop_assert!(serde_json::to_string(&answer).is_ok());
        }
    }
}
