//! Commands that run: the one being waited for, and those in the background.
use std::{collections::BTreeMap, time::Duration};

use sid_policy::Bounds;

use crate::{
    capture::Taken,
    process::{Aftermath, Exit, Process},
};

/// A small number that names a background command of this session.
pub type JobId = u32;

/// Whether a background command still runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JobState {
    /// It does.
    Running,
    /// It ended by itself.
    Ended(Exit),
    /// It was stopped on request.
    Killed,
}

/// A background command as it was found.
#[derive(Debug)]
pub struct Job {
    /// Its command line.
    pub command: String,
    /// Whether it still runs.
    pub state: JobState,
    /// What it printed since the last look.
    pub output: Taken,
    /// What else came of it since the last look.
    pub aftermath: Aftermath,
}

/// A background command that ended by itself, and whose end nobody has seen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ended {
    /// Its id.
    pub id: JobId,
    /// Its command line.
    pub command: String,
    /// How it ended.
    pub exit: Exit,
}

/// Everything that runs. Ids are never used twice.
#[derive(Debug, Default)]
pub(crate) struct Jobs {
    last: JobId,
    table: BTreeMap<JobId, Entry>,
    waited: Vec<Process>,
    /// Handles of commands without a sandbox that are over: what they left running is killed at the end.
    over: Vec<Process>,
}

#[derive(Debug)]
struct Entry {
    command: String,
    process: Process,
    killed: bool,
    /// Its end was seen, or told of.
    seen: bool,
}

/// How many background commands run at once, and how many are remembered.
const MOST: usize = 64;
/// What the oldest gets to end when it makes room.
const GRACE: Duration = Duration::from_secs(2);

impl Entry {
    /// Whether it takes one of the places of running commands.
    fn runs(&self) -> bool {
        !self.killed && self.process.exit().is_none()
    }
}

impl Jobs {
    /// Remembers the command that a call waits for.
    pub(crate) fn wait_for(&mut self, process: &Process) {
        self.waited.push(process.clone());
    }

    /// The command is no longer waited for: it stays.
    pub(crate) fn let_go(&mut self, process: &Process) {
        self.waited.retain(|it| !it.is(process));
    }

    /// The calls were given up: hands over those of their commands that still run.
    pub(crate) fn waited(&mut self) -> Vec<Process> {
        self.settle();
        std::mem::take(&mut self.waited)
    }

    /// Forgets commands that ended, so that nothing grows with their number.
    pub(crate) fn settle(&mut self) {
        let (running, over): (Vec<_>, Vec<_>) = std::mem::take(&mut self.waited).into_iter().partition(|it| it.exit().is_none());
        self.waited = running;
        self.over.extend(over.into_iter().filter(Process::leaves_traces));
    }

    /// Takes a command into the background. The oldest that runs makes room for it, and stays readable; the oldest that
    /// ended is forgotten.
    pub(crate) fn add(&mut self, command: &str, process: Process) -> JobId {
        let running: Vec<JobId> = self.table.iter().filter(|(_, it)| it.runs()).map(|(id, _)| *id).collect();
        if running.len() >= MOST {
            self.evict(running[0]);
        }
        while self.table.len() >= 2 * MOST {
            let Some(over) = self.table.iter().find(|(_, it)| !it.runs()).map(|(id, _)| *id) else { break };
            self.table.remove(&over);
        }
        self.last += 1;
        process.goes_behind();
        self.table.insert(self.last, Entry { command: command.to_owned(), process, killed: false, seen: false });
        self.last
    }

    fn evict(&mut self, id: JobId) {
        if let Some(it) = self.table.get_mut(&id) {
            it.killed = true;
            let mut process = it.process.clone();
            tokio::spawn(async move { process.stop(GRACE).await });
        }
    }

    pub(crate) fn last(&self) -> JobId {
        self.last
    }

    /// Ends and forgets those after this one: a process ends with its last handle.
    pub(crate) fn forget_after(&mut self, id: JobId) {
        drop(self.table.split_off(&(id + 1)));
        self.last = id;
    }

    /// Commands that ended by themselves since the last time and whose end nobody has seen.
    pub(crate) fn ended(&mut self) -> Vec<Ended> {
        let mut out = Vec::new();
        for (id, it) in self.table.iter_mut().filter(|(_, it)| !it.seen && !it.killed) {
            if let Some(exit) = it.process.exit() {
                it.seen = true;
                out.push(Ended { id: *id, command: it.command.clone(), exit });
            }
        }
        out
    }

    /// Everything that runs now, waited for or not, and reaches further than `bounds`; it counts as stopped on request.
    pub(crate) fn beyond(&mut self, bounds: Bounds) -> Vec<Process> {
        let exceeds = |it: &Process| it.bounds() > bounds && it.exit().is_none();
        let table = self.table.values_mut().filter(|it| exceeds(&it.process)).map(|it| {
            it.killed = true;
            it.process.clone()
        });
        table.chain(self.waited.iter().filter(|it| exceeds(it)).cloned()).collect()
    }

    pub(crate) fn process(&self, id: JobId) -> Option<Process> {
        self.table.get(&id).map(|it| it.process.clone())
    }

    /// It is stopped on request. Returns its command line.
    pub(crate) fn mark_killed(&mut self, id: JobId) -> Option<String> {
        let it = self.table.get_mut(&id)?;
        it.killed = true;
        Some(it.command.clone())
    }

    /// Looks at a background command and takes its new output.
    pub(crate) fn look(&mut self, id: JobId) -> Option<Job> {
        let it = self.table.get_mut(&id)?;
        let state = match it.process.exit() {
            _ if it.killed => JobState::Killed,
            Some(exit) => JobState::Ended(exit),
            None => JobState::Running,
        };
        it.seen |= it.process.exit().is_some();
        Some(Job { command: it.command.clone(), state, output: it.process.take(), aftermath: it.process.aftermath() })
    }

    /// Stops everything, all at once.
    pub(crate) async fn shut_down(self, grace: Duration) {
        let table = self.table.into_values().map(|it| it.process);
        let stops = self.waited.into_iter().chain(table).chain(self.over).map(|mut it| async move { it.stop(grace).await });
        let stops: Vec<_> = stops.map(|it| Box::pin(it) as std::pin::Pin<Box<dyn Future<Output = Exit>>>).collect();
        join(stops).await;
    }
}

/// Waits for all, side by side.
pub(crate) async fn join(mut all: Vec<std::pin::Pin<Box<dyn Future<Output = Exit>>>>) {
    std::future::poll_fn(|cx| {
        all.retain_mut(|it| it.as_mut().poll(cx).is_pending());
        if all.is_empty() { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
    })
    .await;
}
