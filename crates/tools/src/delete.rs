use serde::Deserialize;
use sid_core::Outcome;
use sid_policy::{Access, Kind};
use sid_sandbox::stamp_of;

use crate::{Plan, Tool, View, args, error, knowing};

/// Removes a file or an empty folder.
pub(crate) struct DeleteFile;

#[derive(Deserialize)]
struct Args {
    path: String,
}

impl Tool for DeleteFile {
    fn name(&self) -> &'static str {
        "delete_file"
    }
    fn description(&self) -> &'static str {
        "Deletes a file, a symbolic link (not what it points to) or an empty folder."
    }
    fn schema(&self) -> &'static str {
        r#"{"type":"object","properties":{"path":{"type":"string"}},"required":["path"],"additionalProperties":false}"#
    }
    fn plan(&self, raw: &str, view: &View) -> Result<Plan, String> {
        let Args { path } = args::parse(raw)?;
        let access = Access::none(self.name(), "delete").removes(view.path(&path));
        Ok(Plan {
            label: format!("delete {path}"),
            access,
            action: Box::new(move |place, seen| {
                Box::pin(async move {
                    let Ok((path, kind)) = place.path(0) else { return error("the path can't be resolved") };
                    let known = seen.get(&*path.to_string_lossy()).filter(|_| kind == Kind::File);
                    let now = known.and_then(|_| place.open(0).ok()).and_then(|it| stamp_of(&it.file).ok());
                    if let (Some(known), Some(now)) = (known, now)
                        && *known != now
                    {
                        return error(crate::edit::changed(&path));
                    }
                    match place.remove(0) {
                        Ok(at) if kind == Kind::Folder => Outcome::ok(format!("Deleted directory: {}", at.display())),
                        Ok(at) => knowing(format!("Deleted file: {}", at.display()), &at, String::new()),
                        Err(err) => error(err),
                    }
                })
            }),
        })
    }
}
