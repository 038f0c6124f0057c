//! `sid sessions`: list, show, search, export, delete, prune.
use std::{
    io::{IsTerminal as _, Write as _},
    path::{Path, PathBuf},
    process::ExitCode,
    time::{SystemTime, UNIX_EPOCH},
};

use sid_journal::{Listed, Store};

use crate::{
    args::{Form, SessionsCommand},
    export,
    paths::places,
    say,
};

pub(crate) fn sessions(command: Option<SessionsCommand>) -> ExitCode {
    let Some(root) = places().sessions else {
        say("sid: there is no place for sessions: HOME is not set; set SID_SESSIONS to a folder");
        return ExitCode::FAILURE;
    };
    let store = Store::new(root);
    let done = match command.unwrap_or(SessionsCommand::List { cwd: None, json: false }) {
        SessionsCommand::List { cwd, json } => list(&store, cwd.as_deref(), if json { Shape::Json } else { Shape::Table }),
        SessionsCommand::Show { id } => store.read(&id).map(|it| export::show(&it.records)),
        SessionsCommand::Search { text } => search(&store, &text),
        SessionsCommand::Export { id, form } => store.read(&id).map(|it| match form {
            Form::Markdown => export::markdown(&it.records),
            Form::Json => export::json(&it.records),
            Form::Replay => export::replay(&it.records),
        }),
        SessionsCommand::Delete { id } => store.delete(&id).map(|it| format!("deleted {}\n", it.display())),
        SessionsCommand::Prune { older_than, dry_run } => {
            prune(&store, older_than, if dry_run { Prune::Tell } else { Prune::Delete })
        }
    };
    match done {
        Ok(text) => {
            let mut out = std::io::stdout();
            let text = if out.is_terminal() { sid_core::inert(&text) } else { text.into() };
            let _closed = out.write_all(text.as_bytes());
            ExitCode::SUCCESS
        }
        Err(err) => {
            say(&format!("sid: {err}"));
            ExitCode::FAILURE
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Shape {
    Table,
    Json,
}

fn list(store: &Store, cwd: Option<&Path>, shape: Shape) -> Result<String, sid_journal::Error> {
    let wanted = cwd.map(|it| std::fs::canonicalize(it).unwrap_or_else(|_| PathBuf::from(it)));
    let mut rows = store.list()?;
    rows.retain(|it| wanted.as_ref().is_none_or(|wanted| Path::new(&it.meta.cwd) == wanted));
    if shape == Shape::Json {
        let lines = rows.iter().filter_map(|it| serde_json::to_string(it).ok());
        return Ok(lines.fold(String::new(), |out, line| out + &line + "\n"));
    }
    if rows.is_empty() {
        return Ok("no sessions\n".to_owned());
    }
    let now = now();
    let ids: Vec<&str> = rows.iter().map(|it| it.meta.id.as_str()).collect();
    let length = prefix_length(&ids);
    Ok(rows.iter().map(|it| row(it, length, now)).collect())
}

/// How much of each id tells all of them apart: at least 13 characters, which are the time of a UUIDv7.
fn prefix_length(ids: &[&str]) -> usize {
    let mut sorted = ids.to_vec();
    sorted.sort_unstable();
    let shared = |it: &[&str]| it[0].bytes().zip(it[1].bytes()).take_while(|(a, b)| a == b).count();
    sorted.windows(2).map(|it| shared(it) + 1).max().unwrap_or(0).max(13)
}

fn row(it: &Listed, length: usize, now: u64) -> String {
    let (age, size) = (age(now.saturating_sub(it.updated_at)), size(it.bytes));
    let id: String = it.meta.id.chars().take(length).collect();
    format!(
        "{id:length$}  {age:>5}  {size:>7}  {}  {}\n",
        sid_core::one_line(&it.meta.cwd, 40),
        sid_core::one_line(&it.meta.title, 80)
    )
}

fn age(millis: u64) -> String {
    let seconds = millis / 1000;
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3600 => format!("{}m", seconds / 60),
        3600..86_400 => format!("{}h", seconds / 3600),
        _ => format!("{}d", seconds / 86_400),
    }
}

fn size(bytes: u64) -> String {
    match bytes {
        0..1024 => format!("{bytes} B"),
        1024..1_048_576 => format!("{} kB", bytes / 1024),
        _ => format!("{} MB", bytes / 1_048_576),
    }
}

fn search(store: &Store, text: &str) -> Result<String, sid_journal::Error> {
    let wanted = text.to_lowercase();
    let mut out = String::new();
    for row in store.list()? {
        let Ok(loaded) = store.read(&row.meta.id) else { continue };
        let shown = export::markdown(&loaded.records);
        let hits = shown.lines().filter(|it| it.to_lowercase().contains(&wanted)).take(3);
        for line in hits {
            out.push_str(&format!("{}  {}\n", row.meta.id, sid_core::one_line(line, 120)));
        }
    }
    Ok(if out.is_empty() { "nothing found\n".to_owned() } else { out })
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Prune {
    Tell,
    Delete,
}

fn prune(store: &Store, days: u64, how: Prune) -> Result<String, sid_journal::Error> {
    let limit = now().saturating_sub(days.saturating_mul(86_400_000));
    let mut out = String::new();
    let mut count = 0;
    for row in store.list()?.into_iter().filter(|it| it.updated_at < limit) {
        if how == Prune::Delete
            && let Err(err) = store.delete(&row.meta.id)
        {
            out.push_str(&format!("kept {}: {err}\n", row.meta.id));
            continue;
        }
        count += 1;
        out.push_str(&format!("{}  {}\n", row.meta.id, row.meta.title));
    }
    let verb = if how == Prune::Delete { "deleted" } else { "would be deleted" };
    Ok(format!("{out}{count} {verb}\n"))
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |it| u64::try_from(it.as_millis()).unwrap_or(u64::MAX))
}
