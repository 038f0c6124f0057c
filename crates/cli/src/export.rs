//! A session in other forms.
use std::fmt::Write as _;

use sid_core::{Part, Record, Source, Status, one_line, visible};

/// For people.
pub(crate) fn markdown(records: &[Record]) -> String {
    let mut out = String::new();
    for record in records {
        let done = match record {
            Record::Opened(it) => writeln!(out, "<!-- session {}, {} in {}, mode {} -->\n", it.id, it.model, it.cwd, it.mode),
            Record::User(it) if it.from == Source::Person => writeln!(out, "## User\n\n{}\n", it.text.trim_end()),
            Record::User(it) => writeln!(out, "## sid\n\n{}\n", it.text.trim_end()),
            Record::Assistant(it) => {
                let mut done = write!(out, "## Assistant{}\n\n", if it.partial { " (broken off)" } else { "" });
                for part in &it.parts {
                    done = match part {
                        Part::Text(text) => writeln!(out, "{}\n", visible(text)),
                        Part::Call(call) => writeln!(out, "{}\n", fenced(&format!("{} {}", call.tool, call.args), "json")),
                        Part::Opaque(_) => Ok(()),
                    };
                }
                done
            }
            Record::Reviewed(it) => writeln!(out, "*Review: {}{}: {}*\n", it.outcome, risk(it), it.rationale),
            Record::Compacted(it) => {
                writeln!(out, "*The conversation was replaced by this summary:*\n\n{}\n", it.summary.trim_end())
            }
            Record::Started(_) => Ok(()),
            Record::Finished(it) => {
                let status = if it.outcome.status == Status::Ok { "" } else { " (not ok)" };
                writeln!(out, "### Result{status}\n\n{}\n", fenced(it.outcome.text.trim_end(), ""))
            }
            Record::Ended { reason, error, .. } => match error {
                Some(error) => writeln!(out, "*The turn ended: {reason}: {error}*\n"),
                None => writeln!(out, "*The turn ended: {reason}*\n"),
            },
        };
        // Writing to a string does not fail.
        debug_assert!(done.is_ok());
    }
    out
}

fn risk(it: &sid_core::ReviewedCall) -> String {
    if it.risk.is_empty() { String::new() } else { format!(" (risk {}, authorization {})", it.risk, it.authorization) }
}

/// A code block whose fence is longer than any inside.
fn fenced(text: &str, language: &str) -> String {
    let longest = text.split(|it| it != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest.max(2) + 1);
    format!("{fence}{language}\n{text}\n{fence}")
}

/// All records, one JSON object a line.
pub(crate) fn json(records: &[Record]) -> String {
    lines(records.iter())
}

/// What `--model replay:FILE` needs: the prompts and the answers.
pub(crate) fn replay(records: &[Record]) -> String {
    lines(records.iter().filter(|it| match it {
        Record::User(_) => true,
        Record::Assistant(it) => !it.partial,
        _ => false,
    }))
}

fn lines<'a>(records: impl Iterator<Item = &'a Record>) -> String {
    records.filter_map(|it| serde_json::to_string(it).ok()).fold(String::new(), |out, line| out + &line + "\n")
}

/// One line a record, for a terminal.
pub(crate) fn show(records: &[Record]) -> String {
    let mut out = String::new();
    for record in records {
        let line = match record {
            Record::Opened(it) => format!("opened   {} · {} · {}", it.cwd, it.model, it.mode),
            Record::User(it) => {
                format!("{:<8} {}", if it.from == Source::Person { "user" } else { "sid" }, one_line(&it.text, 200))
            }
            Record::Assistant(it) => {
                let calls: Vec<String> = it.calls().map(|it| format!("→ {}({})", it.tool, one_line(&it.args, 100))).collect();
                let text = one_line(&visible(&it.text()), 200);
                format!(
                    "model    {}",
                    [vec![text], calls].concat().into_iter().filter(|it| !it.is_empty()).collect::<Vec<_>>().join("\n         ")
                )
            }
            Record::Reviewed(it) => format!("review   {}{}: {}", it.outcome, risk(it), one_line(&it.rationale, 200)),
            Record::Compacted(it) => format!("compact  {}", one_line(&it.summary, 200)),
            Record::Started(it) => format!("started  {} [{}]", one_line(&it.label, 120), it.bounds),
            Record::Finished(it) => {
                format!("{:<8} {}", format!("{:?}", it.outcome.status).to_lowercase(), one_line(&it.outcome.text, 160))
            }
            Record::Ended { reason, error, .. } => {
                format!("ended    {reason}{}", error.as_ref().map_or(String::new(), |it| format!(": {}", one_line(it, 200))))
            }
        };
        out.push_str(&line);
        out.push('\n');
    }
    out
}
