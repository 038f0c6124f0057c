//! SIGINT, SIGTERM and SIGHUP: the first ends the turn, the second ends the program.
use std::sync::{
    Arc,
    atomic::{AtomicI32, Ordering},
};

use tokio::{
    signal::unix::{Signal, SignalKind, signal},
    sync::watch,
};

/// What asks a turn to stop, and which signal did.
#[derive(Debug, Clone)]
pub(crate) struct Stopper {
    ask: Arc<watch::Sender<bool>>,
    signal: Arc<AtomicI32>,
}

impl Stopper {
    /// Listens from now on. Needs a runtime.
    pub(crate) fn listen() -> std::io::Result<(Self, watch::Receiver<bool>)> {
        let (ask, asked) = watch::channel(false);
        let it = Self { ask: Arc::new(ask), signal: Arc::default() };
        for kind in [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup()] {
            let listener = signal(kind)?;
            tokio::spawn(it.clone().hear(listener, kind.as_raw_value()));
        }
        Ok((it, asked))
    }

    async fn hear(self, mut listener: Signal, number: i32) {
        while listener.recv().await.is_some() {
            if *self.ask.borrow() {
                // Asked twice: nothing is waited for. Children die with this process.
                std::process::exit(128 + number);
            }
            let _first_wins = self.signal.compare_exchange(0, number, Ordering::Relaxed, Ordering::Relaxed);
            self.stop();
        }
    }

    /// Asks the turn to stop.
    pub(crate) fn stop(&self) {
        self.ask.send_replace(true);
    }

    /// A turn is over: the next one is not stopped by what stopped this one.
    pub(crate) fn again(&self) {
        self.ask.send_replace(false);
        self.signal.store(0, Ordering::Relaxed);
    }

    /// The signal that came first, if it ends the program and not only a turn.
    pub(crate) fn ends(&self) -> Option<i32> {
        self.signal().filter(|it| *it != SignalKind::interrupt().as_raw_value())
    }

    /// Waits for such a signal, where no turn runs that another could end.
    pub(crate) async fn leaving(&self) -> i32 {
        let mut asked = self.ask.subscribe();
        loop {
            drop(asked.wait_for(|it| *it).await);
            if let Some(signal) = self.ends() {
                return signal;
            }
            self.again();
        }
    }

    /// The signal that came first.
    pub(crate) fn signal(&self) -> Option<i32> {
        Some(self.signal.load(Ordering::Relaxed)).filter(|it| *it != 0)
    }
}
