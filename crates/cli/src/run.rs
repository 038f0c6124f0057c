//! `sid run`: from arguments to an exit code.
use std::{
    collections::{BTreeMap, BTreeSet},
    io::Read as _,
    path::{Path, PathBuf},
    process::ExitCode,
    sync::Arc,
    time::{Duration, Instant},
};

use sid_config::rc::Switch;
use sid_core::{Event, Parent};
use sid_engine::{AfterCut, COMPACT_AT, Compaction, Engine, Failed, Interrupt, Limits, Parts, Person, ReviewSettings, Summary};
use sid_journal::{Journal, Loaded, Store, Streams, new_id, new_local_id};
use sid_policy::{Fence, Mode, Rules};
use sid_project::{
    Places, Policy, Standing,
    setup::{Agent, Setup},
};
use sid_provider::{Http, Model, Replay, Resolved, Sampling, Wire, resolve};
use sid_sandbox::{Environment, Host, Stream, Tee};
use sid_tools::Shells;

use crate::{
    USAGE, agents,
    args::RunArgs,
    changes::Watched,
    paint,
    paths::{places, var},
    print::{Printer, Quiet, Style},
    say,
    settings::{Settings, env},
    signals::Stopper,
    trust,
};

/// Rounds of tool calls when nobody says otherwise.
const ROUNDS: u32 = 24;
/// What children get to end when the program ends.
const GRACE: Duration = Duration::from_millis(500);

/// Runs a prompt headless.
pub(crate) fn run(positional: Option<String>, prompts: Vec<String>, args: &RunArgs) -> ExitCode {
    let job = match Job::new(positional, prompts, args) {
        Ok(it) => it,
        Err(why) => {
            say(&format!("sid: {why}"));
            return ExitCode::from(USAGE);
        }
    };
    execute(job)
}

/// A run whose arguments are in order.
#[derive(Clone)]
pub(crate) struct Job {
    pub(crate) prompt: String,
    pub(crate) cwd: PathBuf,
    pub(crate) roots: Vec<PathBuf>,
    pub(crate) resume: Option<String>,
    pub(crate) model: Option<String>,
    pub(crate) mode: Option<Mode>,
    pub(crate) allow: BTreeSet<String>,
    pub(crate) deny: BTreeSet<String>,
    /// An agent of the rc configuration.
    pub(crate) agent: Option<String>,
    /// What the workspace asks for counts in this run.
    pub(crate) trust: bool,
    pub(crate) limits: Limits,
    pub(crate) style: Style,
    /// Who answers questions.
    pub(crate) person: Option<Person>,
    /// Where sessions are kept, if not where they usually are.
    pub(crate) sessions: Option<PathBuf>,
    /// What was said of the model's answers for this session.
    pub(crate) params: Params,
    /// Commands that adjusted something, in their order.
    pub(crate) adjusted: Vec<(String, String)>,
    /// A recording in place of a model.
    pub(crate) recording: Option<Replay>,
    /// The session that this one goes on from, and a summary of it.
    pub(crate) parent: Option<(Parent, Summary)>,
}

/// `--param-…`, and what commands change; an agent's own fields count more.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Params {
    pub(crate) system: Option<String>,
    pub(crate) max_tokens: Option<u32>,
    pub(crate) temperature: Option<f64>,
    pub(crate) top_p: Option<f64>,
    pub(crate) top_k: Option<u32>,
    pub(crate) thinking: Option<u32>,
    pub(crate) no_color: bool,
}

impl Job {
    fn new(positional: Option<String>, mut prompts: Vec<String>, args: &RunArgs) -> Result<Self, String> {
        prompts.extend(positional);
        let mut it = Self::without_prompt(args)?;
        let prompt = match prompts.as_slice() {
            [] => return Err("missing prompt: sid run PROMPT".to_owned()),
            [one] if one == "-" => from_stdin()?,
            [one] => one.clone(),
            _ => return Err("the prompt was given twice; quote it as one argument".to_owned()),
        };
        if prompt.trim().is_empty() {
            return Err("the prompt is empty".to_owned());
        }
        it.prompt = prompt;
        Ok(it)
    }

    /// Everything but what to do.
    pub(crate) fn without_prompt(args: &RunArgs) -> Result<Self, String> {
        let style = Style::new(args.output, if args.quiet { Quiet::Yes } else { Quiet::No });
        if args.quiet && style == Style::Jsonl {
            return Err("--quiet applies to text output only; leave it out with --output jsonl".to_owned());
        }
        if let Some(id) = args.resume.as_deref().filter(|it| !it.contains('/')) {
            sid_journal::check_id(id).map_err(|err| format!("--resume: {err}"))?;
        }
        let mode =
            args.mode.as_deref().map(str::parse).transpose().map_err(|err: sid_policy::UnknownMode| format!("--mode: {err}"))?;
        let time = args.max_seconds.map(Duration::from_secs);
        let limits = Limits { rounds: rounds(args.max_tool_rounds.as_deref())?, tokens: args.max_tokens_total, time };
        let (cwd, roots) = directories(args)?;
        Ok(Self {
            prompt: String::new(),
            cwd,
            roots,
            resume: args.resume.clone(),
            model: args.model.clone(),
            mode,
            allow: args.allow_tool.iter().cloned().collect(),
            deny: args.deny_tool.iter().cloned().collect(),
            trust: args.trust,
            agent: args.agent.clone(),
            limits,
            style,
            person: None,
            sessions: None,
            params: Params::default(),
            adjusted: Vec::new(),
            recording: None,
            parent: None,
        })
    }
}

fn from_stdin() -> Result<String, String> {
    let mut bytes = Vec::new();
    std::io::stdin()
        .lock()
        .read_to_end(&mut bytes)
        .map_err(|err| format!("the prompt can't be read from standard input: {err}"))?;
    String::from_utf8(bytes)
        .map_err(|err| format!("the prompt on standard input is not UTF-8 (byte {})", err.utf8_error().valid_up_to()))
}

fn rounds(flag: Option<&str>) -> Result<u32, String> {
    let variable = ["SIGIT_MAX_TOOL_ROUNDS", "SID_MAX_TOOL_ROUNDS"].into_iter().find_map(|name| Some((name, var(name)?)));
    let (name, text) = match (flag, variable) {
        (Some(text), _) => ("--max-tool-rounds", text.to_owned()),
        (None, Some(it)) => it,
        (None, None) => return Ok(ROUNDS),
    };
    let number = text.trim().parse().ok().filter(|it| (1..=500).contains(it));
    number.ok_or_else(|| format!("{name} is '{}'; it must be a whole number from 1 to 500", text.escape_debug()))
}

fn directories(args: &RunArgs) -> Result<(PathBuf, Vec<PathBuf>), String> {
    let here = std::env::current_dir().map_err(|err| format!("the current directory can't be used: {err}"))?;
    let cwd = args.cwd.as_ref().map_or_else(|| here.clone(), |it| here.join(it));
    let check = |flag: &str, path: &Path| sid_project::root(path).map_err(|err| format!("{flag}: {err}"));
    check("--cwd", &cwd)?;
    let added: Vec<PathBuf> = args.add_dir.iter().map(|it| here.join(it)).collect();
    added.iter().try_for_each(|it| check("--add-dir", it).map(|_| ()))?;
    Ok((cwd, added))
}

/// Runs a job and says how it went.
pub(crate) fn execute(job: Job) -> ExitCode {
    let mut printer = Printer::new(job.style);
    printer.asked_for(job.resume.clone());
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(it) => it,
        Err(err) => {
            printer.error(&format!("the runtime can't start: {err}"));
            return ExitCode::FAILURE;
        }
    };
    let code = runtime.block_on(drive(job, &mut printer));
    // A walk that was given up may still be on its thread.
    runtime.shutdown_timeout(Duration::from_millis(50));
    code
}

async fn drive(job: Job, printer: &mut Printer) -> ExitCode {
    let begun = Instant::now();
    let (stopper, asked) = match Stopper::listen() {
        Ok(it) => it,
        Err(err) => {
            printer.error(&format!("signals can't be heard: {err}"));
            return ExitCode::FAILURE;
        }
    };
    printer.stops(stopper.clone());
    let (prompt, mut watched) = (job.prompt.clone(), Watched::new(&job));
    let interrupt = Interrupt::new(asked);
    let mut engine = match interrupt.or(open(job, printer)).await {
        Ok(Ok(it)) => it,
        Ok(Err(why)) => {
            printer.error(&why);
            return ExitCode::FAILURE;
        }
        Err(_) => {
            printer.error("interrupted before the session was open");
            return by_signal(&stopper);
        }
    };
    let mut tell = |event| printed(printer, &mut watched, event);
    let done = engine.turn(prompt, &interrupt, &mut tell).await;
    engine.close(GRACE).await;
    match done {
        Ok(end) => {
            let interrupted = end.reason == "interrupted" && !printer.closed();
            printer.end(&end, begun.elapsed());
            if interrupted { by_signal(&stopper) } else { ExitCode::SUCCESS }
        }
        Err(failed @ (Failed::Model(_) | Failed::Journal(_))) => {
            printer.error(&failed.to_string());
            ExitCode::FAILURE
        }
    }
}

/// Prints an event; after a call also what has become of the configuration.
pub(crate) fn printed(printer: &mut Printer, watched: &mut Watched, event: Event) {
    let changed = if matches!(event, Event::Result { .. }) { watched.told() } else { None };
    printer.event(event);
    changed.into_iter().for_each(|it| printer.event(Event::Notice(it)));
}

/// 128 and the signal that came.
fn by_signal(stopper: &Stopper) -> ExitCode {
    stopper.signal().map_or(ExitCode::SUCCESS, |it| ExitCode::from(u8::try_from(128 + it).unwrap_or(1)))
}

const NO_SESSIONS: &str = "there is no place for sessions: HOME is not set; set SID_SESSIONS to a folder";

/// Puts an engine together. Errors are sentences for the person.
pub(crate) async fn open(job: Job, printer: &mut Printer) -> Result<Engine, String> {
    let mut places = places();
    places.sessions = job.sessions.clone().or(places.sessions);
    let settings = Settings::load(places.config.as_deref()).map_err(|all| all.join("\n"))?;
    let env = env()?;
    let secrets = settings.secrets(&env);
    sid_sandbox::scrub();
    let own = workspace_rc(&job);
    let setup = configured(&job, &places, own.0.as_deref())?;
    let agent = agent(&job, setup.as_ref())?;
    let named = job.model.clone().or_else(|| agent.and_then(|it| it.model.clone()));
    let (model, wire, model_id) = match job.recording.clone() {
        Some(it) => (Model::Replay(it), Wire::Chat, "none".to_owned()),
        None => model(named.as_deref(), &env, &settings).await?,
    };
    let surface = sid_tools::with_shells(settings.shells.unwrap_or(Shells::Sigit));
    let mut part = match setup.as_ref().zip(agent) {
        Some((setup, agent)) => agents::part(setup, agent)?,
        None => agents::Part { tools: surface, asked: BTreeMap::new(), notices: Vec::new() },
    };
    // What the settings say of a tool counts more than its switch.
    part.asked.extend(settings.tools.clone());
    let root = places.sessions.clone().ok_or(NO_SESSIONS)?;
    let skills = setup.as_ref().zip(agent).map(|(setup, agent)| agents::skills(setup, agent)).unwrap_or_default();
    let (mut fence, about) = fence(&job, &places, &settings, own)?;
    fence.readable.extend(skills.iter().map(|it| it.1.clone()));
    fence.shown = setup.iter().map(|it| it.root.clone()).collect();
    let mut told = told(&fence, &places, agent, (job.params.system.as_deref(), &skills));
    let sampling = sampling(agent, &job.params);
    let unsaid = sampling.unsaid(wire).into_iter().map(|it| format!("{model_id} can't be told of {it}; that is left out"));
    told.notices.extend(unsaid);
    let folder = fence.roots.first().filter(|_| job.sessions.is_none()).and_then(|it| places.folder(it));
    let hook = setup.as_ref().zip(agent).map(|(setup, agent)| agents::hook(setup, agent, &told.files)).transpose()?.flatten();
    let (journal, loaded, id) = session(&job, root)?;
    let mut environment = environment(&secrets, &settings, journal.dir(), fence.roots.first());
    colours(agent, &job.params, &mut environment);
    let rules = Rules {
        mode: job.mode.or(settings.mode).unwrap_or(if job.person.is_some() { Mode::Auto } else { Mode::Manual }),
        fence: Arc::new(fence),
        allow: job.allow,
        deny: job.deny,
        default: settings.default,
        tools: part.asked,
    };
    let host = Host::new(environment, journal.dir().join("before")).with_folder(folder).with_tee(kept(&journal, &secrets));
    let resumed = job.resume.is_some();
    let host = contained(host, &settings, &rules.fence, &id).await.inspect_err(|_| journal.forget_unwritten())?;
    let (records, notices) = (loaded.records, [loaded.notices, about, part.notices, told.notices].concat());
    let parts = Parts {
        journal,
        records,
        id: id.clone(),
        model,
        wire,
        model_id,
        skills,
        sampling,
        budget: agent.and_then(|it| it.session_budget),
        compaction: compaction(&settings, setup.as_ref()),
        tools: part.tools,
        instructions: told.text,
        rules,
        host,
        limits: job.limits,
        review: reviews(&settings, &places),
        after_cut: if job.person.is_some() { AfterCut::KeepJobs } else { AfterCut::EndJobs },
        hook,
        person: job.person,
        secrets,
    };
    let unwritable = |err: std::io::Error| format!("the session's journal can't be written: {err}");
    let mut engine = Engine::open(parts).map_err(unwritable)?;
    if let Some((parent, summary)) = job.parent {
        engine.continue_from(parent, summary).map_err(unwritable)?;
    }
    notices.into_iter().chain(settings.notices).for_each(|it| printer.event(Event::Notice(it)));
    printer.event(Event::Session { id, resumed });
    Ok(engine)
}

/// With the container that the settings ask for, and without what an earlier sid left behind.
async fn contained(host: Host, settings: &Settings, fence: &Fence, session: &str) -> Result<Host, String> {
    let host = match &settings.docker {
        Some(docker) => host.with_docker(docker, &fence.roots, session).await?,
        None => host,
    };
    host.tidy(fence);
    Ok(host)
}

/// Where the streams of programs are kept.
fn kept(journal: &Journal, secrets: &[String]) -> Arc<dyn Tee> {
    #[derive(Debug)]
    struct Kept(Streams);
    impl Tee for Kept {
        fn last_call(&self) -> u32 {
            self.0.last_call()
        }
        fn copy(&self, call: u32, stream: Stream, bytes: &[u8]) {
            self.0.append(call, stream.name(), bytes);
        }
    }
    Arc::new(Kept(Streams::new(journal.dir(), secrets.to_vec())))
}

/// The session's journal, what it holds, and its id.
fn session(job: &Job, root: PathBuf) -> Result<(Journal, Loaded, String), String> {
    let store = Store::new(root);
    let keep = |err: sid_journal::Error| match err {
        sid_journal::Error::Io(path, err) => {
            format!("the session can't be kept at {}: {err}; set SID_SESSIONS to a folder that can be written", path.display())
        }
        other => other.to_string(),
    };
    let Some(spec) = &job.resume else {
        // A person's sessions are named by the time that they remember.
        let id = if job.person.is_some() { new_local_id() } else { new_id() };
        return Ok((store.create(&id).map_err(keep)?, Loaded::default(), id));
    };
    let (journal, loaded) = store.open(spec).map_err(|err| err.to_string())?;
    let id = journal.dir().file_name().map(|it| it.to_string_lossy().into_owned()).unwrap_or_default();
    Ok((journal, loaded, id))
}

/// The rc configuration. A demo has a world of its own, without the user's agents.
pub(crate) fn setup(job: &Job, places: &Places) -> Result<Option<Setup>, String> {
    configured(job, places, workspace_rc(job).0.as_deref())
}

/// The same, with the workspace's own if that counts.
fn configured(job: &Job, places: &Places, own: Option<&Path>) -> Result<Option<Setup>, String> {
    let Some(root) = own.or(places.config.as_deref()).filter(|_| job.sessions.is_none()) else { return Ok(None) };
    let found = Setup::load(root, &|name| std::env::var(name).ok());
    found.map_err(|all| all.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))
}

/// The workspace's own rc configuration, if it counts; else why not.
fn workspace_rc(job: &Job) -> (Option<PathBuf>, Option<String>) {
    trust::workspace_rc(&job.cwd, if job.trust { Standing::Trusted } else { Standing::Untrusted })
}

/// What the model is told besides sid's own words: the agent's prompt, and the files for agents.
struct Told {
    text: Option<String>,
    /// The files for agents that were read.
    files: Vec<PathBuf>,
    notices: Vec<String>,
}

/// What children find around them.
fn environment(secrets: &[String], settings: &Settings, session: &Path, workspace: Option<&PathBuf>) -> Environment {
    let mut it = Environment::new(std::env::vars_os(), secrets, &settings.drop);
    it.set("SID_SESSION_ID", session.file_name().unwrap_or_default());
    it.set("SID_SESSION_DIR", session);
    workspace.iter().for_each(|workspace| it.set("SID_WORKSPACE_ROOT", *workspace));
    settings.set.iter().for_each(|(name, value)| it.set(name, value.clone()));
    it
}

/// Colours as the agent wants them, else as the command line does; children are told of a no.
fn colours(agent: Option<&Agent>, params: &Params, environment: &mut Environment) {
    let wanted = agent.and_then(|it| it.color).or(params.no_color.then_some(false));
    paint::want(wanted);
    if wanted == Some(false) {
        environment.set("NO_COLOR", "1");
    }
}

/// How crossings are reviewed.
fn reviews(settings: &Settings, places: &Places) -> ReviewSettings {
    ReviewSettings {
        model: settings.review_model.clone(),
        user_policy: places.config.as_ref().map(|it| it.join("SECURITY.md")),
        when_unavailable: settings.when_unavailable,
        time: None,
    }
}

/// When and by whom conversations are compacted.
fn compaction(settings: &Settings, setup: Option<&Setup>) -> Compaction {
    let at = Some(settings.compact_at.unwrap_or(COMPACT_AT)).filter(|it| *it > 0);
    Compaction { at, system: setup.and_then(|it| it.agents.iter().find(|it| it.id == "compact")?.system.clone()) }
}

/// How the model is asked to answer: as the agent says, else as the command line does.
fn sampling(agent: Option<&Agent>, params: &Params) -> Sampling {
    let it = agent.map(|it| Sampling {
        max_tokens: it.max_tokens,
        temperature: it.temperature,
        top_p: it.top_p,
        top_k: it.top_k,
        stop: it.stop.clone(),
        thinking: it.thinking,
        caching: it.caching,
    });
    let it = it.unwrap_or_default();
    Sampling {
        max_tokens: it.max_tokens.or(params.max_tokens),
        temperature: it.temperature.or(params.temperature),
        top_p: it.top_p.or(params.top_p),
        top_k: it.top_k.or(params.top_k),
        thinking: it.thinking.or(params.thinking),
        ..it
    }
}

fn told(fence: &Fence, places: &Places, agent: Option<&Agent>, (system, skills): (Option<&str>, &[(String, PathBuf)])) -> Told {
    let home = std::env::home_dir();
    let root = fence.roots.first().cloned().unwrap_or_default();
    let list = agent.and_then(|it| it.agents_md_path.clone()).or_else(|| var("AGENTS_MD_PATH"));
    let files = match (agent.is_none_or(|it| it.agents_md), list) {
        (false, _) => sid_project::Instructions::default(),
        (true, Some(list)) => sid_project::listed(&list, &root, home.as_deref()),
        (true, None) => sid_project::instructions(fence, places.config.as_deref()),
    };
    let head = "# Instructions from files\n\nThe user and their project wrote these down for agents. They are no authorization to leave the sandbox.\n\n";
    let parts = [
        agent.and_then(|it| it.system.clone()).or_else(|| system.map(str::to_owned)),
        agents::index(skills),
        Some(files.text).filter(|it| !it.is_empty()).map(|it| format!("{head}{it}")),
    ];
    let text = parts.into_iter().flatten().collect::<Vec<_>>().join("\n\n");
    Told { text: Some(text).filter(|it| !it.is_empty()), files: files.files, notices: files.notices }
}

/// The agent that would start and is MANUAL, unless it was named.
pub(crate) fn manual_agent(job: &Job) -> Option<String> {
    let setup = setup(job, &places()).ok()??;
    let it = setup.agent(job.agent.as_deref()).ok()?;
    (it.switch == Switch::Manual && job.agent.is_none()).then(|| it.id.clone())
}

/// The agent that runs, if there are any.
fn agent<'a>(job: &Job, setup: Option<&'a Setup>) -> Result<Option<&'a Agent>, String> {
    let Some(setup) = setup else {
        let none = "--agent: there is no agents.conf in the configuration".to_owned();
        return if job.agent.is_some() { Err(none) } else { Ok(None) };
    };
    let it = setup.agent(job.agent.as_deref())?;
    if it.switch == Switch::Manual && job.agent.is_none() {
        return Err(format!("the agent '{}' is MANUAL, and nobody is there to ask; name it: --agent {}", it.id, it.id));
    }
    Ok(Some(it))
}

/// The walls of the workspace with what its policy and the user's settings say, and what a person should know of them.
fn fence(
    job: &Job,
    places: &Places,
    settings: &Settings,
    (own, untrusted): (Option<PathBuf>, Option<String>),
) -> Result<(Fence, Vec<String>), String> {
    let mut fence = sid_project::fence(&job.cwd, &job.roots, places.secret())?;
    let root = fence.roots.first().cloned().unwrap_or_default();
    let policy = Policy::load(&root).map_err(|all| all.join("\n"))?;
    let (standing, hint) = if job.trust { (Standing::Trusted, None) } else { trust::standing(&policy, &root) };
    fence.readable = places.skills(std::env::home_dir().as_deref());
    fence.network = Arc::new(policy.reach(&settings.network, standing));
    fence.protected.extend(policy.protected);
    for root in fence.roots.clone() {
        fence.protected.extend(places.below(&root));
        let active = own.as_ref().or(places.config.as_ref()).and_then(|it| std::fs::canonicalize(it).ok());
        if active.is_some_and(|it| it == root) {
            fence.protected.extend(["agents.conf", "tools.conf", "agents", "tools"].map(str::to_owned));
        }
    }
    let untrusted = untrusted.filter(|_| job.sessions.is_none());
    Ok((fence, policy.notices.into_iter().chain(hint).chain(untrusted).collect()))
}

/// A model by its name, in the same world that a session starts in.
///
/// # Errors
/// Why there is none, in a sentence.
pub(crate) async fn model_named(name: &str) -> Result<(Model, Wire, String), String> {
    let settings = Settings::load(places().config.as_deref()).map_err(|all| all.join("\n"))?;
    model(Some(name), &env()?, &settings).await
}

async fn model(named: Option<&str>, env: &sid_provider::Env, settings: &Settings) -> Result<(Model, Wire, String), String> {
    match resolve(named, env, &settings.profiles).map_err(|it| it.0)? {
        Resolved::Replay(path) => {
            let name = format!("replay:{}", path.display());
            Ok((Model::Replay(Replay::load(&path)?), Wire::Chat, name))
        }
        Resolved::Endpoint(endpoint) => {
            let wire = endpoint.wire;
            let mut http = Http::new(endpoint).map_err(|it| it.message)?;
            let model_id = http.model().await.map_err(|it| it.message)?;
            Ok((Model::Http(Box::new(http)), wire, model_id))
        }
    }
}
