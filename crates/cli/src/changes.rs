//! Configuration that changes while a session runs: what was read at the start stays in force, and the person is told.
use std::{os::unix::fs::MetadataExt as _, path::PathBuf};

use sid_project::Policy;

use crate::{
    paths::places,
    run::{Job, setup},
    settings::Settings,
};

/// What tells one version of a file from another; `None`: there is none.
type Stamp = Option<(u64, u64, i64, i64)>;

/// The files that decide what a session is, as they were when somebody was last told of them.
pub(crate) struct Watched {
    job: Job,
    files: Vec<(PathBuf, Stamp)>,
}

impl Watched {
    /// Those of a job that is about to start.
    pub(crate) fn new(job: &Job) -> Self {
        let config = places().config.into_iter();
        let mine = config.flat_map(|dir| ["settings.toml", "providers.toml", "agents.conf", "tools.conf"].map(|it| dir.join(it)));
        let workspace = ["sid.toml", "agents.conf", "tools.conf"].map(|it| job.cwd.join(it));
        let files = mine.chain(workspace).map(|path| (path.clone(), stamp(&path))).collect();
        Self { job: Job { person: None, ..job.clone() }, files }
    }

    /// What a person should know of changes since the last time.
    pub(crate) fn told(&mut self) -> Option<String> {
        let mut changed = Vec::new();
        for (path, before) in &mut self.files {
            let now = stamp(path);
            if std::mem::replace(before, now) != now {
                changed.push(path.display().to_string());
            }
        }
        if changed.is_empty() {
            return None;
        }
        let files = changed.join(", ");
        Some(match self.wrong() {
            Some(why) => format!("{files} changed and is not in order ({why}); what was read at the start stays in force"),
            None => format!("{files} changed; it counts from the next session on"),
        })
    }

    /// The first thing that would stop a start now.
    fn wrong(&self) -> Option<String> {
        let first = |all: Vec<String>| all.into_iter().next();
        let settings = Settings::load(places().config.as_deref()).err().and_then(first);
        let policy = || Policy::load(&self.job.cwd).err().and_then(first);
        let rc = || setup(&self.job, &places()).err().and_then(|it| it.lines().next().map(str::to_owned));
        settings.or_else(policy).or_else(rc)
    }
}

fn stamp(path: &std::path::Path) -> Stamp {
    // An empty one says nothing; sid itself reserves the place of a policy with one.
    let it = path.metadata().ok().filter(|it| it.len() > 0)?;
    Some((it.ino(), it.len(), it.mtime(), it.mtime_nsec()))
}
