//! `sid network log`: what the commands of sessions reached, and what they were refused.
use std::{collections::BTreeMap, io::Write as _, path::Path, process::ExitCode};

use sid_core::Record;
use sid_journal::Store;
use sid_policy::Blocked;

use crate::{args::NetworkCommand, paths::places, say};

pub(crate) fn network(command: &NetworkCommand) -> ExitCode {
    let NetworkCommand::Log { id, json } = command;
    let Some(root) = places().sessions else {
        say("sid: there is no place for sessions: HOME is not set; set SID_SESSIONS to a folder");
        return ExitCode::FAILURE;
    };
    match log(&Store::new(root), id.as_deref()) {
        Ok(rows) => {
            let text = if *json { as_json(&rows) } else { as_table(&rows) };
            let _closed = std::io::stdout().write_all(text.as_bytes());
            ExitCode::SUCCESS
        }
        Err(why) => {
            say(&format!("sid: {why}"));
            ExitCode::FAILURE
        }
    }
}

/// A destination in a session.
struct Row {
    session: String,
    host: String,
    port: u16,
    refused: Option<String>,
    times: u64,
}

fn log(store: &Store, id: Option<&str>) -> Result<Vec<Row>, String> {
    let here = std::env::current_dir().and_then(std::fs::canonicalize).map_err(|err| format!("the current directory: {err}"))?;
    let ids = match id {
        Some(id) => vec![id.to_owned()],
        None => {
            let all = store.list().map_err(|err| err.to_string())?;
            all.into_iter().filter(|it| Path::new(&it.meta.cwd) == here).map(|it| it.meta.id).collect()
        }
    };
    let mut out = Vec::new();
    for id in ids {
        let loaded = store.read(&id).map_err(|err| err.to_string())?;
        let mut seen: BTreeMap<(String, u16, Option<String>), u64> = BTreeMap::new();
        let mut session = id;
        for record in loaded.records {
            match record {
                Record::Opened(it) => session = it.id,
                Record::Finished(it) => {
                    for it in it.outcome.contacts {
                        *seen.entry((it.host, it.port, it.refused)).or_default() += it.times;
                    }
                }
                _ => {}
            }
        }
        let rows =
            seen.into_iter().map(|((host, port, refused), times)| Row { session: session.clone(), host, port, refused, times });
        out.extend(rows);
    }
    Ok(out)
}

fn as_table(rows: &[Row]) -> String {
    if rows.is_empty() {
        return "nothing was reached or refused\n".to_owned();
    }
    let line = |it: &Row| {
        let place = format!("{}:{}", it.host, it.port);
        let how = match &it.refused {
            None => "reached".to_owned(),
            Some(word) => {
                let why = Blocked::ALL.into_iter().find(|it| it.name() == word).map_or("is refused", Blocked::why);
                format!("refused: it {why}")
            }
        };
        format!("{}  {place:<40} {:>5}x  {how}\n", it.session.chars().take(13).collect::<String>(), it.times)
    };
    rows.iter().map(line).collect()
}

fn as_json(rows: &[Row]) -> String {
    let line = |it: &Row| {
        let it =
            serde_json::json!({"session": it.session, "host": it.host, "port": it.port, "refused": it.refused, "times": it.times});
        format!("{it}\n")
    };
    rows.iter().map(line).collect()
}
