//! The mode of a session while it runs: whoever holds this may change it at any time, also in the middle of a turn.
use std::sync::Arc;

use sid_policy::{Bounds, Mode, bounds_of};
use tokio::sync::watch;

/// The mode, and how often it changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct State {
    pub(crate) mode: Mode,
    pub(crate) revision: u64,
}

/// A handle on the session's mode. All clones are the same.
#[derive(Debug, Clone)]
pub struct Permissions {
    state: Arc<watch::Sender<State>>,
}

/// Whether a call that was judged may still start.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Still {
    /// As it was judged.
    Allowed,
    /// The mode changed so that it may not.
    Gone,
}

impl Permissions {
    /// Begins in `mode`, at revision 0.
    #[must_use]
    pub fn new(mode: Mode) -> Self {
        Self { state: Arc::new(watch::Sender::new(State { mode, revision: 0 })) }
    }

    /// The mode now.
    #[must_use]
    pub fn mode(&self) -> Mode {
        self.state.borrow().mode
    }

    /// How often the mode changed. What one execution is allowed beyond the mode is in its permit and changes nothing here.
    #[must_use]
    pub fn revision(&self) -> u64 {
        self.state.borrow().revision
    }

    /// Changes the mode; the same mode is no change. A narrower one ends what runs and exceeds it.
    pub fn set_mode(&self, mode: Mode) {
        self.state.send_if_modified(|it| {
            let changed = it.mode != mode;
            if changed {
                *it = State { mode, revision: it.revision + 1 };
            }
            changed
        });
    }

    pub(crate) fn watch(&self) -> watch::Receiver<State> {
        self.state.subscribe()
    }

    /// Looks once more, right before a start. A permit that goes beyond its mode was given by whoever approves in that mode, so it
    /// ends with it, unless there is no boundary any more.
    pub(crate) fn recheck(&self, judged: State, bounds: Bounds) -> Still {
        let now = *self.state.borrow();
        if now.revision == judged.revision {
            return Still::Allowed;
        }
        let elevated = bounds > bounds_of(judged.mode);
        let within = bounds <= bounds_of(now.mode);
        if within || (elevated && now.mode == judged.mode) { Still::Allowed } else { Still::Gone }
    }

    pub(crate) fn state(&self) -> State {
        *self.state.borrow()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn revisions_count_real_changes() {
        let it = Permissions::new(Mode::Auto);
        it.set_mode(Mode::Auto);
        assert_eq!(it.revision(), 0);
        let other = it.clone();
        other.set_mode(Mode::ReadOnly);
        assert_eq!((it.mode(), it.revision()), (Mode::ReadOnly, 1));
    }

    #[test]
    fn what_was_judged_is_looked_at_again() {
        use Mode::{Auto, FullAccess, ReadOnly, WorkspaceWrite};
        for (judged, bounds, now, want) in [
            (Auto, Bounds::Unbounded, Auto, Still::Allowed),
            (Auto, Bounds::Unbounded, WorkspaceWrite, Still::Gone),
            (Auto, Bounds::Unbounded, ReadOnly, Still::Gone),
            (Auto, Bounds::Unbounded, FullAccess, Still::Allowed),
            (Auto, Bounds::Workspace, WorkspaceWrite, Still::Allowed),
            (Auto, Bounds::Workspace, ReadOnly, Still::Gone),
            (FullAccess, Bounds::Unbounded, Auto, Still::Gone),
            (WorkspaceWrite, Bounds::Workspace, Auto, Still::Allowed),
            (ReadOnly, Bounds::ReadOnly, FullAccess, Still::Allowed),
        ] {
            let it = Permissions::new(judged);
            let state = it.state();
            it.set_mode(now);
            assert_eq!(it.recheck(state, bounds), want, "{judged} -> {now}");
        }
    }
}
