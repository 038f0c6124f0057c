//! The engine as a front end drives it: with a handle on the mode, while a turn runs.
#![allow(clippy::unwrap_used, clippy::panic, clippy::disallowed_methods, clippy::expect_used, reason = "test code")]
mod modes;
mod reviewer;

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant},
};

use serde_json::Value;
use sid_core::{End, Event};
use sid_engine::{AfterCut, Engine, Interrupt, Limits, Parts, ReviewSettings};
use sid_journal::Store;
use sid_policy::{Mode, Rules};
use sid_provider::{Env, Http, Model, Profiles, Resolved, resolve};
use sid_sandbox::{Environment, Host};
use sid_testkit::{Fake, Reply};
use sid_tools::{Shells, Tool};
use tokio::sync::watch;

/// A workspace, a model and what stops a turn.
struct World {
    dir: tempfile::TempDir,
    fake: Fake,
    stop: watch::Sender<bool>,
    review: ReviewSettings,
    person: Option<sid_engine::Person>,
    tools: Vec<Box<dyn Tool>>,
}

impl World {
    fn new(replies: impl IntoIterator<Item = Reply>) -> Self {
        let dir = tempfile::tempdir_in("/var/tmp").unwrap();
        for name in ["work", "state", "home"] {
            fs::create_dir(dir.path().join(name)).unwrap();
        }
        let review = ReviewSettings { user_policy: Some(dir.path().join("SECURITY.md")), ..ReviewSettings::default() };
        Self {
            dir,
            fake: Fake::new(replies),
            stop: watch::Sender::new(false),
            review,
            person: None,
            tools: sid_tools::with_shells(Shells::Codex),
        }
    }

    fn path(&self, path: &str) -> PathBuf {
        fs::canonicalize(self.dir.path()).unwrap().join(path)
    }

    /// An engine in this world; its tools go with it.
    async fn engine(&mut self, mode: Mode) -> Engine {
        let env = Env {
            openai_url: Some(format!("{}/v1", self.fake.url())),
            openai_key: Some("sk-test-key-1234".into()),
            ..Env::default()
        };
        let Resolved::Endpoint(endpoint) = resolve(Some("m"), &env, &Profiles::default()).unwrap() else { panic!("no endpoint") };
        let (wire, id) = (endpoint.wire, sid_journal::new_id());
        let journal = Store::new(self.path("state")).create(&id).unwrap();
        let fence = sid_project::fence(&self.path("work"), &[], Vec::new()).unwrap();
        let home = self.path("home").into_os_string();
        let vars = [("PATH".into(), std::env::var_os("PATH").unwrap()), ("HOME".into(), home)];
        let host = Host::new(Environment::new(vars, &[], &[]), journal.dir().join("before"));
        Engine::open(Parts {
            sampling: sid_provider::Sampling::default(),
            budget: None,
            skills: Vec::new(),
            compaction: sid_engine::Compaction::default(),
            journal,
            records: Vec::new(),
            id,
            model: Model::Http(Box::new(Http::new(endpoint).unwrap())),
            wire,
            model_id: "m".into(),
            instructions: None,
            tools: std::mem::take(&mut self.tools),
            rules: Rules {
                mode,
                fence: Arc::new(fence),
                allow: BTreeSet::new(),
                deny: BTreeSet::new(),
                default: None,
                tools: BTreeMap::new(),
            },
            host,
            limits: Limits { rounds: 50, tokens: None, time: None },
            review: self.review.clone(),
            hook: None,
            person: self.person.clone(),
            after_cut: AfterCut::KeepJobs,
            secrets: Vec::new(),
        })
        .unwrap()
    }

    /// Runs a turn; the outcomes of its calls, and how it ended.
    async fn turn(&self, engine: &mut Engine, prompt: &str) -> (Vec<String>, End) {
        let mut results = Vec::new();
        let interrupt = Interrupt::new(self.stop.subscribe());
        let mut tell = |event: Event| {
            if let Event::Result { content, .. } = event {
                results.push(content);
            }
        };
        let end = engine.turn(prompt.to_owned(), &interrupt, &mut tell).await.unwrap();
        (results, end)
    }

    /// The n-th request as JSON.
    fn request(&self, n: usize) -> Value {
        self.fake.requests()[n].json()
    }
}

fn block<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(work)
}

/// Waits until a command with this in its line runs.
async fn until_alive(part: &str) {
    let begun = Instant::now();
    while !alive(part) {
        assert!(begun.elapsed() < Duration::from_secs(20), "{part} never ran");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

fn alive(part: &str) -> bool {
    fs::read_dir("/proc").unwrap().flatten().any(|it| {
        let line = fs::read(it.path().join("cmdline")).unwrap_or_default();
        let line = String::from_utf8_lossy(&line).replace('\0', " ");
        line.starts_with("sleep") && line.contains(part)
    })
}
