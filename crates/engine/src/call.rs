//! The path of one tool call, from the model's words to the journal. Read it top to bottom.
use std::time::Duration;

use futures_util::future::join_all;
use sid_core::{Call, CallId, Event, Finished, Outcome, Record, ReviewedCall, Started, Status, Stop};
use sid_policy::{Access, Answer, Permit, Question, Refusal, Request, Review, Rules, Verdict};
use sid_sandbox::Confined;
use sid_tools::{Action, Plan};

use crate::{
    AfterCut, Cut, Engine, Failed, Interrupt, WhenUnavailable,
    clock::now,
    permissions::{State, Still},
    person::ask,
};

/// A call that may run.
struct Ready {
    call: Call,
    permit: Permit,
    label: String,
    action: Action,
    /// The mode it was judged in.
    judged: State,
}

/// A call that was understood.
struct Planned {
    call: Call,
    label: String,
    action: Action,
    judged: State,
}

impl Planned {
    fn with(self, permit: Permit) -> Ready {
        Ready { call: self.call, permit, label: self.label, action: self.action, judged: self.judged }
    }
}

/// What rules alone say of a call that was not refused.
enum Judged {
    Ready(Ready),
    Review(Planned, Request),
    Ask(Planned, Box<Question>, Option<Plan>),
}

fn denied(Refusal(why): Refusal) -> Outcome {
    Outcome::denied(why)
}

/// How long commands get to end when a turn is cut.
pub(crate) const GRACE: Duration = Duration::from_millis(500);

impl Engine {
    /// Judges the calls one by one, then runs them: reads together, everything else in order.
    pub(crate) async fn batch(
        &mut self,
        calls: Vec<Call>,
        stop: &Interrupt,
        tell: &mut dyn FnMut(Event),
    ) -> Result<Option<Cut>, Failed> {
        let mut judged = Vec::new();
        for call in calls {
            tell(Event::Call { id: call.id.clone(), tool: call.tool.clone(), args: call.args.clone() });
            judged.push(match self.judged(&call) {
                Ok(Judged::Ready(it)) => Ok(it),
                Ok(Judged::Ask(it, question, preview)) => match stop.or(self.asked(it, *question, preview)).await {
                    Ok(it) => it.map_err(|outcome| (call, outcome)),
                    Err(cut) => return Ok(Some(cut)),
                },
                Ok(Judged::Review(it, request)) => match stop.or(self.reviewed(it, request, tell)).await {
                    Ok(it) => it?.map_err(|outcome| (call, outcome)),
                    Err(cut) => return Ok(Some(cut)),
                },
                Err(outcome) => Err((call, outcome)),
            });
        }
        let mut judged = judged.into_iter().peekable();
        while let Some(first) = judged.next() {
            let ready = match first {
                Ok(it) => it,
                Err((call, outcome)) => {
                    self.finish(&call, outcome, tell)?;
                    continue;
                }
            };
            let mut group = vec![ready];
            if !group[0].permit.access().mutates {
                while let Some(Ok(it)) = judged.next_if(|it| it.as_ref().is_ok_and(|it| !it.permit.access().mutates)) {
                    group.push(it);
                }
            }
            if let Some(cut) = self.perform(group, stop, tell).await? {
                return Ok(Some(cut));
            }
        }
        Ok(None)
    }

    /// From the model's words to a verdict. Every refusal and every mistake is an outcome for the model.
    fn judged(&mut self, call: &Call) -> Result<Judged, Outcome> {
        let state = self.permissions.state();
        self.rules.mode = state.mode;
        let tool = self.tools.iter().find(|it| it.name() == call.tool).ok_or_else(|| {
            let names: Vec<&str> = self.tools.iter().map(|it| it.name()).collect();
            Outcome::failed(format!("Unknown tool: {}. The tools are: {}.", sid_core::one_line(&call.tool, 80), names.join(", ")))
        })?;
        let plan = tool.plan(&call.args, &self.view).map_err(|why| self.unplanned(call, &why))?;
        let ready = Planned { call: call.clone(), label: plan.label, action: plan.action, judged: state };
        let permit = match self.judge(&self.rules, plan.access) {
            Verdict::Allow(permit) => permit,
            Verdict::Deny(refusal) => return Err(denied(refusal)),
            Verdict::Fault(why) => return Err(Outcome::failed(format!("Error: {why}"))),
            Verdict::Review(request) => return Ok(Judged::Review(ready, request)),
            Verdict::Ask(question) => {
                let preview = if self.person.is_some() { tool.preview(&call.args, &self.view) } else { None };
                return Ok(Judged::Ask(ready, Box::new(question), preview));
            }
        };
        Ok(Judged::Ready(ready.with(permit)))
    }

    /// Asks a person. What they say for the whole session is remembered, and never lets more leave the workspace than this call.
    async fn asked(&mut self, it: Planned, question: Question, preview: Option<Plan>) -> Result<Ready, Outcome> {
        let preview = match preview {
            Some(plan) => self.shown(plan).await,
            None => None,
        };
        let answer = ask(self.person.as_ref(), &question, &it.label, preview).await;
        let tool = question.access().tool.clone();
        match answer {
            Answer::Always if !question.elevates() => {
                self.rules.allow.insert(tool);
            }
            Answer::Never => {
                self.rules.deny.insert(tool);
            }
            _ => {}
        }
        question.answer(answer).map(|permit| it.with(permit)).map_err(denied)
    }

    /// What rules say of an access. The one look at the place it is about comes before.
    pub(crate) fn judge(&self, rules: &Rules, access: Access) -> Verdict {
        rules.judge(self.host.resolve(access, &rules.fence, rules.bounds()))
    }

    /// What a call would do, as its tool shows it; looking is judged too. `None`: it can't be shown.
    async fn shown(&self, plan: Plan) -> Option<String> {
        let Verdict::Allow(permit) = self.judge(&self.rules, plan.access) else { return None };
        let outcome = (plan.action)(&Confined::enter(&self.host, permit), std::sync::Arc::default()).await;
        let text = self.redact(outcome.text);
        (outcome.status == Status::Ok && !text.trim().is_empty()).then_some(text)
    }

    /// Has a crossing reviewed, and the verdict journalled before anything follows from it.
    async fn reviewed(
        &mut self,
        it: Planned,
        request: Request,
        tell: &mut dyn FnMut(Event),
    ) -> Result<Result<Ready, Outcome>, Failed> {
        tell(Event::Notice(format!("reviewing {}: {}", it.call.tool, request.why)));
        let done = self.review(&request, &it.call).await;
        let (mut risk, mut authorization) = (String::new(), String::new());
        let rationale = match &done.review {
            Review::Judged(it) => {
                (risk, authorization) = (it.risk.name().to_owned(), it.authorization.name().to_owned());
                it.rationale.clone()
            }
            Review::TimedOut => "the time was up".to_owned(),
            Review::Unavailable(why) => why.clone(),
        };
        let unjudged = matches!(done.review, Review::Unavailable(_)) && self.review.when_unavailable == WhenUnavailable::Ask;
        if unjudged && self.person.is_some() {
            return Ok(self.asked(it, request.into_question(), None).await);
        }
        let decided = request.decide(&done.review, done.evidence);
        let outcome = match (&decided, &done.review) {
            (Ok(_), _) => "allowed",
            (Err(_), Review::Judged(_)) => "rejected",
            (Err(_), Review::TimedOut) => "timed_out",
            (Err(_), Review::Unavailable(_)) => "unavailable",
        };
        tell(Event::Notice(format!("review of {}: {outcome}: {}", it.call.tool, sid_core::one_line(&rationale, 200))));
        let (call, rationale, outcome) = (it.call.id.clone(), self.redact(rationale), outcome.to_owned());
        self.commit(Record::Reviewed(ReviewedCall {
            at: now(),
            call,
            outcome,
            risk,
            authorization,
            rationale,
            usage: done.usage,
        }))?;
        Ok(decided.map(|permit| it.with(permit)).map_err(denied))
    }

    /// Arguments that no plan could be made of. If the model ran out of room while writing them, that is the reason.
    fn unplanned(&self, call: &Call, why: &str) -> Outcome {
        let cut = self.session.stop() == Stop::Length && self.session.is_last_of_batch(&call.id);
        if cut && serde_json::from_str::<serde_json::Value>(&call.args).is_err() {
            return Outcome::failed(
                "Error: your answer hit the output limit in the middle of this call, so its arguments are incomplete and it was not run. \
                 Do it in smaller parts.",
            );
        }
        Outcome::failed(format!("Error: {why}"))
    }

    /// Starts are on disk before anything happens; outcomes before anybody sees them.
    async fn perform(&mut self, group: Vec<Ready>, stop: &Interrupt, tell: &mut dyn FnMut(Event)) -> Result<Option<Cut>, Failed> {
        let mut ready = Vec::new();
        for it in group {
            if self.permissions.recheck(it.judged, it.permit.bounds()) == Still::Gone {
                let why = format!("Not run: the mode changed to {} before it could start.", self.permissions.mode());
                self.finish(&it.call, Outcome::new(Status::Interrupted, why), tell)?;
            } else {
                ready.push(it);
            }
        }
        let group = ready;
        for it in &group {
            let bounds = it.permit.bounds().name().to_owned();
            let label = self.redact(sid_core::one_line(&it.label, 500));
            self.commit(Record::Started(Started { at: now(), call: it.call.id.clone(), label, bounds }))?;
            if it.permit.access().mutates {
                self.journal.sync()?;
            }
        }
        let mut calls = Vec::new();
        let outcomes = {
            let (host, seen) = (&*self.host, self.session.seen());
            let running = group.into_iter().map(|it| {
                calls.push(it.call);
                let (permit, action, seen) = (it.permit, it.action, seen.clone());
                async move { action(&Confined::enter(host, permit), seen).await }
            });
            let running: Vec<_> = running.collect();
            stop.or(join_all(running)).await
        };
        let outcomes = match outcomes {
            Ok(it) => it,
            Err(cut) => {
                match self.after_cut {
                    AfterCut::KeepJobs => self.host.stop_waited(GRACE).await,
                    AfterCut::EndJobs => self.host.shut_down(GRACE).await,
                }
                return Ok(Some(cut));
            }
        };
        for (call, outcome) in calls.iter().zip(outcomes) {
            self.finish(call, outcome, tell)?;
        }
        Ok(None)
    }

    fn finish(&mut self, call: &Call, outcome: Outcome, tell: &mut dyn FnMut(Event)) -> Result<(), Failed> {
        let outcome = Outcome { text: self.redact(outcome.text), ..outcome };
        let (content, error) = (outcome.text.clone(), outcome.is_error());
        let note = self.last_round_note(&call.id);
        self.commit(Record::Finished(Finished { at: now(), call: call.id.clone(), outcome, note }))?;
        tell(Event::Result { id: call.id.clone(), tool: call.tool.clone(), content, error });
        Ok(())
    }

    /// Told to the model with the last outcome of the last round that may use tools.
    fn last_round_note(&self, call: &CallId) -> Option<String> {
        let (round, rounds) = (self.session.rounds(), self.limits.rounds);
        (round >= rounds && self.session.is_last_of_batch(call)).then(|| {
            format!(
                "[sid: this was tool round {round} of {rounds}. No more tools can be used. Say now what was done, what was committed, and \
                 what is left.]"
            )
        })
    }
}
