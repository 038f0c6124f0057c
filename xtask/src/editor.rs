//! Sequences of calls of the text editor, from a file of cases with what the vendor's reference does: the same outcome and the
//! same files, but where DESIGN and the manual say otherwise.
use std::{
    collections::BTreeMap,
    fs,
    path::Path,
    process::{Command, Stdio},
};

use serde_json::Value;
use sid_testkit::{Fake, Reply};

use crate::{Done, sid};

/// Cases that go the other way on purpose, and why.
const OTHERWISE: &[(&str, &str)] = &[
    ("view relative", "relative paths are of the workspace (the manual)"),
    ("create in missing dir", "missing folders are made (the manual's own example)"),
    ("replace tabs", "bytes that were not asked for stay (DESIGN §1)"),
    ("replace crlf", "line ends stay (DESIGN §1, ED-01)"),
];

pub(crate) fn editor(file: &Path) -> Done {
    let program = sid()?;
    let text = fs::read_to_string(file).map_err(|err| format!("{}: {err}", file.display()))?;
    let json: Value = serde_json::from_str(&text).map_err(|err| format!("{}: {err}", file.display()))?;
    let (mut passed, mut otherwise, mut failed) = (0, 0, 0);
    for case in json["cases"].as_array().into_iter().flatten() {
        let name = case["case"].as_str().unwrap_or_default();
        let same = run(&program, case)?;
        match (OTHERWISE.iter().find(|it| it.0 == name), same) {
            (None, Ok(())) => passed += 1,
            (Some((_, why)), Err(_)) => {
                otherwise += 1;
                println!("otherwise, {why}: {name}");
            }
            (Some(_), Ok(())) => {
                failed += 1;
                println!("is as the reference now: {name}");
            }
            (None, Err(why)) => {
                failed += 1;
                println!("{name}: {why}");
            }
        }
    }
    println!("{passed} passed, {otherwise} otherwise on purpose, {failed} failed");
    if failed == 0 { Ok(()) } else { Err("some cases do not go as they should".to_owned()) }
}

type Files = BTreeMap<String, String>;

/// Runs a case; the inner error says what is different.
fn run(program: &Path, case: &Value) -> Result<Result<(), String>, String> {
    let io = |err: std::io::Error| err.to_string();
    let world = tempfile::tempdir_in("/var/tmp").map_err(io)?;
    let (work, config) = (world.path().join("work"), world.path().join(".config/sid"));
    let write = |dir: &Path, name: &str, text: &str| {
        let path = dir.join(name);
        fs::create_dir_all(path.parent().unwrap_or(dir)).and_then(|()| fs::write(path, text)).map_err(io)
    };
    fs::create_dir_all(&work).map_err(io)?;
    write(&config, "agents.conf", "a_ENABLED=YES\na_TOOLS=edit\n")?;
    write(&config, "tools.conf", "edit_ENABLED=YES\n")?;
    for (name, text) in files(&case["files"]) {
        write(&work, &name, &text)?;
    }
    // The workspace is / to the editor.
    let spelled = |call: &Value| call.to_string().replace("\"{D}\"", "\"/\"").replace("{D}", "");
    let calls = case["calls"].as_array().into_iter().flatten();
    let replies = calls.map(|it| Reply::Calls(String::new(), vec![("str_replace_based_edit_tool".to_owned(), spelled(it))]));
    let fake = Fake::new(replies.chain([Reply::text("done")]));
    let out = Command::new(program)
        .args(["run", "go", "--model", "m", "--output", "jsonl", "--mode", "workspace_write"])
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .envs([("HOME", world.path()), ("SID_SESSIONS", &world.path().join("sessions"))])
        .envs([("OPENAI_BASE_URL", format!("{}/v1", fake.url())), ("OPENAI_API_KEY", "k".to_owned())])
        .current_dir(&work)
        .stdin(Stdio::null())
        .output()
        .map_err(io)?;
    let lines = String::from_utf8_lossy(&out.stdout).into_owned();
    let events = lines.lines().filter_map(|it| serde_json::from_str::<Value>(it).ok());
    let got: Vec<bool> = events.filter(|it| it["type"] == "tool_result").map(|it| it["is_error"] == false).collect();
    let wanted: Vec<bool> = case["results"].as_array().into_iter().flatten().map(|it| it["ok"] == true).collect();
    if got != wanted {
        return Ok(Err(format!("succeeds {got:?}, wanted {wanted:?}\n{lines}")));
    }
    let (after, there) = (files(&case["after"]), tree(&work, &work).map_err(io)?);
    Ok(if after == there { Ok(()) } else { Err(format!("leaves {there:?}, wanted {after:?}")) })
}

fn files(it: &Value) -> Files {
    let all = it.as_object().into_iter().flatten();
    all.map(|(name, text)| (name.clone(), text.as_str().unwrap_or_default().to_owned())).collect()
}

fn tree(root: &Path, dir: &Path) -> std::io::Result<Files> {
    let mut out = Files::new();
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        if path.is_dir() {
            out.extend(tree(root, &path)?);
        } else {
            let name = path.strip_prefix(root).unwrap_or(&path).display().to_string();
            out.insert(name, String::from_utf8_lossy(&fs::read(&path)?).into_owned());
        }
    }
    Ok(out)
}
