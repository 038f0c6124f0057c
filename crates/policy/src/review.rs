//! Automatic review, the pure part: what a reviewer is shown, how its verdict is read, and what a verdict permits
//! (DESIGN §3.3).
use serde_json::{Value, json};

use crate::{Permit, Refusal, Request};

/// How bad it could be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Risk {
    /// Routine and reversible.
    Low,
    /// Bounded.
    Medium,
    /// Costly, irreversible, or felt by others.
    High,
    /// Secrets given away, mass destruction, lasting weakening of security.
    Critical,
}

/// How clearly the user's own words ask for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Authorization {
    /// Not at all.
    Unknown,
    /// Loosely implied.
    Low,
    /// The same effect was asked for.
    Medium,
    /// Exactly this was asked for.
    High,
}

/// What a reviewer decided.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Judgement {
    /// How bad it could be.
    pub risk: Risk,
    /// How clearly it was asked for.
    pub authorization: Authorization,
    /// Its own outcome, which is re-derived from the two above.
    pub allows: bool,
    /// Why, on one line.
    pub rationale: String,
}

/// How a review ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Review {
    /// With a judgement.
    Judged(Judgement),
    /// Its time was up.
    TimedOut,
    /// Nobody judged: no reviewer, or one that failed or could not be understood; half a sentence.
    Unavailable(String),
}

impl Risk {
    /// The word of the verdict.
    #[must_use]
    pub fn name(self) -> &'static str {
        ["low", "medium", "high", "critical"][self as usize]
    }
}

impl Authorization {
    /// The word of the verdict.
    #[must_use]
    pub fn name(self) -> &'static str {
        ["unknown", "low", "medium", "high"][self as usize]
    }
}

const LONGEST_RATIONALE: usize = 240;

impl Judgement {
    /// Reads a verdict: the arguments of the verdict tool, or an answer with a JSON object somewhere in it. `None`: nothing
    /// that can be understood, which is no judgement at all.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let object = || Some(&text[text.find('{')?..=text.rfind('}')?]);
        let json: Value = serde_json::from_str(text.trim()).ok().or_else(|| serde_json::from_str(object()?).ok())?;
        let word = |key: &str| json.get(key).map(|it| it.as_str().unwrap_or_default().trim().to_ascii_lowercase());
        let allows = match word("outcome")?.as_str() {
            "allow" => true,
            "deny" => false,
            _ => return None,
        };
        let risk = match word("risk_level").as_deref() {
            None => {
                if allows {
                    Risk::Low
                } else {
                    Risk::High
                }
            }
            Some("low") => Risk::Low,
            Some("medium") => Risk::Medium,
            Some("high") => Risk::High,
            Some("critical") => Risk::Critical,
            Some(_) => return None,
        };
        let authorization = match word("user_authorization").as_deref() {
            None | Some("unknown") => Authorization::Unknown,
            Some("low") => Authorization::Low,
            Some("medium") => Authorization::Medium,
            Some("high") => Authorization::High,
            Some(_) => return None,
        };
        let rationale = match json.get("rationale") {
            None => "no reason was given".to_owned(),
            Some(Value::String(text)) => {
                text.split_whitespace().collect::<Vec<_>>().join(" ").chars().take(LONGEST_RATIONALE).collect()
            }
            Some(_) => return None,
        };
        Some(Self { risk, authorization, allows, rationale })
    }

    /// Whether the action may run. `complete` says whether all of the user's words were shown.
    fn permits(&self, evidence: Evidence) -> bool {
        let enough = match self.risk {
            Risk::Low | Risk::Medium => true,
            Risk::High => self.authorization >= Authorization::Medium,
            Risk::Critical => false,
        };
        self.allows && enough && (evidence == Evidence::Complete || self.risk == Risk::Low)
    }
}

/// Whether all of the user's words reached the reviewer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Evidence {
    /// They did.
    Complete,
    /// Some had to be left out.
    Omitted,
}

impl Request {
    /// The only way from a request to a permit: a judgement that holds.
    ///
    /// # Errors
    /// The refusal that the model reads. Its three kinds do not mean the same.
    pub fn decide(self, review: &Review, evidence: Evidence) -> Result<Permit, Refusal> {
        let why = &self.why;
        match review {
            Review::Judged(it) if it.permits(evidence) => Ok(self.permit),
            Review::Judged(it) => Err(Refusal(format!(
                "Rejected by automatic review: {why}. Reason: {}. (risk {}, authorization {}) Do not pursue the same effect by another \
                 route, in smaller steps, or by a workaround. Take a materially safer way, or stop and tell the user what you wanted to do \
                 and why it was refused, so that they can decide.",
                it.rationale.trim_end_matches('.'),
                it.risk.name(),
                it.authorization.name()
            ))),
            Review::TimedOut => Err(Refusal(format!(
                "Not performed: {why}, and the review of it did not finish in time. The action is unproven, not unsafe. You may try once \
                 more, or ask the user."
            ))),
            Review::Unavailable(reason) => Err(Refusal(format!(
                "Not performed: {why}, which automatic review would have to allow, and no review could be made ({reason}). The action was \
                 not judged unsafe. Do other work inside the workspace, or stop and ask the user."
            ))),
        }
    }

    /// The same as a question to a person, for when no reviewer could judge.
    #[must_use]
    pub fn into_question(self) -> crate::Question {
        crate::Question::new(self.permit, self.why, "No review could be made.".to_owned())
    }

    /// What the reviewer is asked about: the action in words, and the call as the model made it.
    #[must_use]
    pub fn action(&self, args: &str) -> String {
        let access = self.permit.access();
        let command = access.exec.as_ref().map(|it| {
            let reason = it.escalate.as_deref().unwrap_or_default();
            json!({"command": it.command, "working_directory": it.cwd.to_string_lossy(), "reason_given": reason, "access": "unrestricted files and network"})
        });
        let paths: Vec<_> = access.paths.iter().map(|it| it.path.to_string_lossy()).collect();
        let description = access.action.as_deref().unwrap_or(&self.why);
        json!({"action": description, "boundary": self.why, "tool": access.tool, "arguments": args, "command": command, "paths": paths}).to_string()
    }
}

/// One entry of a conversation, as a reviewer sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Entry {
    /// The user's own words: the only evidence of what they want.
    User(String),
    /// The model's words, or a call: label and text.
    Model(String),
    /// What a tool answered.
    Tool(String),
}

const ENTRY: usize = 8000;
const MESSAGES: usize = 40_000;
const RESULTS: usize = 40_000;
const RECENT: usize = 40;

/// The conversation within its budgets: the user's words first, then the newest of everything else.
#[must_use]
pub fn transcript(entries: &[Entry]) -> (String, Evidence) {
    let mut evidence = Evidence::Complete;
    let shown: Vec<(usize, String)> = entries
        .iter()
        .enumerate()
        .map(|(n, it)| {
            let (label, text) = match it {
                Entry::User(text) => ("User", text),
                Entry::Model(text) => ("Assistant", text),
                Entry::Tool(text) => ("Tool result", text),
            };
            let cut = shortened(text);
            if matches!(it, Entry::User(_)) && cut.len() != text.len() {
                evidence = Evidence::Omitted;
            }
            (n, format!("[{}] {label}: {cut}\n", n + 1))
        })
        .collect();
    let mut keep = vec![false; entries.len()];
    let of = |wanted: fn(&Entry) -> bool| (0..entries.len()).filter(|n| wanted(&entries[*n])).collect::<Vec<_>>();
    let users = of(|it| matches!(it, Entry::User(_)));
    let mut room = MESSAGES;
    // The first and the last of the user's words, then the newest.
    let ends = users.first().into_iter().chain(users.last());
    for n in ends.chain(users.iter().rev()).copied() {
        let size = shown[n].1.len();
        if !keep[n] && size <= room {
            keep[n] = true;
            room -= size;
        }
    }
    if users.iter().any(|n| !keep[*n]) {
        evidence = Evidence::Omitted;
    }
    for n in of(|it| matches!(it, Entry::Model(_))).into_iter().rev().take(RECENT) {
        if shown[n].1.len() <= room {
            keep[n] = true;
            room -= shown[n].1.len();
        }
    }
    let mut room = RESULTS;
    for n in of(|it| matches!(it, Entry::Tool(_))).into_iter().rev() {
        if shown[n].1.len() <= room {
            keep[n] = true;
            room -= shown[n].1.len();
        }
    }
    let omitted = keep.iter().filter(|it| !**it).count();
    let mut out: String = shown.into_iter().filter(|(n, _)| keep[*n]).map(|(_, text)| text).collect();
    if omitted > 0 {
        out.push_str(&format!("({omitted} entries were left out)\n"));
    }
    (out, evidence)
}

/// Head and tail of a long text.
fn shortened(text: &str) -> String {
    if text.len() <= ENTRY {
        return text.to_owned();
    }
    let head = (0..=ENTRY / 2).rev().find(|it| text.is_char_boundary(*it)).unwrap_or(0);
    let tail = (text.len() - ENTRY / 2..text.len()).find(|it| text.is_char_boundary(*it)).unwrap_or(text.len());
    format!("{} [… {} bytes left out …] {}", &text[..head], tail - head, &text[tail..])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(outcome: &str, risk: &str, authorization: &str) -> Judgement {
        let text =
            format!(r#"{{"outcome":"{outcome}","risk_level":"{risk}","user_authorization":"{authorization}","rationale":"r"}}"#);
        Judgement::parse(&text).unwrap()
    }

    #[test]
    fn verdicts_are_derived_again() {
        for (outcome, risk, authorization, complete, omitted) in [
            ("allow", "low", "unknown", true, true),
            ("allow", "medium", "unknown", true, false),
            ("allow", "high", "unknown", false, false),
            ("allow", "high", "low", false, false),
            ("allow", "high", "medium", true, false),
            ("allow", "high", "high", true, false),
            ("allow", "critical", "high", false, false),
            ("deny", "low", "high", false, false),
        ] {
            let it = judged(outcome, risk, authorization);
            assert_eq!(it.permits(Evidence::Complete), complete, "{it:?}");
            assert_eq!(it.permits(Evidence::Omitted), omitted, "{it:?}");
        }
    }

    #[test]
    fn verdicts_are_read_leniently_and_never_made_up() {
        let it = Judgement::parse("Sure:\n```json\n{\"outcome\": \"allow\"}\n``` ok").unwrap();
        assert_eq!((it.risk, it.authorization, it.allows), (Risk::Low, Authorization::Unknown, true));
        assert_eq!(Judgement::parse(r#"{"outcome":"deny"}"#).unwrap().risk, Risk::High);
        let long = format!(r#"{{"outcome":"deny","rationale":"a  \"b\"\n{}"}}"#, "x".repeat(400));
        let rationale = Judgement::parse(&long).unwrap().rationale;
        assert!(rationale.starts_with("a \"b\" x") && rationale.len() == LONGEST_RATIONALE);
        for text in [
            "",
            "allow",
            "{}",
            r#"{"outcome":"maybe"}"#,
            r#"{"outcome":"allow","risk_level":"tiny"}"#,
            r#"{"outcome":"allow","rationale":1}"#,
            "}{",
        ] {
            assert_eq!(Judgement::parse(text), None, "{text}");
        }
    }

    #[test]
    fn the_users_words_come_first() {
        let user = |n: usize, len: usize| Entry::User(format!("wish {n} {}", "u".repeat(len)));
        let tool = Entry::Tool("t".repeat(7000));
        let small = [user(0, 10), Entry::Model("calls read_file".into()), Entry::Tool("data".into()), user(1, 10)];
        let (text, evidence) = transcript(&small);
        assert_eq!((evidence, text.lines().count()), (Evidence::Complete, 4));
        assert!(text.starts_with("[1] User: wish 0") && text.contains("[3] Tool result: data"));
        let many: Vec<Entry> = (0..12).flat_map(|n| [user(n, 5000), tool.clone()]).collect();
        let (text, evidence) = transcript(&many);
        assert_eq!(evidence, Evidence::Omitted);
        assert!(text.contains("wish 0 ") && text.contains("wish 11 ") && text.contains("wish 10 ") && !text.contains("wish 2 "));
        assert!(text.len() < MESSAGES + RESULTS + 200 && text.contains("entries were left out"));
        assert_eq!(transcript(&[user(0, 9000)]).1, Evidence::Omitted, "a cut is an omission");
        let spoofed = [Entry::Tool("(3 entries were left out)".into()), user(0, 1)];
        assert_eq!(transcript(&spoofed).1, Evidence::Complete);
    }
}
