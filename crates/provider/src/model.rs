use sid_core::{Assistant, Delta};

use crate::{Conversation, Failure, Http, Replay};

/// Where answers come from.
#[derive(Debug)]
pub enum Model {
    /// An endpoint.
    Http(Box<Http>),
    /// A recording.
    Replay(Replay),
}

/// What is said while an answer comes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Progress {
    /// A piece of it.
    Delta(Delta),
    /// A sentence for the person: a retry, a wait.
    Notice(String),
    /// All deltas that had arrived together were given; a good moment to flush.
    Pause,
}

impl Model {
    /// Whether it can also judge: a recording knows only its own lines.
    #[must_use]
    pub fn can_review(&self) -> bool {
        matches!(self, Self::Http(_))
    }

    /// The same model for somebody else; `None`: a recording is read once.
    #[must_use]
    pub fn another(&self) -> Option<Self> {
        match self {
            Self::Http(it) => Some(Self::Http(it.clone())),
            Self::Replay(_) => None,
        }
    }

    /// Asks for the next answer; `tools` says whether it may call any.
    ///
    /// # Errors
    /// There is none, in a sentence for a person. What had been shown is in the failure.
    pub async fn infer(
        &mut self,
        so_far: &Conversation,
        tools: Calls,
        tell: &mut dyn FnMut(Progress),
    ) -> Result<Assistant, Failure> {
        match self {
            Self::Http(it) => it.infer(so_far, tools.into(), tell).await,
            Self::Replay(it) => it.infer(so_far, tell),
        }
    }
}

/// Whether an answer may call tools.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Calls {
    /// It may.
    Allowed,
    /// Words only.
    Forbidden,
}

impl From<Calls> for crate::body::Tools {
    fn from(it: Calls) -> Self {
        match it {
            Calls::Allowed => Self::Offered,
            Calls::Forbidden => Self::Withheld,
        }
    }
}
