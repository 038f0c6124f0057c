//! Commands that run: the one being waited for, and those in the background.
use std::{collections::BTreeMap, time::Duration};

use crate::{capture::Taken, process::Exit, process::Process};

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
}

/// How many background commands may be remembered at once.
const MOST: usize = 64;

impl Jobs {
    /// Remembers the command that a call waits for.
    pub(crate) fn wait_for(&mut self, process: &Process) {
        self.waited.push(process.clone());
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

    /// Takes a command into the background.
    pub(crate) fn add(&mut self, command: &str, process: Process) -> Result<JobId, String> {
        if self.table.len() >= MOST {
            let ended = self.table.iter().find(|(_, it)| it.process.exit().is_some()).map(|(id, _)| *id);
            let ended = ended.ok_or_else(|| format!("{MOST} background commands are running already; kill one first."))?;
            self.table.remove(&ended);
        }
        self.last += 1;
        self.table.insert(self.last, Entry { command: command.to_owned(), process, killed: false });
        Ok(self.last)
    }

    pub(crate) fn process(&self, id: JobId) -> Option<Process> {
        self.table.get(&id).map(|it| it.process.clone())
    }

    pub(crate) fn mark_killed(&mut self, id: JobId) {
        if let Some(it) = self.table.get_mut(&id) {
            it.killed = true;
        }
    }

    /// Looks at a background command and takes its new output.
    pub(crate) fn look(&mut self, id: JobId) -> Option<Job> {
        let it = self.table.get(&id)?;
        let state = match it.process.exit() {
            _ if it.killed => JobState::Killed,
            Some(exit) => JobState::Ended(exit),
            None => JobState::Running,
        };
        Some(Job { command: it.command.clone(), state, output: it.process.take() })
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
async fn join(mut all: Vec<std::pin::Pin<Box<dyn Future<Output = Exit>>>>) {
    std::future::poll_fn(|cx| {
        all.retain_mut(|it| it.as_mut().poll(cx).is_pending());
        if all.is_empty() { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
    })
    .await;
}
