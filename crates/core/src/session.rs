//! The state of a conversation as the fold of its records, and what must happen next.
use std::{
    collections::{HashMap, HashSet, VecDeque},
    sync::Arc,
};

use crate::{Assistant, Call, CallId, Compacted, Finished, Opened, Outcome, Part, Record, Source, Status, Stop, Usage, visible};

/// Something the model sees. The provider encodes items in order and never again.
#[derive(Debug, Clone, PartialEq)]
pub enum Item {
    /// A user message.
    User(String),
    /// The model's own answer.
    Assistant(Assistant),
    /// The outcomes of all calls of the answer before, in call order: id, tool, outcome, sid's own note.
    Results(Vec<(CallId, String, Outcome, Option<String>)>),
}

/// What must happen now. Derived from the state, so resuming is not a special case.
#[derive(Debug, Clone, PartialEq)]
pub enum Next {
    /// Nothing; the user has the turn.
    Idle,
    /// Ask the model; without tools once the round limit is reached or a final message was asked for.
    Infer {
        /// Whether it may call tools.
        tools: bool,
    },
    /// Review refused too often: the turn is over without another answer, and the user is told.
    Refused,
    /// The model ended without a visible word: ask it once for a final message.
    WrapUp,
    /// Judge and run these calls, in the order the model wrote them.
    Run(Vec<Call>),
    /// These calls were started and never finished: the process died in between.
    Interrupted(Vec<CallId>),
}

#[derive(Debug, Clone, PartialEq)]
struct Open {
    call: Call,
    started: bool,
    done: Option<(Outcome, Option<String>)>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Last {
    #[default]
    Nothing,
    User,
    Results,
    Reply,
    EmptyReply,
}

/// The state of a conversation.
#[derive(Debug, Default, Clone, PartialEq)]
pub struct Session {
    opened: Option<Opened>,
    batch: Vec<Open>,
    ids: HashSet<CallId>,
    last: Last,
    wrapping: bool,
    rounds: u32,
    stop: Stop,
    text: String,
    title: String,
    usage: Usage,
    seen: Arc<HashMap<String, String>>,
    denials: Denials,
    /// The person's message that has no answer yet.
    asked: String,
    compacted: Option<Compacted>,
    size: Size,
}

/// How long the conversation is.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
struct Size {
    /// Tokens that the provider counted, up to its last answer.
    counted: u64,
    /// Bytes that came since.
    since: u64,
}

/// About how many tokens so many bytes are: better too many than too few.
#[must_use]
pub fn tokens(bytes: u64) -> u64 {
    bytes / 3
}

/// Reviews of this turn: what stops a loop of refusals, since nobody is asked.
#[derive(Debug, Default, Clone, PartialEq)]
struct Denials {
    in_a_row: usize,
    /// The last verdicts, `true` for a denial.
    recent: VecDeque<bool>,
    /// Calls that were allowed and have no outcome yet.
    allowed: HashSet<CallId>,
}

/// Denials in a row, denials among the last verdicts, and how many verdicts those are.
const IN_A_ROW: usize = 3;
const IN_ALL: usize = 10;
const RECENT: usize = 50;

impl Denials {
    fn judged(&mut self, call: CallId, allowed: Allowed) {
        if allowed == Allowed::Yes {
            self.allowed.insert(call);
        } else {
            self.in_a_row += 1;
        }
        self.recent.push_back(allowed == Allowed::No);
        if self.recent.len() > RECENT {
            self.recent.pop_front();
        }
    }

    /// Only what was allowed and then succeeded ends a row.
    fn ended(&mut self, call: &CallId, status: Status) {
        if self.allowed.remove(call) && status == Status::Ok {
            self.in_a_row = 0;
        }
    }

    fn too_many(&self) -> bool {
        self.in_a_row >= IN_A_ROW || self.recent.iter().filter(|it| **it).count() >= IN_ALL
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Allowed {
    Yes,
    No,
}

impl Session {
    /// Folds all records; `items` is what the model has seen so far.
    pub fn replay(records: impl IntoIterator<Item = Record>) -> (Self, Vec<Item>) {
        let (mut it, mut items) = (Self::default(), Vec::new());
        for record in records {
            it.apply(record, &mut items);
        }
        (it, items)
    }

    /// Takes one record. Total: every record is accepted, unknown and repeated ids are ignored.
    pub fn apply(&mut self, record: Record, items: &mut Vec<Item>) {
        match record {
            Record::Opened(it) => self.opened = Some(it),
            Record::User(it) => {
                self.close_batch(items);
                if it.from == Source::Person {
                    self.rounds = 0;
                    self.denials = Denials::default();
                    self.asked.clone_from(&it.text);
                    if self.title.is_empty() {
                        self.title = crate::one_line(&it.text, 80);
                    }
                }
                self.wrapping = it.from == Source::Sid;
                self.last = Last::User;
                let text = if it.added.is_empty() { it.text } else { format!("{}\n\n{}", it.text, it.added) };
                self.size.since += text.len() as u64;
                items.push(Item::User(text));
            }
            Record::Assistant(it) => self.answered(it, items),
            Record::Compacted(it) => self.begins_anew(it, items),
            Record::Reviewed(it) => {
                self.usage.add(it.usage);
                self.denials.judged(it.call, if it.outcome == "allowed" { Allowed::Yes } else { Allowed::No });
            }
            Record::Started(it) => {
                if let Some(open) = self.batch.iter_mut().find(|open| open.call.id == it.call) {
                    open.started = true;
                }
            }
            Record::Finished(it) => self.finished(it, items),
            Record::Ended { .. } => {
                self.asked.clear();
                if self.last == Last::EmptyReply {
                    self.last = Last::Reply;
                }
            }
        }
    }

    fn answered(&mut self, it: Assistant, items: &mut Vec<Item>) {
        self.close_batch(items);
        if let Some(usage) = it.usage {
            self.usage.add(usage);
            self.size = Size { counted: usage.total(), since: 0 };
        }
        self.stop = it.stop;
        self.text = visible(&it.text());
        self.batch = it.calls().map(|call| Open { call: call.clone(), started: false, done: None }).collect();
        self.ids.extend(self.batch.iter().map(|open| open.call.id.clone()));
        let tried = std::mem::take(&mut self.wrapping);
        if !self.batch.is_empty() {
            self.rounds += 1;
        }
        let ends = tried || it.partial || !self.text.is_empty() || it.stop == Stop::Refusal;
        self.last = if ends { Last::Reply } else { Last::EmptyReply };
        if !it.parts.is_empty() {
            items.push(Item::Assistant(it));
        }
    }

    /// The model sees the summary and nothing else; what it knew of files is gone.
    fn begins_anew(&mut self, it: Compacted, items: &mut Vec<Item>) {
        self.batch.clear();
        items.clear();
        self.usage.add(it.usage);
        self.seen = Arc::default();
        let text = match &it.from {
            Some(parent) => format!(
                "This session goes on from session {}, which is summarised below. What the summary leaves out can be asked of \
                 ask_an_expert, who remembers it.",
                parent.session_id
            ),
            None if it.asked.is_empty() => format!("{SO_FAR}\n\n{}\n\nGo on with the work from here.", it.summary),
            None => format!("{SO_FAR}\n\n{}\n\nThe user's last message, in full:\n\n{}", it.summary, it.asked),
        };
        self.size = Size { counted: 0, since: (text.len() + it.summary.len()) as u64 };
        items.push(Item::User(text));
        self.last = if it.from.is_some() {
            let parts = vec![Part::Text(it.summary.clone())];
            items.push(Item::Assistant(Assistant { at: it.at, parts, ..Assistant::default() }));
            Last::Reply
        } else {
            Last::User
        };
        self.compacted = Some(it);
    }

    fn finished(&mut self, it: Finished, items: &mut Vec<Item>) {
        let Some(open) = self.batch.iter_mut().find(|open| open.call.id == it.call && open.done.is_none()) else { return };
        for seen in &it.outcome.seen {
            Arc::make_mut(&mut self.seen).insert(seen.path.clone(), seen.stamp.clone());
        }
        self.size.since += it.outcome.text.len() as u64;
        self.denials.ended(&it.call, it.outcome.status);
        open.done = Some((it.outcome, it.note));
        if self.batch.iter().all(|open| open.done.is_some()) {
            self.close_batch(items);
            self.last = Last::Results;
        }
    }

    /// Gives out the outcomes of a batch. A call without one (only possible in a damaged journal) is said to be lost, so
    /// that what the provider sees is always in pairs.
    fn close_batch(&mut self, items: &mut Vec<Item>) {
        if self.batch.is_empty() {
            return;
        }
        let lost = || (Outcome::new(crate::Status::Interrupted, LOST), None);
        let results = std::mem::take(&mut self.batch).into_iter().map(|open| {
            let (outcome, note) = open.done.unwrap_or_else(lost);
            (open.call.id, open.call.tool, outcome, note)
        });
        items.push(Item::Results(results.collect()));
    }

    /// What must happen now, with at most `cap` rounds of tool calls a turn. Stable: asking twice gives the same.
    #[must_use]
    pub fn next(&self, cap: u32) -> Next {
        let open = || self.batch.iter().filter(|it| it.done.is_none());
        if open().any(|it| it.started) {
            return Next::Interrupted(open().filter(|it| it.started).map(|it| it.call.id.clone()).collect());
        }
        if open().next().is_some() {
            return Next::Run(open().map(|it| it.call.clone()).collect());
        }
        match self.last {
            Last::Results if self.denials.too_many() => Next::Refused,
            Last::User | Last::Results => Next::Infer { tools: self.rounds < cap && !self.wrapping },
            Last::EmptyReply => Next::WrapUp,
            Last::Nothing | Last::Reply => Next::Idle,
        }
    }

    /// Gives every call of a new answer an id that is unique in this session, and drops calls where none are allowed.
    #[must_use]
    pub fn admit(&self, mut answer: Assistant, cap: u32) -> Assistant {
        if self.next(cap) != (Next::Infer { tools: true }) {
            answer.parts.retain(|it| !matches!(it, Part::Call(_)));
        }
        let mut taken = HashSet::new();
        let mut fresh = self.ids.len();
        for part in &mut answer.parts {
            let Part::Call(call) = part else { continue };
            if call.id.0.trim().is_empty() || self.ids.contains(&call.id) || taken.contains(&call.id) {
                loop {
                    fresh += 1;
                    call.id = CallId(format!("call_sid_{fresh}"));
                    if !self.ids.contains(&call.id) && !taken.contains(&call.id) {
                        break;
                    }
                }
            }
            taken.insert(call.id.clone());
        }
        answer
    }

    /// The ids of all calls that have no outcome yet.
    #[must_use]
    pub fn open_calls(&self) -> Vec<CallId> {
        self.batch.iter().filter(|it| it.done.is_none()).map(|it| it.call.id.clone()).collect()
    }

    /// Whether `call` is the last of its batch.
    #[must_use]
    pub fn is_last_of_batch(&self, call: &CallId) -> bool {
        self.batch.last().is_some_and(|it| it.call.id == *call)
    }

    /// The latest opening, if any.
    #[must_use]
    pub fn opened(&self) -> Option<&Opened> {
        self.opened.as_ref()
    }

    /// Rounds of tool calls since the person's last message.
    #[must_use]
    pub fn rounds(&self) -> u32 {
        self.rounds
    }

    /// Why the last answer stopped.
    #[must_use]
    pub fn stop(&self) -> Stop {
        self.stop
    }

    /// The visible text of the last answer.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The first line of the first prompt.
    #[must_use]
    pub fn title(&self) -> &str {
        &self.title
    }

    /// All tokens so far.
    #[must_use]
    pub fn usage(&self) -> Usage {
        self.usage
    }

    /// The person's message that the turn is about; empty between turns.
    #[must_use]
    pub fn asked(&self) -> &str {
        &self.asked
    }

    /// The last summary that took the place of a conversation.
    #[must_use]
    pub fn compacted(&self) -> Option<&Compacted> {
        self.compacted.as_ref()
    }

    /// About how many tokens the conversation has, what the model is told of tools and rules included once it has answered.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.size.counted + tokens(self.size.since)
    }

    /// The stamps of files when the model last saw them, by canonical path.
    #[must_use]
    pub fn seen(&self) -> Arc<HashMap<String, String>> {
        Arc::clone(&self.seen)
    }
}

const SO_FAR: &str = "The conversation became too long and was replaced by this summary of it. What the summary leaves out can be asked of \
     ask_an_expert, who remembers it.";
const LOST: &str = "The result of this call was lost; it may have run.";

#[cfg(test)]
mod tests;
