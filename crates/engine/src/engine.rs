use std::{io, path::PathBuf, rc::Rc, sync::Arc, time::Duration};

use sid_core::{Event, Item, Opened, Record, Session};
use sid_journal::{Api, Journal, Meta};
use sid_policy::Rules;
use sid_provider::{Conversation, Model, Sampling, ToolSpec, Wire};
use sid_sandbox::Host;
use sid_tools::{Hook, Tool, View};

use crate::{Compaction, Permissions, Person, ReviewSettings, clock::now, prompt, review::Reviewer};

/// What bounds a turn.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Rounds of tool calls.
    pub rounds: u32,
    /// Tokens of all its answers together.
    pub tokens: Option<u64>,
    /// Wall time.
    pub time: Option<Duration>,
}

/// What happens to background commands when a turn is cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AfterCut {
    /// They go on: a person may want them.
    KeepJobs,
    /// They end with it, at once: the process ends too, and its time is short.
    EndJobs,
}

/// What an engine is made of.
pub struct Parts {
    /// Where records go.
    pub journal: Journal,
    /// What the journal holds already.
    pub records: Vec<Record>,
    /// The session's id.
    pub id: String,
    /// Where answers come from.
    pub model: Model,
    /// Its wire.
    pub wire: Wire,
    /// The model as the endpoint knows it.
    pub model_id: String,
    /// What an agent's configuration tells the model besides.
    pub instructions: Option<String>,
    /// Skills it is shown: names and folders.
    pub skills: Vec<(String, PathBuf)>,
    /// How it is asked to answer.
    pub sampling: Sampling,
    /// Tokens that the session may take in all.
    pub budget: Option<u64>,
    /// The tools it is offered.
    pub tools: Vec<Box<dyn Tool>>,
    /// What decides.
    pub rules: Rules,
    /// Where actions happen.
    pub host: Host,
    /// The bounds of a turn.
    pub limits: Limits,
    /// When conversations are compacted.
    pub compaction: Compaction,
    /// How crossings are reviewed in `auto`.
    pub review: ReviewSettings,
    /// What adds instructions to what the person says.
    pub hook: Option<Hook>,
    /// Who answers questions.
    pub person: Option<Person>,
    /// What a cut turn leaves of background commands.
    pub after_cut: AfterCut,
    /// Exact values that never appear in an outcome.
    pub secrets: Vec<String>,
}

/// The driver of one session.
pub struct Engine {
    pub(crate) session: Session,
    pub(crate) journal: Journal,
    /// What is asked and answered, for a person to look into.
    pub(crate) api: Option<Api>,
    pub(crate) talk: Conversation,
    pub(crate) model: Model,
    pub(crate) tools: Vec<Box<dyn Tool>>,
    pub(crate) rules: Rules,
    pub(crate) host: Rc<Host>,
    pub(crate) permissions: Permissions,
    /// The revision of the mode that the model knows of.
    pub(crate) told: u64,
    pub(crate) reviewer: Option<Reviewer>,
    pub(crate) limits: Limits,
    pub(crate) review: ReviewSettings,
    pub(crate) compaction: Compaction,
    /// About how many tokens were left by the last summary, or by the last try at one.
    pub(crate) compacted_to: Option<u64>,
    /// The conversation was compacted since the provider refused its length, and no answer came since.
    pub(crate) refused: bool,
    pub(crate) instructions: Option<String>,
    pub(crate) sampling: Sampling,
    pub(crate) budget: Option<u64>,
    pub(crate) wire: Wire,
    pub(crate) model_id: String,
    pub(crate) hook: Option<Hook>,
    pub(crate) person: Option<Person>,
    pub(crate) after_cut: AfterCut,
    pub(crate) secrets: Vec<String>,
    pub(crate) view: View,
    created: u64,
    described: bool,
}

impl Engine {
    /// Takes up a session, new or old, and says so in its journal.
    ///
    /// # Errors
    /// The journal can't be written.
    pub fn open(parts: Parts) -> io::Result<Self> {
        let specs: Vec<ToolSpec> = parts.tools.iter().map(|it| spec(it.as_ref())).collect();
        let fence = Arc::clone(&parts.rules.fence);
        let places = parts.host.places(&fence.roots);
        let system = prompt::whole(&parts.rules, &places, &parts.tools, parts.instructions.as_deref());
        let mut talk = Conversation::sampled(parts.wire, &parts.model_id, &system, &specs, &parts.sampling);
        let created = parts.records.first().map_or_else(now, Record::at);
        let (session, items) = Session::replay(parts.records);
        items.iter().for_each(|it| talk.push(it));
        let shown = |path: &PathBuf| path.to_string_lossy().into_owned();
        let opened = Opened {
            v: 1,
            at: now(),
            id: parts.id,
            cwd: fence.roots.first().map(shown).unwrap_or_default(),
            roots: fence.roots.iter().skip(1).map(shown).collect(),
            model: parts.model_id.clone(),
            mode: parts.rules.mode.name().to_owned(),
            sid: env!("CARGO_PKG_VERSION").to_owned(),
        };
        let cwd = fence.roots.first().cloned().unwrap_or_default();
        let mut it = Self {
            session,
            // A person's sessions have one; in scripts it would only be the journal's bytes again.
            api: parts.person.is_some().then(|| Api::open(parts.journal.dir())),
            journal: parts.journal,
            talk,
            model: parts.model,
            tools: parts.tools,
            permissions: Permissions::new(parts.rules.mode),
            told: 0,
            reviewer: None,
            rules: parts.rules,
            host: Rc::new(parts.host),
            limits: parts.limits,
            review: parts.review,
            compaction: parts.compaction,
            compacted_to: None,
            refused: false,
            instructions: parts.instructions,
            sampling: parts.sampling,
            budget: parts.budget,
            wire: parts.wire,
            model_id: parts.model_id,
            hook: parts.hook,
            person: parts.person,
            after_cut: parts.after_cut,
            secrets: parts.secrets,
            view: View { cwd, places, skills: parts.skills },
            created,
            described: false,
        };
        it.commit(Record::Opened(opened))?;
        if it.session.compacted().is_some() {
            it.meet_expert();
            items.iter().for_each(|item| it.talk.push(item));
        }
        Ok(it)
    }

    /// The fold of the session.
    #[must_use]
    pub fn session(&self) -> &Session {
        &self.session
    }

    /// The handle on the session's mode, to change it from outside.
    #[must_use]
    pub fn permissions(&self) -> Permissions {
        self.permissions.clone()
    }

    /// Whether the model is offered a tool of this name.
    #[must_use]
    pub fn has_tool(&self, name: &str) -> bool {
        self.tools.iter().any(|it| it.name() == name)
    }

    /// How the model is asked to answer.
    #[must_use]
    pub fn sampling(&self) -> &Sampling {
        &self.sampling
    }

    /// Another way of asking, from the next answer on.
    ///
    /// # Errors
    /// The journal can't be read.
    pub fn retune(&mut self, sampling: Sampling) -> Result<(), String> {
        self.sampling = sampling;
        self.recompose()
    }

    /// What the configuration tells the model besides, from the next answer on.
    ///
    /// # Errors
    /// The journal can't be read.
    pub fn instruct(&mut self, text: Option<String>) -> Result<(), String> {
        self.instructions = text;
        self.recompose()
    }

    /// All records of the session.
    ///
    /// # Errors
    /// The journal can't be read.
    pub fn records(&self) -> Result<Vec<Record>, String> {
        self.journal.records().map_err(|err| err.to_string())
    }

    /// Another model, from the next answer on.
    ///
    /// # Errors
    /// The journal can't be read.
    pub fn use_model(&mut self, model: Model, wire: Wire, id: String) -> Result<(), String> {
        (self.model, self.wire, self.model_id) = (model, wire, id);
        self.renew_expert();
        self.recompose()
    }

    /// The model, as the endpoint knows it.
    #[must_use]
    pub fn model_id(&self) -> &str {
        &self.model_id
    }

    /// Tokens that the session may take in all.
    pub fn set_budget(&mut self, tokens: Option<u64>) {
        self.budget = tokens;
    }

    /// The session's folder.
    #[must_use]
    pub fn dir(&self) -> &std::path::Path {
        self.journal.dir()
    }

    /// Disk first, memory second.
    pub(crate) fn commit(&mut self, record: Record) -> io::Result<()> {
        self.journal.append(&record)?;
        let mut items: Vec<Item> = Vec::new();
        let anew = matches!(record, Record::Compacted(_));
        self.session.apply(record, &mut items);
        if anew {
            self.talk.clear();
            self.meet_expert();
        }
        items.iter().for_each(|it| self.talk.push(it));
        Ok(())
    }

    /// Brings the session's description up to date, once a process; lists are made from it.
    pub(crate) fn describe(&mut self, tell: &mut dyn FnMut(Event)) {
        if std::mem::replace(&mut self.described, true) {
            return;
        }
        let Some(opened) = self.session.opened() else { return };
        let meta = Meta {
            id: opened.id.clone(),
            title: self.session.title().to_owned(),
            cwd: opened.cwd.clone(),
            additional_directories: opened.roots.clone(),
            model_id: opened.model.clone(),
            pid: std::process::id(),
            compacted_from: self.session.compacted().and_then(|it| it.from.clone()),
            ..Meta::default().created(self.created)
        };
        if let Err(err) = self.journal.describe(&meta) {
            tell(Event::Notice(format!("the session's description could not be written: {err}")));
        }
    }

    /// Ends everything the session started. Call it before the program ends.
    pub async fn close(self, grace: Duration) {
        self.host.shut_down(grace).await;
        // A person's sessions have one; in scripts it would only be the journal's bytes again.
        if self.described && self.person.is_some() {
            let items = Session::replay(self.journal.records().unwrap_or_default()).1;
            // Nothing of sid's reads it; a full disk costs the copy and nothing else.
            let _full = self.journal.keep_transcript(&crate::transcript::transcript(&items));
        }
    }

    /// `text` without sid's own credentials.
    pub(crate) fn redact(&self, text: String) -> String {
        sid_core::redacted(text, &self.secrets)
    }
}

pub(crate) fn spec(tool: &dyn Tool) -> ToolSpec {
    ToolSpec { name: tool.name().to_owned(), description: tool.description().to_owned(), schema: tool.schema().to_owned() }
}
