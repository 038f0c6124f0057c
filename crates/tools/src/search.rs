use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use globset::{GlobBuilder, GlobMatcher};
use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use grep_searcher::{BinaryDetection, Searcher, SearcherBuilder, Sink, SinkContext, SinkMatch};
use ignore::WalkState;
use serde::Deserialize;
use sid_core::Outcome;
use sid_policy::{Access, Kind};
use sid_sandbox::Hider;

use crate::{
    Plan, Tool, View, args, error,
    walk::{Ignored, refuse, walk},
};

/// Finds lines by a regular expression.
pub(crate) struct SearchFiles;

#[derive(Deserialize)]
struct Args {
    pattern: String,
    path: Option<String>,
    file_glob: Option<String>,
    max_results: Option<i64>,
    context_lines: Option<i64>,
    #[serde(default)]
    ignore_case: bool,
    #[serde(default)]
    include_ignored: bool,
}

/// Characters of a line that are shown.
const LINE: usize = 500;
/// A line may need this much memory; a file with a longer one is skipped, and said so.
const HEAP: usize = 32 << 20;

impl Tool for SearchFiles {
    fn name(&self) -> &'static str {
        "search_files"
    }
    fn description(&self) -> &'static str {
        "Searches file contents below `path` (a folder or one file) for a regular expression, line by line. Shows path:line: text in path \
         order. Binary files, and files that Git ignores unless include_ignored is set, are left out."
    }
    fn schema(&self) -> &'static str {
        r#"{"type":"object","properties":{"pattern":{"type":"string","description":"regular expression (Rust syntax)"},"path":{"type":"string"},"file_glob":{"type":"string","description":"only files whose name matches, e.g. *.rs"},"max_results":{"type":"integer","description":"default 50, at most 1000"},"context_lines":{"type":"integer","description":"lines shown around each match, at most 20"},"ignore_case":{"type":"boolean"},"include_ignored":{"type":"boolean"}},"required":["pattern"],"additionalProperties":false}"#
    }
    fn for_reviewer(&self) -> bool {
        true
    }
    fn plan(&self, raw: &str, view: &View) -> Result<Plan, String> {
        let args: Args = args::parse(raw)?;
        let query = Query::new(&args, As::Expression)?;
        let access = Access::none(self.name(), "search").reads(view.path(args.path.as_deref().unwrap_or(".")));
        Ok(planned(query, args.pattern, access))
    }
}

/// What a pattern is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum As {
    /// A regular expression.
    Expression,
    /// The very text.
    Text,
}

/// The plan of a search under another name.
///
/// # Errors
/// What is wrong with the pattern.
pub(crate) fn plan(tool: &str, pattern: String, what: As, path: PathBuf, names: Option<&str>, most: i64) -> Result<Plan, String> {
    let args = Args {
        pattern,
        path: None,
        file_glob: names.map(str::to_owned),
        max_results: Some(most),
        context_lines: None,
        ignore_case: false,
        include_ignored: false,
    };
    let query = Query::new(&args, what)?;
    Ok(planned(query, args.pattern, Access::none(tool, "search").staying().reads(path)))
}

fn planned(query: Query, pattern: String, access: Access) -> Plan {
    Plan {
        label: format!("search {pattern}"),
        access,
        action: Box::new(move |place, _| {
            Box::pin(async move {
                let (root, kind) = match place.path(0) {
                    Ok((path, Kind::Missing)) => return error(format!("{} does not exist.", path.display())),
                    Ok((path, Kind::Special)) => return error(format!("{} is not a regular file.", path.display())),
                    Ok((path, kind)) => match place.unwalkable(0).or_else(|| refuse(&path)) {
                        Some(why) => return error(why),
                        None => (path, kind),
                    },
                    Err(err) => return error(err),
                };
                let (hider, stop) = (place.hider(), Stop::default());
                let flag = stop.flag();
                let job = move || query.run(&root, kind, &hider, &flag);
                tokio::task::spawn_blocking(job).await.map_or_else(|err| error(err.to_string()), |it| it.render(&pattern))
            })
        }),
    }
}

/// Tells a walk on other threads to end when the call that wanted it is gone.
#[derive(Debug, Default)]
pub(crate) struct Stop(Arc<AtomicBool>);

impl Stop {
    pub(crate) fn flag(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.0)
    }
}

impl Drop for Stop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

struct Query {
    matcher: RegexMatcher,
    names: Option<GlobMatcher>,
    most: usize,
    context: usize,
    ignored: Ignored,
}

impl Query {
    fn new(args: &Args, what: As) -> Result<Self, String> {
        let matcher = RegexMatcherBuilder::new()
            .case_insensitive(args.ignore_case)
            .line_terminator(Some(b'\n'))
            .fixed_strings(what == As::Text)
            .build(&args.pattern);
        let matcher = matcher.map_err(|err| format!("the pattern is not a valid regular expression: {err}"))?;
        let names = args.file_glob.as_deref().map(|it| GlobBuilder::new(it).build().map(|it| it.compile_matcher())).transpose();
        let names = names.map_err(|err| format!("file_glob is not valid: {err}"))?;
        let clamp = |it: Option<i64>, default: i64, low: i64, high: i64| {
            usize::try_from(it.unwrap_or(default).clamp(low, high)).unwrap_or(0)
        };
        Ok(Self {
            matcher,
            names,
            most: clamp(args.max_results, 50, 1, 1000),
            context: clamp(args.context_lines, 0, 0, 20),
            ignored: if args.include_ignored { Ignored::Walked } else { Ignored::LeftOut },
        })
    }

    fn run(&self, root: &Path, kind: Kind, hider: &Hider, stop: &AtomicBool) -> Hits {
        if kind == Kind::File {
            let mut hits = Hits::default();
            self.file(&mut self.searcher(), root, &mut |it| hits.add(self.most, root, it));
            return hits;
        }
        let mut hits = self.folder(root, self.ignored, hider, stop);
        if hits.total == 0 && self.ignored == Ignored::LeftOut {
            hits.hidden = self.folder(root, Ignored::Walked, hider, stop).total;
        }
        hits
    }

    fn folder(&self, root: &Path, ignored: Ignored, hider: &Hider, stop: &AtomicBool) -> Hits {
        let hits = Mutex::new(Hits::default());
        let wanted = |path: &Path| match (&self.names, path.file_name()) {
            (Some(names), Some(name)) => names.is_match(name),
            _ => true,
        };
        walk(root, ignored, hider.clone()).run(|| {
            let mut searcher = self.searcher();
            let (hits, wanted) = (&hits, &wanted);
            Box::new(move |entry| {
                let Ok(entry) = entry else { return WalkState::Continue };
                if entry.file_type().is_some_and(|it| it.is_file()) && wanted(entry.path()) {
                    self.file(&mut searcher, entry.path(), &mut |it| {
                        hits.lock().unwrap_or_else(PoisonError::into_inner).add(self.most, entry.path(), it);
                    });
                }
                if stop.load(Ordering::Relaxed) { WalkState::Quit } else { WalkState::Continue }
            })
        });
        hits.into_inner().unwrap_or_else(PoisonError::into_inner)
    }

    fn searcher(&self) -> Searcher {
        let mut it = SearcherBuilder::new();
        it.line_number(true).binary_detection(BinaryDetection::quit(0)).heap_limit(Some(HEAP));
        it.before_context(self.context).after_context(self.context).build()
    }

    fn file(&self, searcher: &mut Searcher, path: &Path, add: &mut dyn FnMut(FileHits)) {
        let mut sink = Lines { most: self.most, hits: FileHits::default() };
        let failed = searcher.search_path(&self.matcher, path, &mut sink).is_err();
        let mut hits = sink.hits;
        hits.failed = failed;
        if hits.count > 0 || failed {
            add(hits);
        }
    }
}

#[derive(Default)]
struct FileHits {
    lines: Vec<String>,
    count: usize,
    failed: bool,
}

struct Lines {
    most: usize,
    hits: FileHits,
}

impl Lines {
    fn push(&mut self, number: Option<u64>, mark: char, bytes: &[u8]) {
        let text = String::from_utf8_lossy(bytes);
        let text = text.trim_end_matches(['\n', '\r']);
        let cut = text.char_indices().nth(LINE).map_or(text.len(), |(at, _)| at);
        let more = if cut < text.len() { "…" } else { "" };
        self.hits.lines.push(format!("{}{mark} {}{more}", number.unwrap_or(0), &text[..cut]));
    }
}

impl Sink for Lines {
    type Error = std::io::Error;
    fn matched(&mut self, _: &Searcher, it: &SinkMatch<'_>) -> Result<bool, std::io::Error> {
        self.hits.count += 1;
        if self.hits.count <= self.most {
            self.push(it.line_number(), ':', it.bytes());
        }
        Ok(true)
    }
    fn context(&mut self, _: &Searcher, it: &SinkContext<'_>) -> Result<bool, std::io::Error> {
        if self.hits.count <= self.most {
            self.push(it.line_number(), '-', it.bytes());
        }
        Ok(true)
    }
}

/// The first files in path order that fill the limit, and how much there is in all.
#[derive(Default)]
struct Hits {
    files: BTreeMap<PathBuf, (Vec<String>, usize)>,
    kept: usize,
    total: usize,
    skipped: usize,
    hidden: usize,
}

impl Hits {
    fn add(&mut self, most: usize, path: &Path, it: FileHits) {
        self.skipped += usize::from(it.failed);
        self.total += it.count;
        let counted = it.count.min(most);
        self.kept += counted;
        self.files.insert(path.to_owned(), (it.lines, counted));
        while let Some(last) = self.files.last_entry().filter(|last| self.kept - last.get().1 >= most) {
            self.kept -= last.remove().1;
        }
    }

    fn render(self, pattern: &str) -> Outcome {
        let skipped = match self.skipped {
            0 => String::new(),
            n => format!("\n[{n} files could not be searched: unreadable, or a line too long]"),
        };
        if self.total == 0 {
            let hidden = match self.hidden {
                0 => String::new(),
                n => format!(" {n} matches are in files that Git ignores; set include_ignored to see them."),
            };
            return Outcome::ok(format!("No matches found for pattern: {pattern}.{hidden}{skipped}"));
        }
        let mut out: Vec<String> = Vec::new();
        for (path, (lines, _)) in &self.files {
            out.extend(lines.iter().map(|line| format!("{}:{line}", path.display())));
        }
        let shown = self.kept.min(self.total);
        if shown < self.total {
            out.push(format!("[showing {shown} of {} matches]", self.total));
        }
        Outcome::ok(out.join("\n") + &skipped)
    }
}
