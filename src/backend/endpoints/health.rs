//! Checks the health of a catalog at regular intervals, and keeps the last error.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use tokio::time::{Instant, timeout_at};

use crate::backend::transport::coarse_clock;
use crate::backend::{Backend, Kind, Versioning};
use crate::util::sleep::sleep_while_owned;

/// The interval for a catalog of the embedding program, which is as healthy as the program.
const OWN_INTERVAL: Duration = Duration::from_secs(60);

/// The longest time between two checks of a catalog with an address that is down.
const WHILE_DOWN: Duration = Duration::from_secs(1);

/// The number of health checks after which a catalog that does not manage versions is asked again.
const REPEAT: usize = 60;

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

/// Checks a backend at its interval for as long as it exists, and more often while an address is down: one that comes
/// back serves at once, and must not be called down until the interval is over. In between, from the second check on,
/// finds out whether it manages versions.
pub async fn watch(object: Weak<Backend>) {
    for checks in 0_usize.. {
        let Some(backend) = object.upgrade() else {
            return;
        };
        let mut interval = check(&backend).await;
        if backend.has_address_down() {
            interval = interval.min(WHILE_DOWN);
        }
        let next = Instant::now() + coarse_clock::jittered(interval);
        let asks = match backend.versioning() {
            Versioning::Managed => false,
            Versioning::Unmanaged => checks.is_multiple_of(REPEAT),
            Versioning::NotSeen => checks > 0,
        };
        if asks && backend.is_up() && backend.has_service_credentials() {
            // Without an answer it is asked again; the health check has reported why.
            let _ = timeout_at(next, backend.ask_versioning()).await;
        }
        drop(backend);
        sleep_while_owned(&object, next).await;
    }
}

/// Checks once. Returns the time to wait until the next check.
async fn check(backend: &Backend) -> Duration {
    match &backend.to.kind {
        Kind::Rest(rest) => {
            rest.check().await;
            rest.check_interval()
        }
        #[cfg(feature = "dir")]
        Kind::Dir(dir) => {
            let outcome = dir.check().await;
            let why = outcome.as_ref().err().cloned();
            if backend.to.health.note(outcome) {
                match why {
                    Some(why) => {
                        tracing::warn!(backend = %backend.name(), cause = why, "backend is down")
                    }
                    None => tracing::info!(backend = %backend.name(), "backend is up"),
                }
            }
            crate::backend::dir::CHECK_INTERVAL
        }
        Kind::Own(_) => OWN_INTERVAL,
    }
}
