use std::time::Duration;

use serde_json::json;
use sid_core::{Assistant, Delta, Event, Part, Record};
use sid_policy::Rules;
use sid_provider::{Calls, Progress};
use sid_sandbox::Host;

use crate::{Cut, Engine, Failed, Interrupt, clock::now};

impl Engine {
    /// One answer of the model, journalled once it is whole. What was shown of one that broke off is kept, marked partial.
    pub(crate) async fn infer(
        &mut self,
        calls: Calls,
        stop: &Interrupt,
        tell: &mut dyn FnMut(Event),
    ) -> Result<Option<Cut>, Failed> {
        tell(Event::Reply);
        let mut shown = String::new();
        let mut show = |it: Progress| {
            if let Progress::Delta(Delta::Text(text)) = &it {
                shown.push_str(text);
            }
            tell(event(it));
        };
        if let Some(it) = &mut self.api {
            let (head, messages) = self.talk.request();
            it.request(head, messages);
        }
        let asking = self.model.infer(&self.talk, calls, &mut show);
        let (host, rules) = (&*self.host, &self.rules);
        let answer = stop
            .or(async move {
                tokio::select! {
                    biased;
                    answer = asking => answer,
                    () = prepare(host, rules) => std::future::pending().await,
                }
            })
            .await;
        match answer {
            Ok(Ok(answer)) => {
                self.refused = false;
                if let Some(it) = &mut self.api {
                    let usage = answer.usage.unwrap_or_default();
                    it.response(&json!({
                        "role": "assistant",
                        "content": crate::transcript::blocks(&answer),
                        "stop": answer.stop,
                        "usage": usage,
                    }));
                }
                let answer = self.session.admit(Assistant { at: now(), ..answer }, self.limits.rounds);
                self.commit(Record::Assistant(answer))?;
                Ok(None)
            }
            Ok(Err(failure)) if failure.too_long => self.compact_after_refusal(failure, stop, tell).await,
            Ok(Err(failure)) => {
                self.keep_partial(failure.partial.map(|it| *it))?;
                Err(Failed::Model(failure.message))
            }
            Err(cut) => {
                let parts = if shown.is_empty() { Vec::new() } else { vec![Part::Text(shown)] };
                self.keep_partial(Some(Assistant { parts, partial: true, ..Assistant::default() }))?;
                Ok(Some(cut))
            }
        }
    }

    fn keep_partial(&mut self, partial: Option<Assistant>) -> Result<(), Failed> {
        match partial.filter(|it| !it.parts.is_empty()) {
            Some(it) => Ok(self.commit(Record::Assistant(Assistant { at: now(), ..it }))?),
            None => Ok(()),
        }
    }
}

/// While the model answers, the sandbox of the next command is made. Never ends.
async fn prepare(host: &Host, rules: &Rules) {
    // The request goes first; a model that answers sooner leaves no time anyway.
    tokio::time::sleep(Duration::from_millis(2)).await;
    host.prepare(&rules.fence, rules.bounds());
    std::future::pending().await
}

fn event(it: Progress) -> Event {
    match it {
        Progress::Delta(delta) => Event::Delta(delta),
        Progress::Notice(text) => Event::Notice(text),
        Progress::Pause => Event::Pause,
    }
}
