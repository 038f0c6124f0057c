//! The small readers of rc configurations (sid's manual, TOOLS): `read`, `search` and `glob`, with the names and parameters that
//! such configurations promise. They stay inside the workspace, which is `/` to them.
use std::path::{Component, Path, PathBuf};

use serde::Deserialize;
use sid_core::Outcome;
use sid_policy::{Access, Kind};
use sid_sandbox::Confined;

use crate::{Plan, Tool, View, args, editor, error, glob, knowing, search, text::Text, walk::Ignored};

/// A path of the workspace as it is spelled: below its top, whether or not it begins with `/` or with the workspace's own path.
///
/// # Errors
/// It leads out by its spelling alone.
pub(crate) fn inside(spelled: &str, view: &View) -> Result<PathBuf, String> {
    let path = Path::new(spelled);
    if path.components().any(|it| it == Component::ParentDir) {
        return Err("a path may not have `..` in it; / is the workspace".to_owned());
    }
    if spelled.starts_with("//") && !spelled.starts_with("///") {
        return Err("a path may not begin with //".to_owned());
    }
    if let Some((dir, below)) = skill(spelled, view) {
        return Ok(dir.join(below));
    }
    let known = view.places.iter().map(|(known_as, real)| (known_as.as_path(), real.as_path()));
    let known = known.chain([(view.cwd.as_path(), view.cwd.as_path())]);
    let own = known.filter_map(|(known_as, real)| Some(real.join(path.strip_prefix(known_as).ok()?))).next();
    Ok(own.unwrap_or_else(|| view.cwd.join(spelled.trim_start_matches('/'))))
}

/// The folder of a skill and the path in it, if a path is one below `/skills`.
pub(crate) fn skill<'a>(spelled: &'a str, view: &View) -> Option<(PathBuf, &'a Path)> {
    let (id, below) = spelled.strip_prefix("/skills/")?.split_once('/').unwrap_or((&spelled["/skills/".len()..], ""));
    let (_, dir) = view.skills.iter().find(|it| it.0 == id)?;
    Some((dir.clone(), Path::new(below)))
}

/// Reads a file or lines of it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Read;
/// Finds lines.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Search;
/// Finds files.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Glob;

#[derive(Deserialize)]
struct ReadArgs {
    path: String,
    start_line: Option<i64>,
    end_line: Option<i64>,
}

#[derive(Deserialize)]
struct SearchArgs {
    pattern: String,
    path: Option<String>,
    #[serde(default)]
    fixed_strings: bool,
    include: Option<String>,
    max_results: Option<i64>,
}

#[derive(Deserialize)]
struct GlobArgs {
    pattern: String,
    path: Option<String>,
}

/// Bytes of a file that is read.
const LARGEST: u64 = 64 << 20;
/// Matches shown when nobody says otherwise.
const RESULTS: i64 = 200;

impl Tool for Read {
    fn name(&self) -> &'static str {
        "read"
    }
    fn description(&self) -> &'static str {
        "Reads a file of the workspace with line numbers, or lines start_line to end_line of it (from 1, both included, -1 is the end). A folder is \
         listed. / is the workspace."
    }
    fn schema(&self) -> &'static str {
        r#"{"type":"object","properties":{"path":{"type":"string"},"start_line":{"type":"integer"},"end_line":{"type":"integer"}},"required":["path"],"additionalProperties":false}"#
    }
    fn for_reviewer(&self) -> bool {
        true
    }
    fn plan(&self, raw: &str, view: &View) -> Result<Plan, String> {
        let it: ReadArgs = args::parse(raw)?;
        let first = usize::try_from(it.start_line.unwrap_or(1).max(1)).unwrap_or(1);
        let last = match it.end_line {
            None | Some(-1) => usize::MAX - 1,
            Some(n) => usize::try_from(n).unwrap_or(0),
        };
        if last < first {
            return Err(format!("start_line {first} is greater than end_line {}", it.end_line.unwrap_or(0)));
        }
        let access = Access::none(self.name(), "read").staying().reads(inside(&it.path, view)?);
        let label = format!("read {}", it.path);
        let action = move |place: &Confined<'_>| read(place, &it.path, first, last).unwrap_or_else(error);
        Ok(Plan { label, access, action: Box::new(move |place, _| Box::pin(async move { action(place) })) })
    }
}

fn read(place: &Confined<'_>, shown: &str, first: usize, last: usize) -> Result<Outcome, String> {
    match place.path(0)?.1 {
        Kind::Missing => return Err(format!("file not found: {shown}")),
        Kind::Folder => {
            let (_, entries) = place.list(0).map_err(|it| it.to_string())?;
            let lines: Vec<String> = entries.into_iter().map(|(name, folder)| if folder { name + "/" } else { name }).collect();
            return Ok(Outcome::ok(if lines.is_empty() { "The folder is empty.".to_owned() } else { lines.join("\n") }));
        }
        Kind::File | Kind::Special => {}
    }
    let (path, bytes, stamp) = place.read_all(0, LARGEST).map_err(|it| it.to_string())?;
    let file = Text::decode(&bytes).map_err(|_| format!("{shown} is not text; use a command to inspect it."))?;
    let lines = file.text.lines().count();
    if first > lines.max(1) {
        return Err(format!("{shown} has only {lines} lines; start_line {first} is past its end."));
    }
    let text = editor::numbered(&file.text, first, last);
    Ok(knowing(if text.is_empty() { format!("{shown} is empty.") } else { text }, &path, stamp))
}

impl Tool for Search {
    fn name(&self) -> &'static str {
        "search"
    }
    fn description(&self) -> &'static str {
        "Searches files of the workspace for a regular expression, or for the text itself with fixed_strings. path narrows it to a folder or file, include \
         to files whose name matches a glob; at most max_results lines (default 200) are shown. What Git ignores is left out."
    }
    fn schema(&self) -> &'static str {
        r#"{"type":"object","properties":{"pattern":{"type":"string"},"path":{"type":"string"},"fixed_strings":{"type":"boolean"},"include":{"type":"string"},"max_results":{"type":"integer"}},"required":["pattern"],"additionalProperties":false}"#
    }
    fn for_reviewer(&self) -> bool {
        true
    }
    fn plan(&self, raw: &str, view: &View) -> Result<Plan, String> {
        let it: SearchArgs = args::parse(raw)?;
        let path = inside(it.path.as_deref().unwrap_or("/"), view)?;
        let most = it.max_results.unwrap_or(RESULTS);
        if most < 1 {
            return Err(format!("max_results is {most}; it must be a whole number above 0"));
        }
        let text = if it.fixed_strings { search::As::Text } else { search::As::Expression };
        search::plan(self.name(), it.pattern, text, path, it.include.as_deref(), most)
    }
}

impl Tool for Glob {
    fn name(&self) -> &'static str {
        "glob"
    }
    fn description(&self) -> &'static str {
        "Lists files of the workspace whose path matches a pattern such as src/**/*.py, or whose name does if the pattern has no /; newest first. path \
         narrows it to a folder. What Git ignores is left out."
    }
    fn schema(&self) -> &'static str {
        r#"{"type":"object","properties":{"pattern":{"type":"string"},"path":{"type":"string"}},"required":["pattern"],"additionalProperties":false}"#
    }
    fn for_reviewer(&self) -> bool {
        true
    }
    fn plan(&self, raw: &str, view: &View) -> Result<Plan, String> {
        let it: GlobArgs = args::parse(raw)?;
        let folder = inside(it.path.as_deref().unwrap_or("/"), view)?;
        let pattern = it.pattern.trim_start_matches("./").trim_start_matches('/').to_owned();
        // A name alone is looked for at every depth, as `find -name` does.
        let whole = if pattern.contains('/') { pattern } else { format!("**/{pattern}") };
        let plan = glob::plan(self.name(), &it.pattern, &whole, folder, Ignored::LeftOut)?;
        Ok(Plan { access: plan.access.staying(), ..plan })
    }
}
