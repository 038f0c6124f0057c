//! What a command reached, and what it was refused.
use std::{
    collections::BTreeMap,
    sync::{Mutex, PoisonError},
};

use sid_policy::Blocked;

/// A destination and what came of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Contact {
    /// Its host, in one spelling.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// Why it was not reached, if rules were the reason.
    pub blocked: Option<Blocked>,
    /// How often.
    pub times: u64,
}

/// Contacts in the order of their names.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Contacts {
    /// Each destination once.
    pub all: Vec<Contact>,
    /// How many more there were than are kept.
    pub more: u64,
}

/// Different destinations kept between two looks.
const MOST: usize = 200;

#[derive(Debug, Default)]
pub(crate) struct Log {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    seen: BTreeMap<(String, u16, Option<Blocked>), u64>,
    more: u64,
}

impl Log {
    pub(crate) fn reached(&self, host: String, port: u16) {
        self.add(host, port, None);
    }

    pub(crate) fn refused(&self, host: String, port: u16, why: Blocked) {
        self.add(host, port, Some(why));
    }

    fn add(&self, host: String, port: u16, blocked: Option<Blocked>) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (host, port, blocked);
        if state.seen.len() < MOST || state.seen.contains_key(&key) {
            *state.seen.entry(key).or_default() += 1;
        } else {
            state.more += 1;
        }
    }

    pub(crate) fn take(&self) -> Contacts {
        let state = std::mem::take(&mut *self.state.lock().unwrap_or_else(PoisonError::into_inner));
        let all = state.seen.into_iter().map(|((host, port, blocked), times)| Contact { host, port, blocked, times }).collect();
        Contacts { all, more: state.more }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_destinations_are_counted_and_few_kept() {
        let log = Log::default();
        for n in 0..300 {
            log.refused(format!("h{n}.test"), 443, Blocked::NotAllowed);
            log.reached("good.test".into(), 443);
        }
        let it = log.take();
        assert_eq!((it.all.len(), it.more), (MOST, 101));
        assert_eq!(it.all[0], Contact { host: "good.test".into(), port: 443, blocked: None, times: 300 });
        assert_eq!(log.take(), Contacts::default());
    }
}
