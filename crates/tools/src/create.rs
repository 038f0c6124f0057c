use serde::Deserialize;
use sid_policy::Access;
use sid_sandbox::Expect;

use crate::{Plan, Tool, View, args, error, knowing};

/// Makes a new file.
pub(crate) struct CreateFile;

#[derive(Deserialize)]
struct Args {
    path: String,
    content: String,
}

impl Tool for CreateFile {
    fn name(&self) -> &'static str {
        "create_file"
    }
    fn description(&self) -> &'static str {
        "Creates a new file with the given content, and missing parent folders. Fails if something is there already; use edit_file to \
         change a file."
    }
    fn schema(&self) -> &'static str {
        r#"{"type":"object","properties":{"path":{"type":"string"},"content":{"type":"string"}},"required":["path","content"],"additionalProperties":false}"#
    }
    fn plan(&self, raw: &str, view: &View) -> Result<Plan, String> {
        let Args { path, content } = args::parse(raw)?;
        let access = Access::none(self.name(), "create").writes(view.path(&path));
        let label = format!("create {path}");
        Ok(Plan {
            label,
            access,
            action: Box::new(move |place, _| {
                Box::pin(async move {
                    match place.write(0, content.as_bytes(), &Expect::Absent) {
                        Ok((at, stamp)) => {
                            let said = format!("Created file: {} ({} bytes)", at.display(), content.len());
                            knowing(said, &at, stamp)
                        }
                        Err(err) => error(err),
                    }
                })
            }),
        })
    }
}
