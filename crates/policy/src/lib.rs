//! Rules in, verdicts out. Pure: no files, no clock, no processes. The only place a [`Permit`] can be made.
//!
//! A tool declares an [`Access`]; `sandbox::resolve` looks at the disk once and makes it [`Resolved`];
//! [`Rules::judge`] answers with a [`Verdict`]. Nothing else in sid decides whether something may happen.
mod access;
mod hidden;
mod judge;
mod mode;
mod network;
mod permit;
mod review;

pub use access::{Access, Acts, Exec, Kind, Lifted, PathUse, Resolved, ResolvedPath, Reviewed, Touch, quoted};
pub use hidden::Hidden;
pub use judge::{Default, Rules, bounds_of};
pub use mode::{Mode, UnknownMode};
pub use network::{Blocked, HTTP_DOOR, HTTPS, Host, Network, Pattern, SOCKS_DOOR, is_public};
pub use permit::{Answer, Bounds, Fence, Permit, Question, Refusal, Request, Verdict};
pub use review::{Authorization, Entry, Evidence, Judgement, Review, Risk, transcript};
