//! Configuration files as text with places: layers of TOML, rc files, tables of keys, and complaints that point at file and line.
//!
//! Knows nothing of what a key means.
mod complaint;
mod layer;
pub mod rc;

pub use complaint::Complaint;
pub use layer::{Key, Kind, Layer, Value};
