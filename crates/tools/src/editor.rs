//! The text editor of rc configurations (sid's manual, `edit`; SID-EDITOR-TOOL): one tool with four commands, on files of the
//! workspace, which is `/` to it. What a file becomes is worked out without touching it, so that a preview shows just that.
use serde::Deserialize;
use sid_core::Outcome;
use sid_policy::{Access, Kind};
use sid_sandbox::{Confined, Expect};

use crate::{
    Known, Plan, Tool, View, args, diff, edit, error, knowing, rc,
    text::{All, Miss, Text, line_end_at, replace, with_line_ends},
    walk,
};

/// The editor, under the name that models were trained on.
#[derive(Debug, Clone, Copy)]
pub struct TextEditor;

/// A command, understood.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Command {
    View(Option<(i64, i64)>),
    Create(String),
    Replace { old: String, new: String },
    Insert { line: i64, text: String },
}

#[derive(Deserialize)]
struct Args {
    command: String,
    path: String,
    view_range: Option<Vec<i64>>,
    file_text: Option<String>,
    old_str: Option<String>,
    new_str: Option<String>,
    insert_line: Option<i64>,
    insert_text: Option<String>,
}

/// Larger files are not edited; a command does that better.
const LARGEST: u64 = 64 << 20;
/// Bytes shown at most.
const SHOWN: usize = 50_000;
/// Lines shown around a change.
const AROUND: usize = 4;
/// How deep a folder is shown, and how many entries.
const DEPTH: usize = 2;
const ENTRIES: usize = 1000;

impl Tool for TextEditor {
    fn name(&self) -> &'static str {
        "str_replace_based_edit_tool"
    }
    fn description(&self) -> &'static str {
        "Views and edits text files of the workspace; / is the workspace. view shows a file with line numbers (view_range: first and last line, -1 for \
         the end) or the entries of a folder, two levels deep. create makes a new file with file_text. str_replace replaces old_str, which \
         must be in the file exactly once, by new_str. insert puts insert_text after line insert_line (0: before the first). Encoding, line \
         ends and everything else of a file stay as they are."
    }
    fn schema(&self) -> &'static str {
        r#"{"type":"object","properties":{"command":{"type":"string","enum":["view","create","str_replace","insert"]},"path":{"type":"string"},"view_range":{"type":"array","items":{"type":"integer"}},"file_text":{"type":"string"},"old_str":{"type":"string"},"new_str":{"type":"string"},"insert_line":{"type":"integer"},"insert_text":{"type":"string"}},"required":["command","path"],"additionalProperties":false}"#
    }
    fn preview(&self, raw: &str, view: &View) -> Option<Plan> {
        let args: Args = args::parse(raw).ok()?;
        let shown = args.path.clone();
        let path = rc::inside(&shown, view).ok()?;
        let command = Command::of(args).ok().filter(|it| !matches!(it, Command::View(_)))?;
        let look = move |place: &Confined<'_>| preview(place, &command, &shown).map_or_else(error, Outcome::ok);
        let access = Access::none("preview", "preview").staying().reads(path);
        Some(Plan { label: "preview".to_owned(), access, action: Box::new(move |place, _| Box::pin(async move { look(place) })) })
    }
    fn plan(&self, raw: &str, view: &View) -> Result<Plan, String> {
        let args: Args = args::parse(raw)?;
        let shown = args.path.clone();
        let path = rc::inside(&shown, view)?;
        let command = Command::of(args)?;
        let label = format!("{} {shown}", command.name());
        let access = Access::none(self.name(), "edit").staying();
        let looks = matches!(command, Command::View(_));
        if !looks && rc::skill(&shown, view).is_some() {
            return Err("skills can be viewed and not changed".to_owned());
        }
        let access = if looks { access.reads(path) } else { access.writes(path) };
        Ok(Plan {
            label,
            access,
            action: Box::new(move |place, known| {
                Box::pin(async move { run(place, &command, &shown, &known).unwrap_or_else(error) })
            }),
        })
    }
}

/// What a call would do to a file, for a person to look at before.
fn preview(place: &Confined<'_>, command: &Command, shown: &str) -> Result<String, String> {
    let (bytes, file, _) = current(place, command, shown)?;
    let (after, line) = command.applied(&file.text, shown)?;
    let stored = stored(&file, &after, shown)?;
    let name = shown.trim_start_matches('/');
    let (old, new) = (bytes.len(), stored.len());
    let more = i128::try_from(new).unwrap_or(0) - i128::try_from(old).unwrap_or(0);
    let range = command.range(line).map(|it| format!("line range: {it}\n")).unwrap_or_default();
    let operation = command.name();
    let head = format!("Edit preview\nfile: {name}\noperation: {operation}\n{range}file bytes: {old} -> {new} ({more:+})\n\n");
    Ok(head + &diff::unified(name, &file.text, &after))
}

/// Lines by number, both ends included. `None`: there are none.
fn lines(first: usize, count: usize) -> Option<String> {
    match count {
        0 => None,
        1 => Some(first.to_string()),
        n => Some(format!("{first}-{}", first + n - 1)),
    }
}

impl Command {
    fn of(it: Args) -> Result<Self, String> {
        let needs = |name: &str, command: &str| format!("`{command}` needs the parameter `{name}`");
        Ok(match it.command.as_str() {
            "view" => Self::View(match it.view_range.as_deref() {
                None => None,
                Some([from, to]) => Some((*from, *to)),
                Some(_) => return Err("view_range must be two whole numbers, the first and the last line".to_owned()),
            }),
            "create" => Self::Create(it.file_text.ok_or_else(|| needs("file_text", "create"))?),
            "str_replace" => Self::Replace {
                old: it.old_str.ok_or_else(|| needs("old_str", "str_replace"))?,
                new: it.new_str.unwrap_or_default(),
            },
            "insert" => Self::Insert {
                line: it.insert_line.ok_or_else(|| needs("insert_line", "insert"))?,
                text: it.insert_text.or(it.new_str).ok_or_else(|| needs("insert_text", "insert"))?,
            },
            other => {
                let other = sid_core::one_line(other, 40);
                return Err(format!("there is no command `{other}`; there are view, create, str_replace and insert"));
            }
        })
    }

    /// Which lines it is about, for a change that begins in this one.
    fn range(&self, line: usize) -> Option<String> {
        let (old, new) = match self {
            Self::View(_) => (0, 0),
            Self::Create(text) => (0, text.lines().count()),
            Self::Insert { text, .. } => (0, text.split('\n').count()),
            Self::Replace { old, new } => (old.lines().count(), new.lines().count()),
        };
        match (lines(line.max(1), old), lines(line.max(1), new)) {
            (Some(old), Some(new)) => Some(format!("old {old} -> new {new}")),
            (None, Some(new)) => Some(format!("new {new} added")),
            (Some(old), None) => Some(format!("old {old} removed")),
            (None, None) => None,
        }
    }

    fn name(&self) -> &'static str {
        match self {
            Self::View(_) => "view",
            Self::Create(_) => "create",
            Self::Replace { .. } => "str_replace",
            Self::Insert { .. } => "insert",
        }
    }

    /// What the file's text becomes, and the line where the change begins.
    fn applied(&self, text: &str, shown: &str) -> Result<(String, usize), String> {
        match self {
            Self::View(_) => Ok((text.to_owned(), 1)),
            Self::Create(it) => Ok((it.clone(), 1)),
            Self::Replace { old, new } => {
                if old.is_empty() {
                    return Err("old_str is empty; name the text to replace. Nothing was written.".to_owned());
                }
                let (after, _) = replace(text, old, new, All::OnlyOne).map_err(|miss| match miss {
                    Miss::NotFound(hint) => {
                        let said = format!("old_str is not in {shown}. {}", hint.unwrap_or_default());
                        format!("{} Nothing was written.", said.trim_end())
                    }
                    Miss::Ambiguous(n) => {
                        format!("old_str is in {shown} {n} times; include more of the lines around it. Nothing was written.")
                    }
                })?;
                let same = text.bytes().zip(after.bytes()).take_while(|(a, b)| a == b).count();
                Ok((after.clone(), 1 + after.as_bytes()[..same].iter().filter(|it| **it == b'\n').count()))
            }
            Self::Insert { line, text: added } => inserted(text, *line, added),
        }
    }
}

/// `added` as lines of its own after the n-th; the last line of the file keeps the end it has.
fn inserted(text: &str, line: i64, added: &str) -> Result<(String, usize), String> {
    let lines = text.lines().count();
    let Some(n) = usize::try_from(line).ok().filter(|it| *it <= lines) else {
        return Err(format!("insert_line is {line}; it must be from 0 to {lines}, the number of lines. Nothing was written."));
    };
    let at = match n {
        0 => 0,
        n => text.match_indices('\n').nth(n - 1).map_or(text.len(), |(at, _)| at + 1),
    };
    // As the line before ends.
    let before = text[..at.saturating_sub(1)].rfind('\n').map_or(0, |it| it + 1);
    let end = line_end_at(text, before);
    let added = with_line_ends(added, end);
    let open = at == text.len() && !text.is_empty() && !text.ends_with('\n');
    let (before, after) = if open { (end, "") } else { ("", end) };
    Ok((format!("{}{before}{added}{after}{}", &text[..at], &text[at..]), n + 1))
}

fn run(place: &Confined<'_>, command: &Command, shown: &str, known: &Known) -> Result<Outcome, String> {
    if let Command::View(range) = command {
        return look(place, *range, shown);
    }
    let (bytes, file, expect) = current(place, command, shown)?;
    let path = place.path(0)?.0;
    if let Expect::Stamp(now) = &expect
        && known.get(&*path.to_string_lossy()).is_some_and(|it| it != now)
    {
        return Err(edit::changed(&path));
    }
    let (after, line) = command.applied(&file.text, shown)?;
    let stored = stored(&file, &after, shown)?;
    if expect != Expect::Absent && stored == bytes {
        return Err("old_str and new_str are the same; nothing was written.".to_owned());
    }
    let (path, stamp) = place.write(0, &stored, &expect).map_err(|it| it.to_string())?;
    let said = match command {
        Command::Create(_) => format!("Created {shown} ({} bytes).", stored.len()),
        _ => format!("Edited {shown}. Around the change it is now:\n{}", around(&after, line, lines_of(command))),
    };
    Ok(knowing(said, &path, stamp))
}

/// What is there now: bytes, text, and what has to be there when it is written.
fn current(place: &Confined<'_>, command: &Command, shown: &str) -> Result<(Vec<u8>, Text, Expect), String> {
    match (command, place.path(0)?.1) {
        (Command::Create(_), Kind::Missing) => {
            let nothing = Text::decode(b"").map_err(|_| "no text".to_owned())?;
            Ok((Vec::new(), nothing, Expect::Absent))
        }
        (Command::Create(_), _) => Err(format!("{shown} exists already; create makes new files only. Nothing was written.")),
        (_, Kind::Missing) => Err(format!("{shown} does not exist.")),
        (_, Kind::Folder) => Err(format!("{shown} is a folder; only files can be edited.")),
        _ => {
            let (_, bytes, now) = place.read_all(0, LARGEST).map_err(|it| it.to_string())?;
            let text = Text::decode(&bytes)
                .map_err(|_| format!("{shown} is not text that could be stored again byte for byte. Use a command."))?;
            Ok((bytes, text, Expect::Stamp(now)))
        }
    }
}

fn stored(file: &Text, after: &str, shown: &str) -> Result<Vec<u8>, String> {
    file.encode(after).map_err(|lost| {
        let encoding = file.unusual().unwrap_or("its encoding");
        format!("{shown} is stored as {encoding}, which has no '{lost}'. Nothing was written.")
    })
}

fn lines_of(command: &Command) -> usize {
    match command {
        Command::Replace { new, .. } => new.lines().count(),
        Command::Insert { text, .. } => text.split('\n').count(),
        _ => 0,
    }
}

fn around(text: &str, line: usize, count: usize) -> String {
    let first = line.saturating_sub(AROUND).max(1);
    numbered(text, first, (line + count + AROUND).saturating_sub(1))
}

/// Lines with their numbers, both ends included.
pub(crate) fn numbered(text: &str, first: usize, last: usize) -> String {
    let mut out = String::new();
    for (n, line) in text.lines().enumerate().skip(first - 1).take((last + 1).saturating_sub(first)) {
        out.push_str(&format!("{:>6}\t{line}\n", n + 1));
        if out.len() > SHOWN {
            let cut = (0..=SHOWN).rev().find(|it| out.is_char_boundary(*it)).unwrap_or(0);
            out.truncate(cut);
            out.push_str(&format!("\n[cut at {SHOWN} bytes, in line {}]\n", n + 1));
            break;
        }
    }
    out
}

fn look(place: &Confined<'_>, range: Option<(i64, i64)>, shown: &str) -> Result<Outcome, String> {
    let (path, kind) = place.path(0)?;
    match kind {
        Kind::Missing => return Err(format!("{shown} does not exist.")),
        Kind::Folder if range.is_some() => return Err("view_range is for files, and this is a folder.".to_owned()),
        Kind::Folder => {
            let all = walk::below(&path, DEPTH, place.hider());
            let mut out = format!("{shown}, two levels deep, without hidden entries:\n");
            all.iter().take(ENTRIES).for_each(|it| out.push_str(&format!("{}\n", it.display())));
            if all.len() > ENTRIES {
                out.push_str(&format!("[showing {ENTRIES} of {} entries]\n", all.len()));
            }
            return Ok(Outcome::ok(out));
        }
        Kind::File | Kind::Special => {}
    }
    let (path, bytes, stamp) = place.read_all(0, LARGEST).map_err(|it| it.to_string())?;
    let file = Text::decode(&bytes).map_err(|_| format!("{shown} is not text; use a command to inspect it."))?;
    let lines = file.text.lines().count().max(1);
    let (from, to) = match range {
        None => (1, lines),
        Some((from, to)) => bounds(from, to, lines)?,
    };
    let text = numbered(&file.text, from, to);
    Ok(knowing(if text.is_empty() { format!("{shown} is empty.") } else { text }, &path, stamp))
}

fn bounds(from: i64, to: i64, lines: usize) -> Result<(usize, usize), String> {
    let wrong = |why: &str| format!("view_range [{from}, {to}] {why}; the file has {lines} lines.");
    let first = usize::try_from(from).ok().filter(|it| (1..=lines).contains(it)).ok_or_else(|| wrong("begins outside the file"))?;
    let last = if to == -1 { lines } else { usize::try_from(to).map_err(|_| wrong("ends before it begins"))? };
    if last < first {
        return Err(wrong("ends before it begins"));
    }
    if last > lines { Err(wrong("ends outside the file")) } else { Ok((first, last)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_put_in_without_touching_the_ends_of_others() {
        let at = |text: &str, n, new: &str| inserted(text, n, new).map(|it| it.0);
        assert_eq!(at("one\ntwo\n", 0, "top"), Ok("top\none\ntwo\n".to_owned()));
        assert_eq!(at("one\ntwo\n", 2, "end"), Ok("one\ntwo\nend\n".to_owned()));
        assert_eq!(at("x", 1, "y"), Ok("x\ny".to_owned()));
        assert_eq!(at("", 0, "y"), Ok("y\n".to_owned()));
        assert_eq!(at("a\r\nb\r\n", 1, "p\nq"), Ok("a\r\np\r\nq\r\nb\r\n".to_owned()));
        for n in [-1, 3] {
            assert!(at("one\ntwo\n", n, "x").unwrap_err().contains("from 0 to 2"));
        }
    }
}
