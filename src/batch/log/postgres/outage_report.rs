//! The record of outages of the server, for the log of the process and for requests that need not wait.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// The time for which the same cause is not logged again: a server can refuse one thing and do another, in turn.
const QUIET: Duration = Duration::from_secs(60);

/// The outage of the server, if there is one.
pub(super) struct Outage {
    address: String,
    now: Mutex<Option<Now>>,
    /// The cause that was logged last, and when.
    told: Mutex<Option<(String, Instant)>>,
}

struct Now {
    since: Instant,
    cause: String,
    is_told: bool,
}

impl Outage {
    pub(super) fn new(address: &str) -> Self {
        Self {
            address: address.to_owned(),
            now: Mutex::new(None),
            told: Mutex::new(None),
        }
    }

    /// Records a request that failed.
    pub(super) fn noticed(&self, cause: &str) {
        let mut now = self.now();
        if let Some(now) = &mut *now {
            cause.clone_into(&mut now.cause);
            return;
        }
        let is_told = self.is_news(cause);
        *now = Some(Now {
            since: Instant::now(),
            cause: cause.to_owned(),
            is_told,
        });
        drop(now);
        if is_told {
            tracing::error!(
                log = self.address,
                cause,
                "the batch log does not answer; no batch begins, and what is under way waits. Check PostgreSQL and the way to it"
            );
        }
    }

    /// Records a request that was answered.
    pub(super) fn ended(&self) {
        if let Some(now) = self.now().take().filter(|now| now.is_told) {
            let seconds = now.since.elapsed().as_secs_f64();
            tracing::info!(log = self.address, seconds, "the batch log answers again");
        }
    }

    /// Returns the cause of an outage that has lasted for `at_least`.
    pub(super) fn cause(&self, at_least: Duration) -> Option<String> {
        let now = self.now();
        let now = now.as_ref().filter(|now| now.since.elapsed() >= at_least);
        now.map(|now| now.cause.clone())
    }

    /// Returns true if this cause must be logged.
    fn is_news(&self, cause: &str) -> bool {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((last, at)) = &*told
            && last == cause
            && at.elapsed() < QUIET
        {
            return false;
        }
        *told = Some((cause.to_owned(), Instant::now()));
        true
    }

    fn now(&self) -> MutexGuard<'_, Option<Now>> {
        self.now.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
