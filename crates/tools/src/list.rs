use serde::Deserialize;
use sid_core::Outcome;
use sid_policy::Access;
use sid_sandbox::Confined;

use crate::{Plan, Tool, View, args, error};

/// Lists a folder.
pub(crate) struct ListDirectory;

#[derive(Deserialize)]
struct Args {
    path: String,
}

/// Entries shown at once.
const MOST: usize = 2000;

impl Tool for ListDirectory {
    fn name(&self) -> &'static str {
        "list_directory"
    }
    fn description(&self) -> &'static str {
        "Lists the entries of a folder, hidden ones included, folders first."
    }
    fn schema(&self) -> &'static str {
        r#"{"type":"object","properties":{"path":{"type":"string"}},"required":["path"],"additionalProperties":false}"#
    }
    fn for_reviewer(&self) -> bool {
        true
    }
    fn plan(&self, raw: &str, view: &View) -> Result<Plan, String> {
        let Args { path } = args::parse(raw)?;
        let access = Access::none(self.name(), "list").reads(view.path(&path));
        Ok(Plan { label: format!("list {path}"), access, action: Box::new(|place, _| Box::pin(async move { list(place) })) })
    }
}

fn list(place: &Confined<'_>) -> Outcome {
    let (path, entries) = match place.list(0) {
        Ok(it) => it,
        Err(err) => return error(err),
    };
    if entries.is_empty() {
        return Outcome::ok(format!("(empty directory: {})", path.display()));
    }
    let (folders, files): (Vec<_>, Vec<_>) = entries.iter().partition(|(_, folder)| *folder);
    let mut out = String::new();
    for (name, folder) in folders.iter().chain(&files).take(MOST) {
        out.push_str(if *folder { "[DIR]  " } else { "[FILE] " });
        out.push_str(&name.escape_debug().to_string().replace("\\'", "'").replace("\\\"", "\""));
        out.push('\n');
    }
    if entries.len() > MOST {
        out.push_str(&format!("[{MOST} of {} entries shown; use glob to narrow down]\n", entries.len()));
    }
    Outcome::ok(out)
}
