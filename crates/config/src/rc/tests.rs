use std::collections::HashMap;

use proptest::prelude::*;

use super::*;

fn load(text: &str) -> Result<Rc, Vec<Complaint>> {
    files(&[("a.conf", text)])
}

fn files(all: &[(&str, &str)]) -> Result<Rc, Vec<Complaint>> {
    let map: HashMap<&str, &str> = all.iter().copied().collect();
    let mut read = |path: &Path| {
        map.get(path.to_str().unwrap()).map(|it| (*it).to_owned()).ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))
    };
    Rc::load(&[all[0].0.into()], &mut read)
}

#[test]
fn lines_values_and_places() {
    let it = load("# a comment\n\n  a_ENABLED=\"YES\"\na_DESC='two words'\nlong=one\\\n  \n b=\"x \\\n   y\"\nc=\nd=\"a\"'b'c\n")
        .unwrap();
    let value = |name: &str| it.get(name).map(|it| (it.value.as_str(), it.line));
    assert_eq!(value("a_ENABLED"), Some(("YES", 3)));
    assert_eq!(value("a_DESC"), Some(("two words", 4)));
    assert_eq!(value("long"), Some(("one", 5)));
    assert_eq!(value("b"), Some(("x y", 7)));
    assert_eq!((value("c"), value("d")), (Some(("", 9)), Some(("abc", 10))));
}

#[test]
fn mistakes_are_complaints_with_their_place() {
    for (text, want) in [
        ("x = 1", "a.conf:1: \"x \" is no name"),
        ("export X=1", "nothing is exported"),
        ("ok=1\nx=a b", "a.conf:2: the value of `x` has 2 words"),
        ("x=a # note", "a comment needs a line of its own"),
        ("x='a", "a.conf:1: the value of `x`: a single quote is not closed"),
        ("just words", "is no assignment"),
        ("x=\"a\\nb\"", "a backslash may only be the last character"),
        ("x=1\\", "the file ends in a line that goes on"),
        ("a_ENABLED=yes", "`a_ENABLED` is \"yes\"; it can be YES, MANUAL or NO; did you mean `YES`?"),
        ("a_ENABLED=true", "`a_ENABLED` is \"true\""),
        ("a_INHERIT=YES", "has no meaning without `a_ALIASES`"),
        ("a_ALIASES=b\na_INHERIT=yes", "a.conf:2: `a_INHERIT` is \"yes\"; it can be YES or NO"),
        ("a_ALIASES=\"b c\"", "must name exactly one service"),
        ("a_ALIASES=b\nb_ALIASES=a", "leads back"),
        ("source ../x", "must be relative"),
        ("source /x", "must be relative"),
        ("\nsource gone.conf", "a.conf:2: `source`: gone.conf"),
    ] {
        let said = load(text).unwrap_err().iter().map(Complaint::to_string).collect::<Vec<_>>().join("\n");
        assert!(said.contains(want), "{text:?}: {said}");
    }
    // Every mistake is told at once.
    assert_eq!(load("x = 1\ny\nz=a b\n").unwrap_err().len(), 3);
}

#[test]
fn services_aliases_and_fields() {
    let text = "MODEL=global\nfmt_ENABLED=MANUAL\nfmt_STYLE=wide\nfmt_MODEL=own\nformat_ALIASES=fmt\nformat_INHERIT=YES\n\
                plain_ALIASES=fmt\ngit_status_ENABLED=YES\nplan_ENABLED=YES\nplan_CACHING_ENABLED=NO\nBuild_ENABLED=YES\nlate_ENABLED=NO\n";
    let it = load(text).unwrap();
    assert_eq!(it.services(), ["Build", "fmt", "format", "git_status", "late", "plain", "plan"], "no phantom of CACHING_ENABLED");
    assert_eq!((it.find("git-status"), it.find("git_status"), it.find("build")), (Some("git_status"), Some("git_status"), None));
    assert_eq!(it.chain("format"), ["format", "fmt"]);
    let switches = ["fmt", "format", "plain", "git-status", "Build", "late", "none"].map(|it_| it.switch(it_));
    use Switch::{Manual, No, Yes};
    assert_eq!(switches, [Manual, Manual, Manual, Yes, Yes, No, No]);
    let field = |service: &str, name: &str| it.field(service, name).map(|it| it.value.as_str());
    assert_eq!((field("format", "STYLE"), field("plain", "STYLE")), (Some("wide"), None));
    assert_eq!((field("format", "MODEL"), field("plan", "MODEL"), field("plan", "X")), (Some("own"), Some("global"), None));
}

#[test]
fn a_dash_in_a_name_is_an_underscore() {
    let it = load("git-diff_ENABLED=YES\ngit-diff_STYLE=a\nd_ALIASES=git-diff\nd_INHERIT=YES\n").unwrap();
    assert_eq!((it.switch("git_diff"), it.switch("git-diff"), it.switch("d")), (Switch::Yes, Switch::Yes, Switch::Yes));
    let style = |service: &str| it.field(service, "STYLE").map(|it| it.value.as_str());
    assert_eq!((style("git_diff"), style("git-diff"), style("d")), (Some("a"), Some("a"), Some("a")));
    assert!(it.unknown(&["STYLE"], &[]).is_empty());
}

#[test]
fn two_spellings_of_one_service_are_a_mistake() {
    let wrong = load("a_ENABLED=YES\ngit-status_ENABLED=YES\ngit_status_ENABLED=NO\n").unwrap_err();
    assert_eq!(wrong.len(), 1);
    assert!(wrong[0].line == 3 && wrong[0].text.contains("`git_status` and `git-status` are two spellings"), "{wrong:?}");
}

#[test]
fn sources_are_read_once_and_later_lines_win() {
    let it = files(&[("d/a.conf", "x=1\nsource b.conf\nsource b.conf\ny=2"), ("d/b.conf", "x=b\ny=b\nsource a.conf")]).unwrap();
    assert_eq!((it.get("x").unwrap().value.as_str(), it.get("y").unwrap().value.as_str()), ("b", "2"));
    assert_eq!(it.get("x").unwrap().file, Path::new("d/b.conf"));
}

#[test]
fn unknown_keys_are_complaints_with_a_suggestion() {
    let it = load("a_ENABLED=YES\na_MODLE=x\na_b_ENABLED=YES\na_b_MODEL=y\nDEFALT_AGENT=a\nMODEL=z\n").unwrap();
    let said: Vec<String> = it.unknown(&["MODEL", "TOOLS"], &["DEFAULT_AGENT"]).iter().map(Complaint::to_string).collect();
    assert_eq!(said.len(), 2, "{said:?}");
    assert!(said.iter().any(|it| it.contains("a.conf:5: `DEFALT_AGENT`") && it.contains("`DEFAULT_AGENT`?")), "{said:?}");
    assert!(said.iter().any(|it| it.contains("a.conf:2: there is no key `MODLE`") && it.contains("`MODEL`?")), "{said:?}");
}

#[test]
fn one_grammar_for_variables() {
    let vars = [("A", "x"), ("E", ""), ("R", "<$A>"), ("S", "1${S}2"), ("D", "${C}"), ("C", "${D}")];
    let lookup = |name: &str| vars.iter().find(|it| it.0 == name).map(|it| it.1.to_owned());
    for (text, want) in [
        ("plain {x} 'y'  z", Ok("plain {x} 'y'  z")),
        ("$A-${A}-$$A-$", Ok("x-x-$A-$")),
        ("$1 $ {", Ok("$1 $ {")),
        ("${A:-no}${N:-yes}${E:-no}", Ok("xyes")),
        ("${A:+in}${N:+no}${N:-${A}${N:-{b}}}", Ok("inx{b}")),
        ("${R}${S}${D}", Ok("<x>12")),
        ("${N:?must be ${A}}", Err("`N` is not set: must be x")),
        ("${A", Err("is not closed")),
        ("${A:-x", Err("is not closed")),
        ("${}", Err("not followed by the name")),
        ("${A:=x}", Err("must go on with")),
        ("${A b}", Err("in the name")),
    ] {
        match (expand(text, &lookup), want) {
            (Ok(it), Ok(want)) => assert_eq!(it, want, "{text}"),
            (Err(why), Err(want)) => assert!(why.contains(want), "{text}: {why}"),
            (it, _) => panic!("{text}: {it:?}"),
        }
    }
}

/// Values as people write them, in a form that both parsers promise to read.
fn value() -> impl Strategy<Value = String> {
    let word = "[a-zA-Z0-9_./:-]{0,8}";
    prop_oneof![
        word.prop_map(|it| it),
        "[a-z $]{0,12}".prop_map(|it| format!("\"{}\"", it.replace('$', ""))),
        "[a-z{}$ ]{0,10}".prop_map(|it| format!("'{it}'"))
    ]
}

fn line() -> impl Strategy<Value = String> {
    let service = prop_oneof![Just("fmt"), Just("build"), Just("git_status"), Just("a_b")];
    let field = prop_oneof![Just("MODEL"), Just("DESC"), Just("TOOLS")];
    let switch = prop_oneof![Just("YES"), Just("NO"), Just("MANUAL")];
    prop_oneof![
        (service.clone(), field, value()).prop_map(|(service, field, value)| format!("{service}_{field}={value}")),
        (service, switch).prop_map(|(service, switch)| format!("{service}_ENABLED=\"{switch}\"")),
        Just("alias_ALIASES=\"fmt\"".to_owned()),
        Just("alias_ALIASES=\"fmt\"\nalias_INHERIT=\"YES\"".to_owned()),
        Just("# a comment".to_owned()),
        Just(String::new()),
        value().prop_map(|it| format!("MODEL={it}")),
    ]
}

#[expect(clippy::disallowed_methods, reason = "a file for the other parser, outside any workspace")]
fn written(path: &Path, text: &str) {
    std::fs::write(path, text).unwrap();
}

proptest! {
    /// The same file means the same to the crate that the format comes from, but for what we decided otherwise.
    #[test]
    fn agrees_with_rc_conf(lines in proptest::collection::vec(line(), 0..12)) {
        let text = lines.join("\n") + "\n";
        let ours = load(&text).unwrap();
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("x.conf");
        written(&file, &text);
        let theirs = rc_conf::RcConf::parse(file.to_str().unwrap()).unwrap();
        for service in ["fmt", "build", "git_status", "a_b", "alias"] {
            let want = match theirs.service_switch(service) {
                rc_conf::SwitchPosition::Yes => Switch::Yes,
                rc_conf::SwitchPosition::Manual => Switch::Manual,
                rc_conf::SwitchPosition::No => Switch::No,
            };
            prop_assert_eq!(ours.switch(service), want, "{}", service);
            // Fields of what is no service are nothing there.
            if ours.find(service).is_none() {
                continue;
            }
            for field in ["MODEL", "DESC", "TOOLS"] {
                let want = theirs.lookup_suffix(service, field);
                let own = ours.field(service, field).filter(|it| Some(*it) != ours.get(field)).map(|it| it.value.clone());
                // Theirs looks past the bare default here; that one is held by a table above.
                if let Some(want) = want {
                    prop_assert_eq!(ours.field(service, field).map(|it| it.value.clone()), Some(want), "{} {}", service, field);
                } else {
                    prop_assert_eq!(own, None, "{} {}", service, field);
                }
            }
        }
    }

    #[test]
    fn splits_as_shvar_does(text in "[a-z'\"\\\\$ \t]{0,20}") {
        if let Ok(ours) = split(&text) {
            prop_assert_eq!(ours, shvar::split(&text).unwrap());
        }
    }

    #[test]
    fn what_is_quoted_comes_back(words in proptest::collection::vec("[a-z'\"\\\\$`{} \t\n]{0,8}", 0..5)) {
        prop_assert_eq!(split(&quote(&words)).unwrap(), words);
    }

    #[test]
    fn any_text_is_survived(text in "\\PC{0,80}(\n\\PC{0,40}){0,3}") {
        let _either = load(&text);
        let _either = expand(&text, &|_| Some(text.clone()));
    }
}
