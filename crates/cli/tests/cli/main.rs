//! The real program against a strict fake model, in a world of its own.
#![allow(clippy::unwrap_used, clippy::panic, clippy::disallowed_methods, reason = "test code")]
mod bash;
mod bounds;
mod builds;
mod commands;
mod compaction;
mod decisions;
mod editor;
mod edits;
mod escapes;
mod headless;
mod init;
mod limits;
mod line;
mod models;
mod network;
mod rc;
mod resume;
mod review;
mod sandbox;
mod search;
mod secrets;
mod sessions;
mod shells;
mod skills;
mod surfaces;
mod trust;

use sid_testkit::{Reply, Test};

/// A world for `sid`.
fn sid() -> Test {
    Test::new(env!("CARGO_BIN_EXE_sid"))
}

/// A world where everything inside the workspace may run, and events are printed.
fn free() -> Test {
    sid().args(["go", "--output", "jsonl", "--mode", "workspace_write"])
}

/// A model that makes these calls, one a round, and then says `done`.
trait Script {
    fn rounds<const N: usize>(self, calls: [(&str, serde_json::Value); N]) -> Test;
}

impl Script for Test {
    fn rounds<const N: usize>(self, calls: [(&str, serde_json::Value); N]) -> Test {
        let it = calls.into_iter().fold(self, |it, (tool, args)| it.reply(Reply::call(tool, &args)));
        it.reply(Reply::text("done"))
    }
}
