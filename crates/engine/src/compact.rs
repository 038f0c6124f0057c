//! A conversation that becomes too long is replaced by a summary of it. The journal keeps all of it, so nothing is lost: the model
//! can ask an expert, who remembers what the summary leaves out.
use sid_core::{Assistant, Compacted, Event, Item, Outcome, Parent, Record, Session, Usage, visible};
use sid_provider::{Calls, Conversation, Failure};

use crate::{Cut, Engine, Failed, Interrupt, clock::now, expert::Expert, prompt};

/// When and how conversations are compacted.
#[derive(Debug, Clone, Default)]
pub struct Compaction {
    /// From how many tokens on; `None`: only when the provider refuses the length.
    pub at: Option<u64>,
    /// The system prompt of the configuration's own `compact` agent.
    pub system: Option<String>,
}

/// Tokens from which a conversation is compacted when nobody says otherwise.
pub const COMPACT_AT: u64 = 150_000;
/// A conversation that was just compacted is not compacted again before it has grown by this, in percent.
const GROWN: u64 = 150;
/// Bytes that an outcome may have in what is summarised, in turn, where all of it is too long for the model.
const SHORTER: [usize; 3] = [8_000, 1_500, 300];

const REQUEST: &str = "Write a hand-off of this conversation for a colleague who takes over now and has seen nothing of it. Only the hand-off, in \
     plain words, under these heads: what the user wants, with every instruction and restriction they gave; what was done, and how it was \
     checked; what was found, with the names of files, commands, errors and decisions that matter; what is left, and what to do next. Call no \
     tools.";

/// A summary that was made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Summary {
    /// Its words.
    pub text: String,
    /// What it took.
    pub usage: Usage,
}

impl Engine {
    /// Has the conversation summarised; nothing changes by that.
    ///
    /// # Errors
    /// There is no summary, in a sentence for a person.
    pub async fn summarize(&mut self) -> Result<Summary, String> {
        let items = self.items()?;
        let mut talk = match &self.compaction.system {
            Some(system) => self.talk_of(system, &items),
            // The very conversation goes on, so that the provider has it in its cache.
            None => self.talk.clone(),
        };
        talk.push(&Item::User(REQUEST.to_owned()));
        let mut last = match self.ask(&talk).await {
            Ok(it) => return Ok(it),
            Err(it) => it,
        };
        for most in SHORTER {
            if !last.too_long {
                break;
            }
            let system = self.compaction.system.clone().unwrap_or_else(|| "You summarise conversations.".to_owned());
            let mut talk = self.talk_of(&system, &shortened(&items, most));
            talk.push(&Item::User(REQUEST.to_owned()));
            last = match self.ask(&talk).await {
                Ok(it) => return Ok(it),
                Err(it) => it,
            };
        }
        Err(format!("the conversation could not be summarised: {}", last.message))
    }

    async fn ask(&mut self, talk: &Conversation) -> Result<Summary, Failure> {
        let answer: Assistant = self.model.infer(talk, Calls::Forbidden, &mut |_| ()).await?;
        let text = visible(&answer.text()).trim().to_owned();
        if text.is_empty() {
            return Err(Failure::fatal("the model wrote no summary."));
        }
        Ok(Summary { text, usage: answer.usage.unwrap_or_default() })
    }

    /// What the model sees, from the journal.
    pub(crate) fn items(&self) -> Result<Vec<Item>, String> {
        Ok(Session::replay(self.journal.records().map_err(|err| err.to_string())?).1)
    }

    /// The conversation as the model, the tools and the settings are now.
    pub(crate) fn recompose(&mut self) -> Result<(), String> {
        let items = self.items()?;
        let system = prompt::whole(&self.rules, &self.view.places, &self.tools, self.instructions.as_deref());
        self.talk = self.talk_of(&system, &items);
        Ok(())
    }

    fn talk_of(&self, system: &str, items: &[Item]) -> Conversation {
        let specs: Vec<_> = self.tools.iter().map(|it| crate::engine::spec(it.as_ref())).collect();
        let mut talk = Conversation::sampled(self.wire, &self.model_id, system, &specs, &self.sampling);
        items.iter().for_each(|it| talk.push(it));
        talk
    }

    /// Compacts if the conversation has grown too long. Never called while a call is open.
    pub(crate) async fn compact_in_time(&mut self, stop: &Interrupt, tell: &mut dyn FnMut(Event)) -> Result<Option<Cut>, Failed> {
        let size = self.session.size();
        let grown = self.compacted_to.is_none_or(|it| size * 100 > it * GROWN);
        // The person's own words stay as they are: a summary saves nothing of them.
        let saved = size.saturating_sub(sid_core::tokens(self.session.asked().len() as u64));
        if self.compaction.at.is_none_or(|it| saved < it) || !grown || self.talk.answers() == 0 {
            return Ok(None);
        }
        tell(Event::Notice(format!("compacting the conversation: about {size} tokens")));
        match stop.or(self.summarize()).await {
            Ok(Ok(it)) => self.begin_anew(it)?,
            // It may still fit; if not, the provider says so.
            Ok(Err(why)) => {
                self.compacted_to = Some(size);
                tell(Event::Notice(why));
            }
            Err(cut) => return Ok(Some(cut)),
        }
        Ok(None)
    }

    /// The provider refused the length: compacts and lets the turn go on, unless that was tried already.
    pub(crate) async fn compact_after_refusal(
        &mut self,
        failure: Failure,
        stop: &Interrupt,
        tell: &mut dyn FnMut(Event),
    ) -> Result<Option<Cut>, Failed> {
        if self.refused {
            return Err(Failed::Model(format!(
                "{} The conversation was compacted and is still too long for the model: what is left is the summary, the tools and the \
                 instructions. Use a model that takes more, or fewer tools.",
                failure.message
            )));
        }
        tell(Event::Notice(format!("{} Compacting the conversation.", failure.message)));
        match stop.or(self.summarize()).await {
            Ok(Ok(it)) => {
                self.begin_anew(it)?;
                self.refused = true;
            }
            Ok(Err(why)) => return Err(Failed::Model(format!("{} {why}", failure.message))),
            Err(cut) => return Ok(Some(cut)),
        }
        Ok(None)
    }

    fn begin_anew(&mut self, it: Summary) -> Result<(), Failed> {
        let asked = self.session.asked().to_owned();
        self.commit(Record::Compacted(Compacted { at: now(), summary: it.text, asked, from: None, usage: it.usage }))?;
        Ok(())
    }

    /// Begins with the summary of another session.
    ///
    /// # Errors
    /// The journal can't be written.
    pub fn continue_from(&mut self, parent: Parent, it: Summary) -> std::io::Result<()> {
        let from = Some(parent);
        self.commit(Record::Compacted(Compacted { at: now(), summary: it.text, asked: String::new(), from, usage: it.usage }))
    }

    /// The expert is the model that is talked to, with another memory. None without a summary.
    pub(crate) fn renew_expert(&mut self) {
        let Some(it) = self.session.compacted().cloned() else { return };
        let Some(expert) = Expert::of(&self.model, self.wire, &self.model_id, &it, self.journal.dir()) else { return };
        self.tools.retain(|it| it.name() != crate::expert::NAME);
        self.tools.push(Box::new(expert));
    }

    /// The expert comes with a summary; the tools and what is said of them change only then.
    pub(crate) fn meet_expert(&mut self) {
        self.compacted_to = Some(self.session.size());
        self.renew_expert();
        let system = prompt::whole(&self.rules, &self.view.places, &self.tools, self.instructions.as_deref());
        self.talk = self.talk_of(&system, &[]);
    }
}

/// The same with long outcomes cut in the middle, and the oldest half left out at the last.
fn shortened(items: &[Item], most: usize) -> Vec<Item> {
    let from = if most == SHORTER[SHORTER.len() - 1] { items.len() / 2 } else { 0 };
    // Never from the middle of a call and its outcome.
    let from = (from..items.len()).find(|n| matches!(items[*n], Item::User(_))).unwrap_or(0);
    items[from..]
        .iter()
        .map(|it| match it {
            Item::Results(all) => {
                let cut = |it: &Outcome| Outcome { text: middle_out(&it.text, most), ..it.clone() };
                Item::Results(all.iter().map(|(id, tool, it, note)| (id.clone(), tool.clone(), cut(it), note.clone())).collect())
            }
            Item::User(text) => Item::User(middle_out(text, most.max(4000))),
            Item::Assistant(it) => Item::Assistant(it.clone()),
        })
        .collect()
}

fn middle_out(text: &str, most: usize) -> String {
    if text.len() <= most {
        return text.to_owned();
    }
    let head = (0..=most / 2).rev().find(|it| text.is_char_boundary(*it)).unwrap_or(0);
    let tail = (text.len() - most / 2..text.len()).find(|it| text.is_char_boundary(*it)).unwrap_or(text.len());
    format!("{}\n[… {} bytes left out …]\n{}", &text[..head], tail - head, &text[tail..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_too_long_loses_its_middle() {
        assert_eq!(middle_out("short", 10), "short");
        let said = middle_out(&"日".repeat(100), 30);
        assert!(said.starts_with("日日日日日\n[… ") && said.ends_with("…]\n日日日日日"), "{said}");
    }

    #[test]
    fn the_oldest_half_goes_last_and_pairs_stay_together() {
        let items = [Item::User("a".into()), Item::Results(Vec::new()), Item::User("b".into()), Item::Results(Vec::new())];
        assert_eq!(shortened(&items, 8_000).len(), 4);
        assert_eq!(shortened(&items, 300), items[2..]);
    }
}
