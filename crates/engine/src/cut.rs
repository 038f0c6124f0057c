use std::time::Duration;

use tokio::{sync::watch, time::Instant};

/// Why something was stopped before its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cut {
    /// The user, a signal, or a front end that is gone.
    Interrupted,
    /// The turn's time is up.
    Time,
}

/// What can stop a turn from outside.
#[derive(Debug, Clone)]
pub struct Interrupt {
    asked: watch::Receiver<bool>,
    deadline: Option<Instant>,
}

impl Interrupt {
    /// Stops when `asked` becomes true.
    #[must_use]
    pub fn new(asked: watch::Receiver<bool>) -> Self {
        Self { asked, deadline: None }
    }

    /// Stops also when `time` from now is over.
    #[must_use]
    pub fn within(mut self, time: Option<Duration>) -> Self {
        self.deadline = time.map(|it| Instant::now() + it);
        self
    }

    /// Runs `work` unless it is stopped first.
    ///
    /// # Errors
    /// Why it was stopped; `work` is dropped where it was.
    pub async fn or<T>(&self, work: impl Future<Output = T>) -> Result<T, Cut> {
        let mut asked = self.asked.clone();
        let far = Duration::from_secs(1 << 30);
        let deadline = self.deadline.unwrap_or_else(|| Instant::now() + far);
        let stop = async move {
            if asked.wait_for(|it| *it).await.is_err() {
                std::future::pending::<()>().await;
            }
        };
        tokio::select! {
            biased;
            () = stop => Err(Cut::Interrupted),
            () = tokio::time::sleep_until(deadline) => Err(Cut::Time),
            it = work => Ok(it),
        }
    }
}
