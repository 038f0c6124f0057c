use std::path::Path;

use sid_core::{Assistant, Delta, Part, Record};

use crate::{Conversation, Failure, Progress};

/// A recorded model: its answers are given in order, whatever is asked. The tools run for real.
///
/// The file is the lines of a journal (`sid sessions export ID --as replay`); only its `assistant` records count.
#[derive(Debug, Clone)]
pub struct Replay {
    name: String,
    answers: Vec<Assistant>,
}

impl Replay {
    /// Reads a recording.
    ///
    /// # Errors
    /// The file can't be read, or a line is no record: a sentence with file and line.
    pub fn load(path: &Path) -> Result<Self, String> {
        let text = std::fs::read_to_string(path).map_err(|err| format!("{}: can't read the recording: {err}", path.display()))?;
        Self::parse(&path.display().to_string(), &text)
    }

    /// A recording from its text.
    ///
    /// # Errors
    /// A line is no record.
    pub fn parse(name: &str, text: &str) -> Result<Self, String> {
        let mut answers = Vec::new();
        for (n, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
            match serde_json::from_str(line) {
                Ok(Record::Assistant(it)) => answers.push(it),
                Ok(_) => {}
                Err(err) => return Err(format!("{name}:{}: not a line of a recording: {err}", n + 1)),
            }
        }
        if answers.is_empty() {
            return Err(format!("{name}: the recording holds no answer of a model"));
        }
        Ok(Self { name: name.to_owned(), answers })
    }

    pub(crate) fn infer(&self, so_far: &Conversation, tell: &mut dyn FnMut(Progress)) -> Result<Assistant, Failure> {
        let nth = so_far.answers();
        let Some(answer) = self.answers.get(nth) else {
            return Err(Failure::fatal(format!("{}: the recording has only {nth} answers", self.name)));
        };
        for part in &answer.parts {
            if let Part::Text(text) = part {
                tell(Progress::Delta(Delta::Text(text.clone())));
            }
        }
        tell(Progress::Pause);
        Ok(answer.clone())
    }
}
