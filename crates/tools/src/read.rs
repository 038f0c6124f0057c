use std::io::{BufRead as _, BufReader, Read as _};

use serde::Deserialize;
use sid_core::Outcome;
use sid_policy::Access;
use sid_sandbox::{Confined, FileError, Found, stamp, stamp_of};

use crate::{Plan, Tool, View, args, error, knowing, text::Text};

/// Reads a text file, or lines of it.
pub(crate) struct ReadFile;

#[derive(Deserialize)]
struct Args {
    path: String,
    start_line: Option<i64>,
    end_line: Option<i64>,
}

/// Characters shown at once without a range, bytes with one.
const SHOWN: usize = 10_000;
const RANGE: usize = 50_000;
/// Larger files are never held whole.
const WHOLE: u64 = 8 << 20;

impl Tool for ReadFile {
    fn name(&self) -> &'static str {
        "read_file"
    }
    fn description(&self) -> &'static str {
        "Reads a text file. Without a range at most 10000 characters are shown, and a note says how to go on. Line numbers start at 1 \
         and are inclusive."
    }
    fn schema(&self) -> &'static str {
        r#"{"type":"object","properties":{"path":{"type":"string","description":"absolute, or relative to the working directory"},"start_line":{"type":"integer"},"end_line":{"type":"integer"}},"required":["path"],"additionalProperties":false}"#
    }
    fn for_reviewer(&self) -> bool {
        true
    }
    fn plan(&self, raw: &str, view: &View) -> Result<Plan, String> {
        let Args { path, start_line, end_line } = args::parse(raw)?;
        let range = match (start_line, end_line) {
            (None, None) => None,
            (start, end) => {
                let start = start.unwrap_or(1).max(1);
                let end = end.unwrap_or(i64::MAX);
                if end < start {
                    return Err(format!("end_line {end} is before start_line {start}"));
                }
                Some((usize::try_from(start).unwrap_or(1), usize::try_from(end).unwrap_or(usize::MAX)))
            }
        };
        let access = Access::none(self.name(), "read").reads(view.path(&path));
        let action = move |place: &Confined<'_>| read(place, range).unwrap_or_else(error);
        Ok(Plan { label: format!("read {path}"), access, action: Box::new(move |place, _| Box::pin(async move { action(place) })) })
    }
}

fn read(place: &Confined<'_>, range: Option<(usize, usize)>) -> Result<Outcome, FileError> {
    let found = place.open(0)?;
    if found.len > WHOLE {
        return large(&found, range);
    }
    let mut bytes = Vec::new();
    let fail = |err: std::io::Error| FileError(format!("{}: {err}.", found.path.display()));
    (&found.file).take(WHOLE + 1).read_to_end(&mut bytes).map_err(fail)?;
    let Ok(decoded) = Text::decode(&bytes) else {
        return Err(FileError(format!(
            "{} is not text ({}, {} bytes); it can't be shown. Use a command to inspect it.",
            found.path.display(),
            kind_of(&bytes),
            bytes.len()
        )));
    };
    let shown = found.path.display();
    let note = decoded.unusual().map_or(String::new(), |it| format!("[stored as {it}]\n"));
    let text = match range {
        None if decoded.text.len() <= SHOWN || decoded.text.chars().count() <= SHOWN => decoded.text,
        None => head(&decoded.text),
        Some((start, end)) => {
            let lines: Vec<&str> = decoded.text.lines().collect();
            if start > lines.len() {
                return Err(FileError(format!("{shown} has only {} lines; start_line {start} is past its end.", lines.len())));
            }
            let end = end.min(lines.len());
            let (body, last) = bounded(lines[start - 1..end].iter().copied(), start);
            let more =
                if last < end { format!("\n[cut at {RANGE} bytes; continue with start_line {}]", last + 1) } else { String::new() };
            format!("Lines {start}-{last} of {} in {shown}:\n{body}{more}", lines.len())
        }
    };
    Ok(knowing(format!("{note}{text}"), &found.path, stamp(&bytes)))
}

/// The first characters, cut after a whole line where there is one.
fn head(text: &str) -> String {
    let (total, lines) = (text.chars().count(), text.lines().count());
    let end = text.char_indices().nth(SHOWN).map_or(text.len(), |(at, _)| at);
    let cut = text[..end].rfind('\n').map_or(end, |it| it + 1);
    let last = text[..cut].lines().count();
    let more = if text[..cut].ends_with('\n') {
        format!("[truncated: lines 1-{last} of {lines}, {total} characters in all; continue with start_line {}]", last + 1)
    } else {
        format!("\n[truncated: showing {SHOWN} of {total} characters of one long line; use a command for the rest]")
    };
    format!("{}{more}", &text[..cut])
}

/// Lines up to the byte limit, and the number of the last one.
fn bounded<'a>(lines: impl Iterator<Item = &'a str>, first: usize) -> (String, usize) {
    let (mut out, mut last) = (String::new(), first);
    for (n, line) in lines.enumerate() {
        if n > 0 && out.len() + line.len() > RANGE {
            break;
        }
        if n > 0 {
            out.push('\n');
        }
        let cut = (0..=RANGE.min(line.len())).rev().find(|it| line.is_char_boundary(*it)).unwrap_or(0);
        out.push_str(&line[..cut]);
        last = first + n;
    }
    (out, last)
}

/// A file too large to hold: line by line, each bounded, nothing kept but what is shown.
fn large(found: &Found, range: Option<(usize, usize)>) -> Result<Outcome, FileError> {
    let fail = |err: std::io::Error| FileError(format!("{}: {err}.", found.path.display()));
    let (start, end) = range.unwrap_or((1, usize::MAX));
    let limit = if range.is_some() { RANGE } else { SHOWN };
    let mut reader = BufReader::with_capacity(1 << 20, &found.file);
    let (mut out, mut number) = (Vec::new(), 1_usize);
    let mut skipped_nul = false;
    'file: while number <= end && out.len() < limit {
        let chunk = reader.fill_buf().map_err(fail)?;
        if chunk.is_empty() {
            break;
        }
        let mut used = 0;
        for piece in chunk.split_inclusive(|it| *it == b'\n') {
            used += piece.len();
            if number >= start {
                skipped_nul |= piece.contains(&0);
                out.extend_from_slice(&piece[..piece.len().min(limit)]);
            }
            number += usize::from(piece.ends_with(b"\n"));
            if number > end || out.len() >= limit {
                reader.consume(used);
                break 'file;
            }
        }
        reader.consume(used);
    }
    if skipped_nul {
        return Err(FileError(format!("{} is not text ({} bytes); use a command to inspect it.", found.path.display(), found.len)));
    }
    if out.is_empty() {
        return Err(FileError(format!("{} has fewer than {start} lines.", found.path.display())));
    }
    out.truncate(limit);
    let text = String::from_utf8_lossy(&out);
    let last = start + text.lines().count() - 1;
    let stamp = stamp_of(&found.file).map_err(fail)?;
    let note = format!("[lines {start}-{last} of a file of {} bytes; ask for a range to see others]", found.len);
    Ok(knowing(format!("{text}\n{note}"), &found.path, stamp))
}

/// What a binary file is, by its first bytes.
fn kind_of(bytes: &[u8]) -> &'static str {
    let kinds: [(&[u8], &str); 7] = [
        (b"\x89PNG", "a PNG image"),
        (b"\xFF\xD8\xFF", "a JPEG image"),
        (b"GIF8", "a GIF image"),
        (b"%PDF", "a PDF document"),
        (b"\x7FELF", "an ELF program"),
        (b"PK\x03\x04", "a ZIP archive"),
        (b"\x1F\x8B", "gzip data"),
    ];
    kinds.iter().find(|(magic, _)| bytes.starts_with(magic)).map_or("binary data", |(_, name)| name)
}
