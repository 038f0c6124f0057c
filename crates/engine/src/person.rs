//! Questions to whoever sits in front of a front end.
use sid_policy::{Answer, Question};
use tokio::sync::{mpsc, oneshot};

/// Where questions go. Without one nobody is there.
pub type Person = mpsc::UnboundedSender<Asked>;

/// A question that waits for its answer. Dropping it is no answer, which counts as nobody being there.
#[derive(Debug)]
pub struct Asked {
    /// The tool.
    pub tool: String,
    /// What the call would do.
    pub label: String,
    /// What it would do, as its tool shows it.
    pub preview: Option<String>,
    /// Why it is asked, as half a sentence.
    pub why: String,
    reply: oneshot::Sender<Answer>,
}

impl Asked {
    /// Answers it.
    pub fn answer(self, answer: Answer) {
        // A turn that was cut meanwhile needs no answer any more.
        let _cut = self.reply.send(answer);
    }
}

/// Asks, and waits.
pub(crate) async fn ask(person: Option<&Person>, question: &Question, label: &str, preview: Option<String>) -> Answer {
    let Some(person) = person else { return Answer::Nobody };
    let (reply, answer) = oneshot::channel();
    let asked = Asked { tool: question.access().tool.clone(), label: label.to_owned(), preview, why: question.why.clone(), reply };
    if person.send(asked).is_err() {
        return Answer::Nobody;
    }
    answer.await.unwrap_or(Answer::Nobody)
}
