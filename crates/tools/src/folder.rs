use serde::Deserialize;
use sid_core::Outcome;
use sid_policy::{Access, Kind};

use crate::{Plan, Tool, View, args, error};

/// Makes a folder.
pub(crate) struct CreateDirectory;

#[derive(Deserialize)]
struct Args {
    path: String,
}

impl Tool for CreateDirectory {
    fn name(&self) -> &'static str {
        "create_directory"
    }
    fn description(&self) -> &'static str {
        "Creates a folder and its missing parents."
    }
    fn schema(&self) -> &'static str {
        r#"{"type":"object","properties":{"path":{"type":"string"}},"required":["path"],"additionalProperties":false}"#
    }
    fn plan(&self, raw: &str, view: &View) -> Result<Plan, String> {
        let Args { path } = args::parse(raw)?;
        let access = Access::none(self.name(), "mkdir").writes(view.path(&path));
        Ok(Plan {
            label: format!("create folder {path}"),
            access,
            action: Box::new(|place, _| {
                Box::pin(async move {
                    if let Ok((path, Kind::Folder)) = place.path(0) {
                        return Outcome::ok(format!("Directory exists already: {}", path.display()));
                    }
                    match place.make_folder(0) {
                        Ok(at) => Outcome::ok(format!("Created directory: {}", at.display())),
                        Err(err) => error(err),
                    }
                })
            }),
        })
    }
}
