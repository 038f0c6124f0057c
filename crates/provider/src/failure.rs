use std::fmt;

use sid_core::Assistant;

/// Why there is no answer, in one sentence for a person.
#[derive(Debug, Clone, PartialEq)]
pub struct Failure {
    /// The sentence: what happened, where, what to do.
    pub message: String,
    /// Whether the same request may succeed a moment later.
    pub transient: bool,
    /// How often it is worth trying in all.
    pub tries: u32,
    /// Seconds the provider asked to wait.
    pub after: Option<u64>,
    /// The request was longer than the model takes.
    pub too_long: bool,
    /// What had been shown before the stream broke.
    pub partial: Option<Box<Assistant>>,
}

impl Failure {
    /// A failure that another try won't mend.
    pub fn fatal(message: impl Into<String>) -> Self {
        Self { message: message.into(), transient: false, tries: 5, after: None, too_long: false, partial: None }
    }

    /// A failure that another try may mend.
    pub fn transient(message: impl Into<String>) -> Self {
        Self { transient: true, ..Self::fatal(message) }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Failure {}

/// The provider's own words out of an error body, whatever its shape; at most 500 characters, no markup.
pub(crate) fn words_of(body: &str) -> Option<String> {
    let text = match serde_json::from_str::<serde_json::Value>(body) {
        Ok(json) => message_in(&json)?,
        Err(_) if body.trim_start().starts_with('<') => return None,
        Err(_) => body.to_owned(),
    };
    let text = sid_core::one_line(&text, 500);
    (!text.is_empty()).then_some(text)
}

/// `error.message`, `error` or `message`, the three shapes in use; the whole value when it is none of them.
pub(crate) fn message_in(json: &serde_json::Value) -> Option<String> {
    let error = json.get("error").unwrap_or(json);
    let said = error.get("message").or_else(|| json.get("message")).or_else(|| json.get("detail")).unwrap_or(error);
    match said {
        serde_json::Value::String(text) => Some(sid_core::one_line(text, 500)),
        serde_json::Value::Null => None,
        other => Some(sid_core::one_line(&other.to_string(), 500)),
    }
}
