use std::path::Path;

use serde::Deserialize;
use sid_core::Outcome;
use sid_policy::Access;
use sid_sandbox::{Confined, Expect};

use crate::{
    Known, Plan, Tool, View, args, error, knowing,
    text::{All, Miss, Text, replace},
};

/// Replaces a piece of a file.
pub(crate) struct EditFile;
/// Replaces several pieces of a file, all or none.
pub(crate) struct MultiEdit;

#[derive(Deserialize)]
struct Edit {
    old_text: String,
    new_text: String,
    #[serde(default)]
    replace_all: bool,
}

#[derive(Deserialize)]
struct One {
    path: String,
    #[serde(flatten)]
    edit: Edit,
}

#[derive(Deserialize)]
struct Many {
    path: String,
    edits: Vec<Edit>,
}

/// Larger files are not edited; a command does that better.
const LARGEST: u64 = 64 << 20;

impl Tool for EditFile {
    fn name(&self) -> &'static str {
        "edit_file"
    }
    fn description(&self) -> &'static str {
        "Replaces old_text by new_text in a file. old_text must be in the file exactly, and once unless replace_all is set; include enough \
         lines around to make it unique. Encoding, line ends and everything else of the file stay as they are."
    }
    fn schema(&self) -> &'static str {
        r#"{"type":"object","properties":{"path":{"type":"string"},"old_text":{"type":"string"},"new_text":{"type":"string"},"replace_all":{"type":"boolean"}},"required":["path","old_text","new_text"],"additionalProperties":false}"#
    }
    fn plan(&self, raw: &str, view: &View) -> Result<Plan, String> {
        let One { path, edit } = args::parse(raw)?;
        Ok(plan(self.name(), &path, vec![edit], view))
    }
}

impl Tool for MultiEdit {
    fn name(&self) -> &'static str {
        "multi_edit"
    }
    fn description(&self) -> &'static str {
        "Applies several replacements to one file, one after another, as edit_file does. All are applied or none."
    }
    fn schema(&self) -> &'static str {
        r#"{"type":"object","properties":{"path":{"type":"string"},"edits":{"type":"array","items":{"type":"object","properties":{"old_text":{"type":"string"},"new_text":{"type":"string"},"replace_all":{"type":"boolean"}},"required":["old_text","new_text"],"additionalProperties":false}}},"required":["path","edits"],"additionalProperties":false}"#
    }
    fn plan(&self, raw: &str, view: &View) -> Result<Plan, String> {
        let Many { path, edits } = args::parse(raw)?;
        if edits.is_empty() {
            return Err("edits is empty; nothing was written".to_owned());
        }
        Ok(plan(self.name(), &path, edits, view))
    }
}

fn plan(tool: &str, path: &str, edits: Vec<Edit>, view: &View) -> Plan {
    let access = Access::none(tool, "edit").writes(view.path(path));
    let action = move |place: &Confined<'_>, known: Known| apply(place, &edits, &known).unwrap_or_else(error);
    let label = format!("edit {path}");
    Plan { label, access, action: Box::new(move |place, known| Box::pin(async move { action(place, known) })) }
}

pub(crate) fn changed(path: &Path) -> String {
    format!("{} changed since you read it. Nothing was done; read it again, then decide.", path.display())
}

fn apply(place: &Confined<'_>, edits: &[Edit], seen: &Known) -> Result<Outcome, String> {
    let (path, bytes, now) = place.read_all(0, LARGEST).map_err(|it| it.to_string())?;
    let shown = path.display();
    let known = seen.get(&*path.to_string_lossy());
    if known.is_some_and(|it| *it != now) {
        return Err(changed(&path));
    }
    let file = Text::decode(&bytes).map_err(|_| {
        format!("{shown} is not text that could be stored again byte for byte; nothing was written. Use a command.")
    })?;
    let mut text = file.text.clone();
    let mut count = 0;
    for (n, edit) in edits.iter().enumerate() {
        let nth = if edits.len() > 1 { format!("edit #{} of {shown}: ", n + 1) } else { format!("{shown}: ") };
        let (after, replaced) = one(&text, edit).map_err(|why| format!("{nth}{why} Nothing was written."))?;
        text = after;
        count += replaced;
    }
    let after = file.encode(&text).map_err(|lost| {
        let encoding = file.unusual().unwrap_or("its encoding");
        format!("{shown} is stored as {encoding}, which has no '{lost}'. Nothing was written.")
    })?;
    let (_, stamp) = place.write(0, &after, &Expect::Stamp(now)).map_err(|it| it.to_string())?;
    let said = match edits.len() {
        1 if count > 1 => format!("Edited file: {shown} ({count} places, {} bytes written)", after.len()),
        1 => format!("Edited file: {shown} ({} bytes written)", after.len()),
        n => format!("Applied {n} edits to {shown} ({} bytes written)", after.len()),
    };
    Ok(knowing(said, &path, stamp))
}

fn one(text: &str, edit: &Edit) -> Result<(String, usize), String> {
    if edit.old_text.is_empty() {
        return Err("old_text is empty; name the text to replace, or use create_file for a new file.".to_owned());
    }
    if edit.old_text == edit.new_text {
        return Err("old_text and new_text are the same.".to_owned());
    }
    let all = if edit.replace_all { All::Every } else { All::OnlyOne };
    replace(text, &edit.old_text, &edit.new_text, all).map_err(|miss| match miss {
        Miss::NotFound(hint) => format!("old_text was not found. {}", hint.unwrap_or_default()).trim_end().to_owned(),
        Miss::Ambiguous(n) => {
            format!("old_text is there {n} times; include more of the lines around it, or set replace_all to change all of them.")
        }
    })
}
