//! Whether a catalog is well, found out by asking it now and then.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use crate::backend::transport::coarse_clock;
use crate::backend::{Backend, Kind};

/// A catalog of the embedding program is as well as the program is.
const OWN_INTERVAL: Duration = Duration::from_secs(60);

/// What the last question found. Up until one has failed.
#[derive(Debug, Default)]
pub struct Health {
    down: AtomicBool,
    why: Mutex<Option<String>>,
}

impl Health {
    /// Whether the last question was answered.
    pub fn is_up(&self) -> bool {
        !self.down.load(Ordering::Relaxed)
    }

    /// Why it was not, in words for an operator.
    pub fn last_error(&self) -> Option<String> {
        self.lock().clone()
    }

    /// Remembers an outcome; true when it differs from the one before.
    pub fn note(&self, outcome: Result<(), String>) -> bool {
        let down = outcome.is_err();
        *self.lock() = outcome.err();
        self.down.swap(down, Ordering::Relaxed) != down
    }

    fn lock(&self) -> MutexGuard<'_, Option<String>> {
        self.why.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Asks `backend` at its interval for as long as there is one.
pub async fn watch(backend: Weak<Backend>) {
    while let Some(backend) = backend.upgrade() {
        let interval = check(&backend).await;
        drop(backend);
        tokio::time::sleep(coarse_clock::jittered(interval)).await;
    }
}

/// Asks once; answers with how long to wait until the next time.
async fn check(backend: &Backend) -> Duration {
    match &backend.kind {
        Kind::Rest(rest) => {
            rest.check().await;
            rest.check_interval()
        }
        #[cfg(feature = "dir")]
        Kind::Dir(dir) => {
            let outcome = dir.check().await;
            let why = outcome.as_ref().err().cloned();
            if backend.health.note(outcome) {
                match why {
                    Some(why) => {
                        tracing::warn!(backend = %backend.name, cause = why, "backend is down")
                    }
                    None => tracing::info!(backend = %backend.name, "backend is up"),
                }
            }
            crate::backend::dir::CHECK_INTERVAL
        }
        Kind::Own(_) => OWN_INTERVAL,
    }
}
