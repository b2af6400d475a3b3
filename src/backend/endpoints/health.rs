//! The health of a catalog, found by regular checks.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use crate::backend::transport::coarse_clock;
use crate::backend::{Backend, Kind};

/// The interval for a catalog of the embedding program, which is as healthy as the program.
const OWN_INTERVAL: Duration = Duration::from_secs(60);

/// The result of the last health check. Up until one has failed.
#[derive(Debug, Default)]
pub struct Health {
    down: AtomicBool,
    why: Mutex<Option<String>>,
}

impl Health {
    /// True if the last check was answered.
    pub fn is_up(&self) -> bool {
        !self.down.load(Ordering::Relaxed)
    }

    /// Returns why it was not, in words for an operator.
    pub fn last_error(&self) -> Option<String> {
        self.lock().clone()
    }

    /// Records an outcome. Returns true if it differs from the one before.
    pub fn note(&self, outcome: Result<(), String>) -> bool {
        let down = outcome.is_err();
        *self.lock() = outcome.err();
        self.down.swap(down, Ordering::Relaxed) != down
    }

    fn lock(&self) -> MutexGuard<'_, Option<String>> {
        self.why.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Checks `backend` at its interval for as long as it exists.
pub async fn watch(backend: Weak<Backend>) {
    while let Some(backend) = backend.upgrade() {
        let interval = check(&backend).await;
        drop(backend);
        tokio::time::sleep(coarse_clock::jittered(interval)).await;
    }
}

/// Checks once. Returns the time to wait until the next check.
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
