//! `settings.toml` and `providers.toml`: their keys, and what they mean.
use std::{
    collections::BTreeMap,
    io,
    path::{Path, PathBuf},
};

use rustyline::EditMode;
use sid_config::{Complaint, Key, Kind, Layer, Value};
use sid_engine::WhenUnavailable;
use sid_policy::{Default as Stance, Mode, Network};
use sid_project::{NETWORK, setup::InForce};
use sid_provider::{Env, Profile, Profiles};
use sid_sandbox::DockerSettings;
use sid_tools::Shells;

use crate::paths::var;

const STANCES: &[&str] = &["allow", "ask", "deny"];
const MODES: &[&str] = &["plan", "read_only", "manual", "workspace_write", "auto", "full_access"];

/// The keys of `settings.toml`.
pub(crate) const SETTINGS: &[Key] = &[
    Key {
        path: "tools.shells",
        kind: Kind::OneOf(&["sigit", "claude", "codex", "grok"]),
        doc: "whose names and schemas the shell tools have; sigit if absent",
    },
    Key { path: "permissions.mode", kind: Kind::OneOf(MODES), doc: "the mode of headless runs without --mode" },
    Key { path: "permissions.default", kind: Kind::OneOf(STANCES), doc: "what happens to tools that change something" },
    Key { path: "permissions.tools.*", kind: Kind::OneOf(STANCES), doc: "the same for one tool, by its name or its operation" },
    Key {
        path: "permissions.review_model",
        kind: Kind::Text,
        doc: "the model that reviews in auto, as the endpoint knows it; else the session's own",
    },
    Key {
        path: "permissions.when_unavailable",
        kind: Kind::OneOf(&["deny", "ask"]),
        doc: "what happens in auto when no review can be made; `ask` needs a front end with a person, and denies in headless runs",
    },
    Key {
        path: "context.compact_at",
        kind: Kind::Number,
        doc: "about how many tokens a conversation may have before it is replaced by a summary; 150000 if absent, 0: only when the provider refuses it",
    },
    Key {
        path: "line.editing",
        kind: Kind::OneOf(&["emacs", "vi"]),
        doc: "the keys that edit a line at the prompt; emacs if absent",
    },
    Key { path: "local_inference", kind: Kind::Switch, doc: "known from siGit; has no effect in this build, and says so" },
    Key { path: "hooks.session_start", kind: Kind::Texts, doc: "known from siGit; not run by this build, which says so" },
    Key { path: "hooks.pre_tool_use", kind: Kind::Texts, doc: "the same" },
    Key { path: "hooks.post_tool_use", kind: Kind::Texts, doc: "the same" },
    Key { path: "hooks.timeout_secs", kind: Kind::Number, doc: "the same" },
    Key { path: "docker.container", kind: Kind::Text, doc: "run commands in this container, which has to run" },
    Key { path: "docker.image", kind: Kind::Text, doc: "or in one made from this image, which has to be there already" },
    Key { path: "docker.workdir", kind: Kind::Text, doc: "where the workspace is inside; /workspace if absent" },
    Key {
        path: "docker.name",
        kind: Kind::Text,
        doc: "the name of the container that is made; one with a name is kept and used again",
    },
    Key { path: "docker.env.*", kind: Kind::Text, doc: "variables of the container that is made" },
    Key {
        path: "docker.mounts.*.source",
        kind: Kind::Text,
        doc: "a further folder of this machine in it; relative to the workspace",
    },
    Key { path: "docker.mounts.*.target", kind: Kind::Text, doc: "where that is inside" },
    Key { path: "docker.mounts.*.read_only", kind: Kind::Switch, doc: "whether it can't be written there" },
    Key { path: "docker.socket_path", kind: Kind::Text, doc: "Docker's socket, if it is not where it usually is" },
    Key { path: "environment.drop", kind: Kind::Texts, doc: "variables that children never see" },
    Key { path: "environment.set.*", kind: Kind::Text, doc: "variables that children see with this value" },
];

/// The keys of `providers.toml`.
pub(crate) const PROVIDERS: &[Key] = &[
    Key { path: "active", kind: Kind::Text, doc: "the provider used when no model is named" },
    Key { path: "provider.*.name", kind: Kind::Text, doc: "its name, the prefix of NAME/MODEL" },
    Key { path: "provider.*.base_url", kind: Kind::Text, doc: "its address; for wire chat with its version part" },
    Key { path: "provider.*.api_key", kind: Kind::Text, doc: "its key, or file://PATH of a file that holds it" },
    Key { path: "provider.*.model", kind: Kind::Text, doc: "its model when only the provider is named" },
    Key { path: "provider.*.wire", kind: Kind::OneOf(&["chat", "messages"]), doc: "how to speak to it; chat if absent" },
];

/// What the configuration says.
#[derive(Debug, Default)]
pub(crate) struct Settings {
    pub(crate) mode: Option<Mode>,
    pub(crate) default: Option<Stance>,
    pub(crate) tools: BTreeMap<String, Stance>,
    pub(crate) review_model: Option<String>,
    pub(crate) network: Network,
    pub(crate) when_unavailable: WhenUnavailable,
    pub(crate) shells: Option<Shells>,
    pub(crate) docker: Option<DockerSettings>,
    /// Tokens from which conversations are compacted; 0 is never.
    pub(crate) compact_at: Option<u64>,
    /// How a line is edited at the prompt.
    pub(crate) editing: Option<EditMode>,
    pub(crate) drop: Vec<String>,
    pub(crate) set: Vec<(String, String)>,
    pub(crate) profiles: Profiles,
    /// What a person should know of the files.
    pub(crate) notices: Vec<String>,
}

impl Settings {
    /// Reads both files below `root`, and `SIGIT_PERMISSIONS`. What is wrong anywhere stops the start: a mistake in a rule
    /// must not widen anything.
    pub(crate) fn load(root: Option<&Path>) -> Result<Self, Vec<String>> {
        let mut it = Self::default();
        let mut wrong = Vec::new();
        if let Some(root) = root {
            let keys: Vec<Key> = SETTINGS.iter().chain(NETWORK).copied().collect();
            match layer(root.join("settings.toml"), &keys) {
                Ok(layer) => wrong.extend(it.take_settings(&layer)),
                Err(complaints) => wrong.extend(complaints),
            }
            match layer(root.join("providers.toml"), PROVIDERS) {
                Ok(layer) => wrong.extend(it.take_profiles(&layer)),
                Err(complaints) => wrong.extend(complaints),
            }
        }
        if let Some(word) = var("SIGIT_PERMISSIONS") {
            match stance(word.trim()) {
                Some(stance) => it.default = Some(stance),
                None => wrong.push(format!("SIGIT_PERMISSIONS is '{}'; it can be allow, ask or deny", word.escape_debug())),
            }
        }
        if wrong.is_empty() { Ok(it) } else { Err(wrong) }
    }

    fn take_settings(&mut self, layer: &Layer) -> Vec<String> {
        let shells = layer.text("tools.shells");
        self.shells = Shells::ALL.into_iter().find(|it| Some(it.0) == shells).map(|it| it.1);
        self.mode = layer.text("permissions.mode").and_then(|it| it.parse().ok());
        self.default = layer.text("permissions.default").and_then(stance);
        if layer.text("permissions.when_unavailable") == Some("ask") {
            self.when_unavailable = WhenUnavailable::Ask;
        }
        if layer.text("line.editing") == Some("vi") {
            self.editing = Some(EditMode::Vi);
        }
        self.review_model = layer.text("permissions.review_model").map(str::to_owned);
        self.tools =
            layer.below("permissions.tools").filter_map(|(name, it)| Some((name.to_owned(), stance(text(it)?)?))).collect();
        let (docker, mut wrong) = docker(layer);
        self.docker = docker;
        if let Some(Value::Number(n)) = layer.get("context.compact_at") {
            match u64::try_from(*n) {
                Ok(it) => self.compact_at = Some(it),
                Err(_) => wrong.push(
                    layer
                        .complaint("context.compact_at", 0, format!("`context.compact_at` is {n}; it can't be below 0"))
                        .to_string(),
                ),
            }
        }
        let unused = ["local_inference", "hooks.session_start", "hooks.pre_tool_use", "hooks.post_tool_use"];
        let unused = unused.into_iter().filter(|it| layer.get(it).is_some());
        self.notices = unused.map(|it| format!("{}: `{it}` has no effect in this build", layer.file().display())).collect();
        self.drop = layer.texts("environment.drop").to_vec();
        self.set = layer.below("environment.set").filter_map(|(name, it)| Some((name.to_owned(), text(it)?.to_owned()))).collect();
        match sid_project::network(layer) {
            Ok(it) => {
                self.network = it.unwrap_or_default();
            }
            Err(all) => wrong.extend(all.iter().map(Complaint::to_string)),
        }
        wrong
    }

    fn take_profiles(&mut self, layer: &Layer) -> Vec<String> {
        let mut wrong = Vec::new();
        self.profiles.active = layer.text("active").filter(|it| !it.is_empty()).map(str::to_owned);
        for n in 0..layer.len_of("provider") {
            let get = |key: &str| layer.text(&format!("provider.{n}.{key}")).unwrap_or_default().to_owned();
            let key = key_of(&get("api_key"), layer.file()).unwrap_or_else(|why| {
                wrong.push(why);
                String::new()
            });
            let profile =
                Profile { name: get("name"), base_url: get("base_url"), api_key: key, model: get("model"), wire: get("wire") };
            self.profiles.all.push(profile);
        }
        wrong
    }

    /// Every key that is in use anywhere; none of them may reach a child, an outcome or a journal.
    pub(crate) fn secrets(&self, env: &Env) -> Vec<String> {
        let keys = [&env.anthropic_key, &env.openai_key, &env.xai_key].into_iter().filter_map(Clone::clone);
        let mut all: Vec<String> = keys.chain(self.profiles.all.iter().map(|it| it.api_key.clone())).collect();
        all.retain(|it| !it.is_empty());
        all.sort_unstable();
        all.dedup();
        all
    }
}

/// What the two files below `root` say, each with its place; keys of providers only as there or not.
///
/// # Errors
/// Everything that is wrong with them.
pub(crate) fn in_force(root: &Path) -> Result<Vec<InForce>, Vec<String>> {
    let keys: Vec<Key> = SETTINGS.iter().chain(NETWORK).copied().collect();
    let mut out = Vec::new();
    for (name, keys) in [("settings.toml", keys.as_slice()), ("providers.toml", PROVIDERS)] {
        let layer = layer(root.join(name), keys)?;
        let all = layer.all().map(|(name, value, line)| {
            let secret = name.ends_with(".api_key");
            let value = if secret { "(set)".to_owned() } else { value.to_string() };
            InForce { name, value, origin: format!("{}:{line}", layer.file().display()), doc: None }
        });
        out.extend(all);
    }
    Ok(out)
}

/// The `[docker]` table.
fn docker(layer: &Layer) -> (Option<DockerSettings>, Vec<String>) {
    let get = |key: &str| layer.text(&format!("docker.{key}")).map(str::to_owned);
    let mounts = (0..layer.len_of("docker.mounts")).map(|n| {
        let get = |key: &str| get(&format!("mounts.{n}.{key}")).unwrap_or_default();
        let read_only = layer.get(&format!("docker.mounts.{n}.read_only")) == Some(&Value::Switch(true));
        (get("source").into(), get("target").into(), read_only)
    });
    let it = DockerSettings {
        container: get("container"),
        image: get("image"),
        workdir: get("workdir").unwrap_or_else(|| "/workspace".to_owned()).into(),
        name: get("name"),
        env: layer.below("docker.env").filter_map(|(name, it)| Some((name.to_owned(), text(it)?.to_owned()))).collect(),
        mounts: mounts.collect(),
        socket: get("socket_path").map(Into::into),
    };
    let mut wrong = Vec::new();
    let mut complain = |key: &str, text: String| wrong.push(layer.complaint(key, 0, text).to_string());
    if it.container.is_some() && it.image.is_some() {
        complain("docker.image", "`docker.container` and `docker.image` can't both be set".to_owned());
    }
    if !it.workdir.is_absolute() {
        complain("docker.workdir", "`docker.workdir` must be an absolute path".to_owned());
    }
    if it.container.is_some() && (it.name.is_some() || !it.env.is_empty() || !it.mounts.is_empty()) {
        complain("docker.container", "`docker.name`, `docker.env` and `docker.mounts` go with `docker.image` only".to_owned());
    }
    if it.mounts.iter().any(|(source, target, _)| source.as_os_str().is_empty() || !target.is_absolute()) {
        complain("docker.mounts.0.source", "each of `docker.mounts` needs a `source` and an absolute `target`".to_owned());
    }
    let wanted = it.container.is_some() || it.image.is_some();
    (wanted.then_some(it), wrong)
}

/// What the environment says of models, as it was at the start: keys are wiped from it later.
pub(crate) fn env() -> Result<Env, String> {
    static KNOWN: std::sync::OnceLock<Result<Env, String>> = std::sync::OnceLock::new();
    KNOWN.get_or_init(read_env).clone()
}

/// `file://` values are read.
fn read_env() -> Result<Env, String> {
    let key = |name: &str| var(name).map(|it| key_of(it.trim(), Path::new(name))).transpose();
    Ok(Env {
        anthropic_key: match key("ANTHROPIC_API_KEY")? {
            Some(it) => Some(it),
            None => key("CLAUDIUS_API_KEY")?,
        },
        anthropic_url: var("ANTHROPIC_BASE_URL"),
        openai_key: key("OPENAI_API_KEY")?,
        openai_url: var("OPENAI_BASE_URL"),
        xai_key: key("XAI_API_KEY")?,
        model: var("SID_MODEL").or_else(|| var("SIGIT_MODEL")),
    })
}

/// A key as it is, or the trimmed content of the file it names.
fn key_of(value: &str, place: &Path) -> Result<String, String> {
    let Some(path) = value.strip_prefix("file://") else { return Ok(value.to_owned()) };
    let text =
        std::fs::read_to_string(path).map_err(|err| format!("{}: the key file {path} can't be read: {err}", place.display()))?;
    Ok(text.trim().to_owned())
}

fn layer(path: PathBuf, keys: &[Key]) -> Result<Layer, Vec<String>> {
    match std::fs::read_to_string(&path) {
        Ok(text) => Layer::parse(&path, &text, keys).map_err(|all| all.iter().map(Complaint::to_string).collect()),
        Err(err) if matches!(err.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => Ok(Layer::default()),
        Err(err) => Err(vec![format!("{}: {err}", path.display())]),
    }
}

fn stance(word: &str) -> Option<Stance> {
    match word {
        "allow" => Some(Stance::Allow),
        "ask" => Some(Stance::Ask),
        "deny" => Some(Stance::Deny),
        _ => None,
    }
}

fn text(it: &Value) -> Option<&str> {
    if let Value::Text(text) = it { Some(text) } else { None }
}
