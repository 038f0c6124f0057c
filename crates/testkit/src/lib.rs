//! Fakes and builders for tests: a strict fake provider, and a builder that runs the real program.
//!
//! The model is the only thing that is faked, and the fake refuses whatever a real endpoint would refuse.
mod fake;
mod reply;
mod strict;
mod test;

pub use fake::{Fake, Request};
pub use reply::{Reply, Wire};
pub use strict::check;
pub use test::{Ran, Test};
