//! From a model's name and what is configured to an endpoint (DESIGN §5). Pure.
use std::path::PathBuf;

/// A wire format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wire {
    /// OpenAI Chat Completions.
    Chat,
    /// Anthropic Messages.
    Messages,
}

/// Where a model is, and how to speak to it.
#[derive(Clone, PartialEq, Eq)]
pub struct Endpoint {
    /// The format.
    pub wire: Wire,
    /// Without a final slash; for Chat Completions with its version part (`/v1`).
    pub base_url: String,
    /// The key, if the endpoint wants one.
    pub key: Option<String>,
    /// Where the key came from, for messages: "`OPENAI_API_KEY`".
    pub key_source: String,
    /// The model as the endpoint knows it.
    pub model: String,
}

impl std::fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Endpoint({:?} {} {})", self.wire, self.base_url, self.model)
    }
}

impl Endpoint {
    /// The host and port, for messages.
    #[must_use]
    pub fn host(&self) -> &str {
        let rest = self.base_url.split_once("://").map_or(self.base_url.as_str(), |(_, rest)| rest);
        let host = rest.split(['/', '?']).next().unwrap_or(rest);
        host.rsplit_once('@').map_or(host, |(_, host)| host)
    }

    /// Where requests go.
    #[must_use]
    pub fn url(&self) -> String {
        match self.wire {
            Wire::Chat => format!("{}/chat/completions", self.base_url),
            Wire::Messages if self.base_url.ends_with("/v1") => format!("{}/messages", self.base_url),
            Wire::Messages => format!("{}/v1/messages", self.base_url),
        }
    }
}

/// A `[[provider]]` of `providers.toml`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Profile {
    /// Its name.
    pub name: String,
    /// Its address.
    pub base_url: String,
    /// Its key.
    pub api_key: String,
    /// Its model.
    pub model: String,
    /// `chat` (the default) or `messages`.
    pub wire: String,
}

/// `providers.toml`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Profiles {
    /// The profile in use when no model is named.
    pub active: Option<String>,
    /// All of them.
    pub all: Vec<Profile>,
}

/// What the environment says; blank values count as unset.
#[derive(Debug, Clone, Default)]
pub struct Env {
    /// `ANTHROPIC_API_KEY`, else `CLAUDIUS_API_KEY`.
    pub anthropic_key: Option<String>,
    /// `ANTHROPIC_BASE_URL`.
    pub anthropic_url: Option<String>,
    /// `OPENAI_API_KEY`.
    pub openai_key: Option<String>,
    /// `OPENAI_BASE_URL`.
    pub openai_url: Option<String>,
    /// `XAI_API_KEY`.
    pub xai_key: Option<String>,
    /// `SID_MODEL`, else `SIGIT_MODEL`.
    pub model: Option<String>,
}

/// What a name stands for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Resolved {
    /// An endpoint.
    Endpoint(Endpoint),
    /// A recording.
    Replay(PathBuf),
}

/// No model; the sentence says what to set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unresolved(pub String);

const ANTHROPIC: &str = "https://api.anthropic.com";
const OPENAI: &str = "https://api.openai.com/v1";
const XAI: &str = "https://api.x.ai/v1";

/// Finds the endpoint for `named` (`--model`), the environment and the profiles, in the order of DESIGN §5.
///
/// # Errors
/// Nothing is configured, or the name needs something that isn't.
pub fn resolve(named: Option<&str>, env: &Env, profiles: &Profiles) -> Result<Resolved, Unresolved> {
    let wanted = named.or(env.model.as_deref());
    if let Some(file) = wanted.and_then(|it| it.strip_prefix("replay:")) {
        return Ok(Resolved::Replay(file.into()));
    }
    let endpoint = match wanted {
        Some(name) => by_name(name, named, env, profiles)?,
        None => by_default(env, profiles)?,
    };
    Ok(Resolved::Endpoint(endpoint))
}

fn by_name(name: &str, asked: Option<&str>, env: &Env, profiles: &Profiles) -> Result<Endpoint, Unresolved> {
    if let Some((prefix, model)) = name.split_once('/') {
        if let Some(profile) = profiles.all.iter().find(|it| it.name == prefix) {
            return of_profile(profile, Some(model));
        }
        match prefix {
            "anthropic" => return anthropic(env, model).ok_or_else(|| missing("ANTHROPIC_API_KEY", name)),
            "openai" => return openai(env, model).ok_or_else(|| missing("OPENAI_API_KEY", name)),
            "xai" => return xai(env, model).ok_or_else(|| missing("XAI_API_KEY", name)),
            "local" => {
                return Err(Unresolved(format!(
                    "'{name}': on-device models are not part of this build; point OPENAI_BASE_URL at a local server instead"
                )));
            }
            _ => {}
        }
    }
    if let Some(profile) = profiles.all.iter().find(|it| it.name == name) {
        return of_profile(profile, None);
    }
    let profile = profiles.active.as_ref().and_then(|active| profiles.all.iter().find(|it| it.name == *active));
    if let Some(profile) = profile.filter(|_| asked.is_none() || (anthropic(env, name).is_none() && openai(env, name).is_none())) {
        return of_profile(profile, Some(name));
    }
    let messages = || anthropic(env, name);
    let chat = || openai(env, name).or_else(|| name.starts_with("grok").then(|| xai(env, name)).flatten());
    let found = if name.starts_with("claude") { messages().or_else(chat) } else { chat().or_else(messages) };
    found.ok_or_else(|| Unresolved(format!("no endpoint for model '{name}': {SET_UP}")))
}

fn by_default(env: &Env, profiles: &Profiles) -> Result<Endpoint, Unresolved> {
    let overridden = env.openai_url.is_some() || env.anthropic_url.is_some();
    if let Some(active) = profiles.active.as_ref().filter(|_| !overridden) {
        let names = || profiles.all.iter().map(|it| it.name.as_str()).collect::<Vec<_>>().join(", ");
        let found = profiles.all.iter().find(|it| it.name == *active);
        let profile = found.ok_or_else(|| {
            Unresolved(format!("providers.toml: the active provider '{active}' is not defined; there are: {}", names()))
        })?;
        return of_profile(profile, None);
    }
    let chat = || openai(env, if env.openai_url.is_some() { "" } else { "gpt-5.1" });
    let messages = || anthropic(env, "claude-sonnet-4-5");
    let found = if env.anthropic_url.is_some() && env.openai_url.is_none() { messages().or_else(chat) } else { None };
    let found = found.or_else(|| if env.openai_url.is_some() { chat() } else { None });
    let grok = || xai(env, "grok-4");
    found.or_else(messages).or_else(chat).or_else(grok).ok_or_else(|| Unresolved(format!("no model is configured: {SET_UP}")))
}

const SET_UP: &str = "set ANTHROPIC_API_KEY or OPENAI_API_KEY, or OPENAI_BASE_URL for a compatible or local server, \
     or name a provider in providers.toml (`sid doctor` shows what was found; `sid demo` needs no model)";

fn missing(variable: &str, name: &str) -> Unresolved {
    Unresolved(format!("model '{name}' needs {variable}, which is not set"))
}

fn of_profile(it: &Profile, model: Option<&str>) -> Result<Endpoint, Unresolved> {
    let wire = match it.wire.as_str() {
        "messages" | "anthropic" => Wire::Messages,
        "" | "chat" | "openai" => Wire::Chat,
        other => {
            return Err(Unresolved(format!(
                "providers.toml: provider '{}' has wire '{other}'; the wires are chat, messages",
                it.name
            )));
        }
    };
    let model = model.unwrap_or(&it.model).to_owned();
    if it.base_url.trim().is_empty() {
        return Err(Unresolved(format!("providers.toml: provider '{}' has no base_url", it.name)));
    }
    let key_source = format!("api_key of provider '{}' in providers.toml", it.name);
    Ok(Endpoint {
        wire,
        base_url: trimmed(&it.base_url),
        key: Some(it.api_key.clone()).filter(|it| !it.is_empty()),
        key_source,
        model,
    })
}

fn anthropic(env: &Env, model: &str) -> Option<Endpoint> {
    if env.anthropic_key.is_none() && env.anthropic_url.is_none() {
        return None;
    }
    let base_url = trimmed(env.anthropic_url.as_deref().unwrap_or(ANTHROPIC));
    let key_source = "ANTHROPIC_API_KEY".to_owned();
    Some(Endpoint { wire: Wire::Messages, base_url, key: env.anthropic_key.clone(), key_source, model: model.to_owned() })
}

fn openai(env: &Env, model: &str) -> Option<Endpoint> {
    if env.openai_key.is_none() && env.openai_url.is_none() {
        return None;
    }
    let base_url = trimmed(env.openai_url.as_deref().unwrap_or(OPENAI));
    Some(Endpoint {
        wire: Wire::Chat,
        base_url,
        key: env.openai_key.clone(),
        key_source: "OPENAI_API_KEY".to_owned(),
        model: model.to_owned(),
    })
}

fn xai(env: &Env, model: &str) -> Option<Endpoint> {
    let key = env.xai_key.clone()?;
    Some(Endpoint {
        wire: Wire::Chat,
        base_url: XAI.to_owned(),
        key: Some(key),
        key_source: "XAI_API_KEY".to_owned(),
        model: model.to_owned(),
    })
}

fn trimmed(url: &str) -> String {
    url.trim().trim_end_matches('/').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn env(keys: &[(&str, &str)]) -> Env {
        let get = |name: &str| keys.iter().find(|it| it.0 == name).map(|it| it.1.to_owned());
        Env {
            anthropic_key: get("ak"),
            anthropic_url: get("au"),
            openai_key: get("ok"),
            openai_url: get("ou"),
            xai_key: get("xk"),
            model: get("m"),
        }
    }

    fn profiles() -> Profiles {
        let of = |name: &str, wire: &str| Profile {
            name: name.into(),
            base_url: format!("http://{name}.test/v1/"),
            api_key: "k".into(),
            model: format!("{name}-model"),
            wire: wire.into(),
        };
        Profiles { active: Some("main".into()), all: vec![of("main", ""), of("claude-proxy", "messages")] }
    }

    fn url(named: Option<&str>, keys: &[(&str, &str)], profiles: &Profiles) -> String {
        match resolve(named, &env(keys), profiles) {
            Ok(Resolved::Endpoint(it)) => format!("{} {}", it.url(), it.model),
            Ok(Resolved::Replay(path)) => format!("replay {}", path.display()),
            Err(Unresolved(why)) => format!("! {why}"),
        }
    }

    #[test]
    fn names_find_their_endpoint() {
        let none = Profiles::default();
        let both = [("ak", "a"), ("ok", "o")];
        for (named, keys, profiles, want) in [
            (None, &both[..], &none, "https://api.anthropic.com/v1/messages claude-sonnet-4-5"),
            (Some("gpt-5.1"), &both[..], &none, "https://api.openai.com/v1/chat/completions gpt-5.1"),
            (Some("claude-opus-4-5"), &both[..], &none, "https://api.anthropic.com/v1/messages claude-opus-4-5"),
            (Some("claude-x"), &[("ou", "http://l:1/v1/")][..], &none, "http://l:1/v1/chat/completions claude-x"),
            (Some("anthropic/m"), &both[..], &none, "https://api.anthropic.com/v1/messages m"),
            (Some("openai/m"), &both[..], &none, "https://api.openai.com/v1/chat/completions m"),
            (Some("xai/grok-4"), &[("xk", "x")][..], &none, "https://api.x.ai/v1/chat/completions grok-4"),
            (None, &[("au", "http://l:1")][..], &none, "http://l:1/v1/messages claude-sonnet-4-5"),
            (None, &[("ou", "http://l:1/v1"), ("m", "env-model")][..], &none, "http://l:1/v1/chat/completions env-model"),
            (None, &[][..], &profiles(), "http://main.test/v1/chat/completions main-model"),
            (Some("claude-proxy/x"), &[][..], &profiles(), "http://claude-proxy.test/v1/messages x"),
            (Some("claude-proxy"), &[][..], &profiles(), "http://claude-proxy.test/v1/messages claude-proxy-model"),
            (Some("other"), &[][..], &profiles(), "http://main.test/v1/chat/completions other"),
            (Some("replay:a/b.jsonl"), &[][..], &none, "replay a/b.jsonl"),
            (Some("org/name"), &[("ou", "http://l:1/v1")][..], &none, "http://l:1/v1/chat/completions org/name"),
        ] {
            assert_eq!(url(named, keys, profiles), want, "{named:?}");
        }
    }

    #[test]
    fn what_is_missing_is_named() {
        let none = Profiles::default();
        assert!(url(None, &[], &none).contains("set ANTHROPIC_API_KEY or OPENAI_API_KEY"));
        assert!(url(Some("openai/x"), &[], &none).contains("needs OPENAI_API_KEY"));
        assert!(url(Some("local/x"), &[], &none).contains("not part of this build"));
        let lost = Profiles { active: Some("gone".into()), ..profiles() };
        assert!(url(None, &[], &lost).contains("'gone' is not defined; there are: main, claude-proxy"));
        let odd = Profiles {
            active: Some("p".into()),
            all: vec![Profile { name: "p".into(), base_url: "u".into(), wire: "x".into(), ..Profile::default() }],
        };
        assert!(url(None, &[], &odd).contains("the wires are chat, messages"));
    }

    #[test]
    fn a_host_never_shows_a_key() {
        let it = Endpoint {
            wire: Wire::Chat,
            base_url: "http://user:pw@h:1/v1".into(),
            key: Some("k".into()),
            key_source: String::new(),
            model: "m".into(),
        };
        assert_eq!(it.host(), "h:1");
        assert!(!format!("{it:?}").contains("key"));
    }
}
