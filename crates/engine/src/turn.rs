use std::{convert::Infallible, io, rc::Rc, sync::Arc};

use sid_core::{CallId, End, Event, Finished, Next, Outcome, Record, Source, Status, Stop, Usage, User};
use sid_policy::{Verdict, bounds_of};
use sid_provider::Calls;
use sid_sandbox::{Confined, Ended, Exit, Host};
use tokio::sync::watch;

use crate::{Cut, Engine, Interrupt, call::GRACE, clock::now, permissions::State};

/// Why a turn has no end of its own.
#[derive(Debug)]
pub enum Failed {
    /// The model gave no answer; a sentence for a person.
    Model(String),
    /// The journal could not be written, so nothing more was done.
    Journal(io::Error),
}

impl From<io::Error> for Failed {
    fn from(it: io::Error) -> Self {
        Self::Journal(it)
    }
}

impl std::fmt::Display for Failed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Model(why) => f.write_str(why),
            Self::Journal(err) => {
                write!(f, "the session's journal can't be written ({err}); the turn was ended, and all before it is kept")
            }
        }
    }
}

const INTERRUPTED: &str =
    "Interrupted: the process ended while this call ran; it may have run, in whole or in part. Look before you repeat it.";
const ASK_FOR_WORDS: &str =
    "Your last message had no text. Say in a few sentences what was done, what was found, and what is left.";
const ASK_AFTER_LIMIT: &str = "The limit of tool rounds was reached. No more tools can be used. Say in a few sentences what was done, what was \
     committed, and what is left.";

/// The end of a turn in which review refused too often.
const REFUSED: &str = "review_denials";
const TOLD: &str = "Automatic review refused too many actions, so the turn was ended. The refusals and their reasons are above (`sid sessions show`). If \
     you want one of them done, say so in your own words: that is what a review goes by.";

impl Engine {
    /// Runs from `prompt` to the model's last word.
    ///
    /// Calls that a process before left open are closed or run first. Resuming a dead turn is calling this.
    ///
    /// # Errors
    /// The model or the journal failed; the session stays valid.
    pub async fn turn(&mut self, prompt: String, stop: &Interrupt, tell: &mut dyn FnMut(Event)) -> Result<End, Failed> {
        let stop = stop.clone().within(self.limits.time);
        let before = self.session.usage();
        if let Some(budget) = self.budget.filter(|it| before.total() >= *it) {
            return Err(Failed::Model(format!(
                "the session's budget of {budget} tokens is used up ({} were taken); a higher `SESSION_BUDGET` or `/budget` lets it go on",
                before.total()
            )));
        }
        let watching = enforce(self.permissions.watch(), Rc::clone(&self.host));
        let done = tokio::select! {
            biased;
            done = self.run(prompt, &stop, before, tell) => done,
            never = watching => match never {},
        };
        let (reason, error) = match &done {
            Ok(reason) => ((*reason).to_owned(), None),
            Err(failed) => ("error".to_owned(), Some(failed.to_string())),
        };
        if !matches!(done, Err(Failed::Journal(_))) {
            self.commit(Record::Ended { at: now(), reason: reason.clone(), error })?;
            self.journal.sync()?;
        }
        done?;
        let usage = since(before, self.session.usage());
        let text = if reason == REFUSED { TOLD.to_owned() } else { self.session.text().to_owned() };
        Ok(End { reason, text, rounds: self.session.rounds(), usage })
    }

    async fn run(
        &mut self,
        prompt: String,
        stop: &Interrupt,
        before: Usage,
        tell: &mut dyn FnMut(Event),
    ) -> Result<&'static str, Failed> {
        if let Some(cut) = self.settle(stop, tell).await? {
            return Ok(name(cut));
        }
        self.reduced().await;
        let added = match stop.or(self.added(&prompt, tell)).await {
            Ok(it) => it,
            // The words are kept, whatever the hook was doing.
            Err(cut) => {
                self.host.stop_waited(GRACE).await;
                self.commit(Record::User(User { at: now(), text: prompt, from: Source::Person, added: String::new() }))?;
                return Ok(name(cut));
            }
        };
        self.commit(Record::User(User { at: now(), text: prompt, from: Source::Person, added }))?;
        self.describe(tell);
        loop {
            let cut = match self.session.next(self.limits.rounds) {
                Next::Idle => return Ok(self.natural_end()),
                Next::Refused => return Ok(REFUSED),
                Next::WrapUp => {
                    let limit = self.session.rounds() >= self.limits.rounds;
                    let text = if limit { ASK_AFTER_LIMIT } else { ASK_FOR_WORDS }.to_owned();
                    self.commit(Record::User(User { at: now(), text, from: Source::Sid, ..User::default() }))?;
                    None
                }
                Next::Interrupted(ids) => {
                    self.close_calls(ids, Status::Interrupted, INTERRUPTED)?;
                    None
                }
                Next::Run(calls) => self.batch(calls, stop, tell).await?,
                Next::Infer { tools } => {
                    self.tell_news()?;
                    let calls = if tools { Calls::Allowed } else { Calls::Forbidden };
                    match self.compact_in_time(stop, tell).await? {
                        Some(cut) => Some(cut),
                        None => self.infer(calls, stop, tell).await?,
                    }
                }
            };
            if let Some(cut) = cut {
                self.close_calls(self.session.open_calls(), Status::Cancelled, "Cancelled by the user before it was done.")?;
                return Ok(name(cut));
            }
            let spent = since(before, self.session.usage()).total();
            if self.limits.tokens.is_some_and(|it| spent >= it) && self.session.next(self.limits.rounds) != Next::Idle {
                self.close_calls(
                    self.session.open_calls(),
                    Status::Cancelled,
                    "Not run: the token limit of this turn was reached.",
                )?;
                return Ok("max_tokens_total");
            }
        }
    }

    /// What happened since the model was last asked: a mode that changed, background commands that ended.
    fn tell_news(&mut self) -> io::Result<()> {
        let mut news = Vec::new();
        if std::mem::replace(&mut self.told, self.permissions.revision()) != self.permissions.revision() {
            news.push(format!("[sid: the user changed the mode to {}.]", self.permissions.mode()));
        }
        news.extend(self.host.ended().iter().map(notice));
        if news.is_empty() {
            return Ok(());
        }
        self.commit(Record::User(User { at: now(), text: news.join("\n"), from: Source::Notice, ..User::default() }))
    }

    /// What the hook adds to a message. One that fails adds nothing, and says so.
    async fn added(&mut self, prompt: &str, tell: &mut dyn FnMut(Event)) -> String {
        let Some(hook) = &self.hook else { return String::new() };
        self.rules.mode = self.permissions.mode();
        let (name, plan) = (hook.name.clone(), hook.plan(prompt, &self.view));
        let outcome = match self.judge(&self.rules, plan.access) {
            Verdict::Allow(permit) => (plan.action)(&Confined::enter(&self.host, permit), Arc::default()).await,
            _ => Outcome::denied(format!("the hook '{name}' may not run")),
        };
        let text = self.redact(outcome.text);
        if outcome.status != Status::Ok {
            tell(Event::Notice(text));
            return String::new();
        }
        if text.trim().is_empty() {
            return String::new();
        }
        format!(
            "# User instructions from hook {name}\n\nWhat the system and the user say directly comes before these.\n\n{}",
            text.trim_end()
        )
    }

    /// Ends what exceeds the mode, if it became narrower while no turn ran.
    async fn reduced(&mut self) {
        if self.told != self.permissions.revision() {
            self.host.reduce(bounds_of(self.permissions.mode()), GRACE).await;
        }
    }

    /// Closes what a dead process left open, and runs what it had not begun.
    async fn settle(&mut self, stop: &Interrupt, tell: &mut dyn FnMut(Event)) -> Result<Option<Cut>, Failed> {
        loop {
            let cut = match self.session.next(self.limits.rounds) {
                Next::Interrupted(ids) => {
                    self.close_calls(ids, Status::Interrupted, INTERRUPTED)?;
                    None
                }
                Next::Run(calls) => self.batch(calls, stop, tell).await?,
                _ => return Ok(None),
            };
            if let Some(cut) = cut {
                self.close_calls(self.session.open_calls(), Status::Cancelled, "Cancelled by the user before it was done.")?;
                return Ok(Some(cut));
            }
        }
    }

    fn close_calls(&mut self, ids: Vec<CallId>, status: Status, text: &str) -> io::Result<()> {
        for call in ids {
            let outcome = Outcome::new(status, text);
            self.commit(Record::Finished(Finished { at: now(), call, outcome, note: None }))?;
        }
        Ok(())
    }

    fn natural_end(&self) -> &'static str {
        match self.session.stop() {
            Stop::Length => "length",
            Stop::Refusal => "refusal",
            Stop::End if self.session.rounds() >= self.limits.rounds => "max_tool_rounds",
            Stop::End => "completed",
        }
    }
}

/// As long as a turn runs: a mode that becomes narrower ends what exceeds it at once.
async fn enforce(mut state: watch::Receiver<State>, host: Rc<Host>) -> Infallible {
    let mut mode = state.borrow_and_update().mode;
    loop {
        if state.changed().await.is_err() {
            return std::future::pending().await;
        }
        let now = state.borrow_and_update().mode;
        if now.is_narrower_than(std::mem::replace(&mut mode, now)) {
            host.reduce(bounds_of(now), GRACE).await;
        }
    }
}

/// That a background command ended, and nothing of what it printed.
fn notice(it: &Ended) -> String {
    let how = match it.exit {
        Exit::Code(0) => "finished successfully".to_owned(),
        Exit::Code(code) => format!("failed with exit code {code}"),
        Exit::Signal(signal) => format!("was ended by signal {signal}"),
        Exit::NoSandbox => "could not be started".to_owned(),
    };
    let first = it.command.lines().next().unwrap_or_default();
    format!("[sid: background command {} (`{}`) {how}. Its output can still be read.]", it.id, sid_core::one_line(first, 120))
}

fn name(cut: Cut) -> &'static str {
    match cut {
        Cut::Interrupted => "interrupted",
        Cut::Time => "max_seconds",
    }
}

fn since(before: Usage, now: Usage) -> Usage {
    Usage {
        input: now.input - before.input,
        output: now.output - before.output,
        cache_read: now.cache_read - before.cache_read,
        cache_write: now.cache_write - before.cache_write,
    }
}
