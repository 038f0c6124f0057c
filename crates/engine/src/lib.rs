//! The one driver: `core` knows what comes next, the engine does it.
//!
//! [`Engine::turn`] runs from a message to the model's last word; `call.rs` is the path of one tool call.
mod call;
mod clock;
mod compact;
mod cut;
mod engine;
mod expert;
mod infer;
mod permissions;
mod person;
mod prompt;
mod review;
mod transcript;
mod turn;

pub use compact::{COMPACT_AT, Compaction, Summary};
pub use cut::{Cut, Interrupt};
pub use engine::{AfterCut, Engine, Limits, Parts};
pub use permissions::Permissions;
pub use person::{Asked, Person};
pub use review::{ReviewSettings, WhenUnavailable};
pub use transcript::check_transcript;
pub use turn::Failed;
