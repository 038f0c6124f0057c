//! Sessions on disk: append, lock, torn tails, list, find, delete, prune (`docs/sessions.md`).
//!
//! Knows how records are stored and nothing of what they mean.
mod api;
mod journal;
mod store;
mod streams;
mod tail;

pub use api::Api;
pub use journal::{Journal, Loaded};
pub use store::{Error, Listed, Meta, Store, check_id, new_id, new_local_id};
pub use streams::Streams;
