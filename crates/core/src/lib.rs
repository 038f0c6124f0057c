//! Vocabulary and the session fold. No I/O, no clock, no async, no randomness, no globals.
//!
//! Everything durable is a [`Record`]; a [`Session`] is the fold of its records; what must happen next is computed by
//! [`Session::next`] and never remembered. What the model sees is the list of [`Item`]s that the fold gives out.
mod event;
mod record;
mod session;
mod text;

pub use event::{End, Event};
pub use record::{
    Assistant, Call, CallId, Compacted, Contact, Delta, Finished, Opaque, Opened, Outcome, Parent, Part, Record, ReviewedCall,
    Seen, Source, Started, Status, Stop, Usage, User,
};
pub use session::{Item, Next, Session, tokens};
pub use text::{Visible, inert, one_line, redacted, visible};
