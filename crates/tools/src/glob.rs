use std::{
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::SystemTime,
};

use globset::{GlobBuilder, GlobMatcher};
use ignore::WalkState;
use serde::Deserialize;
use sid_core::Outcome;
use sid_policy::Access;
use sid_sandbox::Hider;

use crate::{
    Plan, Tool, View, args, error,
    search::Stop,
    walk::{Ignored, refuse, walk},
};

/// Finds files by name.
pub(crate) struct Glob;

#[derive(Deserialize)]
struct Args {
    pattern: String,
    path: Option<String>,
    #[serde(default)]
    include_ignored: bool,
}

const MOST: usize = 1000;

impl Tool for Glob {
    fn name(&self) -> &'static str {
        "glob"
    }
    fn description(&self) -> &'static str {
        "Finds files by a pattern such as src/**/*.rs, matched against the path below `path`; newest first, at most 1000. Files that Git \
         ignores are left out unless include_ignored is set or the pattern names one file exactly."
    }
    fn schema(&self) -> &'static str {
        r#"{"type":"object","properties":{"pattern":{"type":"string"},"path":{"type":"string","description":"folder to search, default the working directory"},"include_ignored":{"type":"boolean"}},"required":["pattern"],"additionalProperties":false}"#
    }
    fn for_reviewer(&self) -> bool {
        true
    }
    fn plan(&self, raw: &str, view: &View) -> Result<Plan, String> {
        let Args { pattern, path, include_ignored } = args::parse(raw)?;
        let (base, below) = split(&pattern);
        let base = base.unwrap_or_else(|| view.path(path.as_deref().unwrap_or(".")));
        let ignored = if include_ignored { Ignored::Walked } else { Ignored::LeftOut };
        plan(self.name(), &pattern, &below, base, ignored)
    }
}

/// The plan of a search for `below`, a pattern below `base`.
///
/// # Errors
/// What is wrong with the pattern.
pub(crate) fn plan(tool: &str, pattern: &str, below: &str, base: PathBuf, ignored: Ignored) -> Result<Plan, String> {
    let (pattern, below) = (pattern.to_owned(), below.to_owned());
    let exact = !below.contains(['*', '?', '[', '{']);
    let matcher = matcher(&below)?;
    let mut access = Access::none(tool, "glob").reads(base);
    if exact {
        let file = access.paths[0].path.join(&below);
        access = access.reads(file);
    }
    Ok(Plan {
        label: format!("glob {pattern}"),
        access,
        action: Box::new(move |place, _| {
            Box::pin(async move {
                if let Some(why) = place.unwalkable(0) {
                    return error(why);
                }
                if exact {
                    return match place.path(1) {
                        Ok((path, _)) if path.exists() => Outcome::ok(path.display().to_string()),
                        _ => Outcome::ok(format!("No files found: {below} does not exist.")),
                    };
                }
                let root = match place.path(0) {
                    Ok((path, sid_policy::Kind::Folder)) => path,
                    Ok((path, _)) => return error(format!("{} is not a folder.", path.display())),
                    Err(err) => return error(err),
                };
                if let Some(why) = refuse(&root) {
                    return error(why);
                }
                let (hider, stop) = (place.hider(), Stop::default());
                let flag = stop.flag();
                let job = move || search(&root, &matcher, ignored, &hider, &flag);
                tokio::task::spawn_blocking(job).await.map_or_else(|err| error(err.to_string()), |it| render(&pattern, it))
            })
        }),
    })
}

/// An absolute pattern's leading folders without wildcards, and the rest.
fn split(pattern: &str) -> (Option<PathBuf>, String) {
    if !pattern.starts_with('/') {
        return (None, pattern.trim_start_matches("./").to_owned());
    }
    let parts: Vec<&str> = pattern.split('/').collect();
    let fixed = parts[..parts.len() - 1].iter().take_while(|it| !it.contains(['*', '?', '[', '{'])).count();
    (Some(PathBuf::from(format!("{}/", parts[..fixed].join("/")))), parts[fixed..].join("/"))
}

fn matcher(pattern: &str) -> Result<GlobMatcher, String> {
    let glob = GlobBuilder::new(pattern).literal_separator(true).backslash_escape(true).build();
    glob.map(|it| it.compile_matcher()).map_err(|err| format!("the pattern is not valid: {err}"))
}

struct Found {
    files: Vec<(SystemTime, PathBuf)>,
    total: usize,
    hidden: usize,
}

fn search(root: &Path, matcher: &GlobMatcher, ignored: Ignored, hider: &Hider, stop: &AtomicBool) -> Found {
    let mut files = matches(root, matcher, ignored, hider, stop);
    let hidden = match ignored {
        Ignored::LeftOut if files.is_empty() => matches(root, matcher, Ignored::Walked, hider, stop).len(),
        _ => 0,
    };
    let total = files.len();
    files.sort_unstable_by(|a, b| b.0.cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
    files.truncate(MOST);
    Found { files, total, hidden }
}

fn matches(root: &Path, matcher: &GlobMatcher, ignored: Ignored, hider: &Hider, stop: &AtomicBool) -> Vec<(SystemTime, PathBuf)> {
    let found = Arc::new(Mutex::new(Vec::new()));
    walk(root, ignored, hider.clone()).run(|| {
        let found = Arc::clone(&found);
        Box::new(move |entry| {
            let Ok(entry) = entry else { return WalkState::Continue };
            let below = entry.path().strip_prefix(root).unwrap_or(entry.path());
            if entry.file_type().is_some_and(|it| !it.is_dir()) && matcher.is_match(below) {
                let at = entry.metadata().ok().and_then(|it| it.modified().ok()).unwrap_or(SystemTime::UNIX_EPOCH);
                found.lock().unwrap_or_else(PoisonError::into_inner).push((at, entry.into_path()));
            }
            if stop.load(Ordering::Relaxed) { WalkState::Quit } else { WalkState::Continue }
        })
    });
    std::mem::take(&mut *found.lock().unwrap_or_else(PoisonError::into_inner))
}

fn render(pattern: &str, found: Found) -> Outcome {
    if found.files.is_empty() {
        let hidden = match found.hidden {
            0 => String::new(),
            n => format!(" {n} ignored by Git match; set include_ignored to see them."),
        };
        return Outcome::ok(format!("No files found for pattern: {pattern}.{hidden}"));
    }
    let mut out: Vec<String> = found.files.iter().map(|(_, path)| path.display().to_string()).collect();
    if found.total > out.len() {
        out.push(format!("[showing the newest {} of {}]", out.len(), found.total));
    }
    Outcome::ok(out.join("\n"))
}
