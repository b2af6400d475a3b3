//! Requests of batches to catalogs: what each needs, and how many are in flight at a time.

use std::sync::Arc;
use std::time::Duration;

use dashmap::DashMap;
use tokio::sync::{AcquireError, Semaphore, SemaphorePermit};
use tokio::time::sleep;

use crate::batch::participant::CallerContext;
use crate::batch::plan::Plan;

/// The most requests in flight to one catalog, over all batches.
const CALLS: usize = 512;

/// The limits of each catalog by itself: a catalog that hangs delays no batch of the others.
#[derive(Default)]
pub(super) struct CallLimits(DashMap<Arc<str>, Arc<Semaphore>>);

impl CallLimits {
    pub(super) fn to(&self, backend: &Arc<str>) -> Arc<Semaphore> {
        if let Some(calls) = self.0.get(backend) {
            return Arc::clone(&calls);
        }
        let new = || Arc::new(Semaphore::new(CALLS));
        Arc::clone(&self.0.entry(Arc::clone(backend)).or_insert_with(new))
    }
}

/// A request to a catalog that waits for its turn.
pub(super) struct CallTurn {
    pub(super) plan: Arc<Plan>,
    pub(super) asker: CallerContext,
    pub(super) calls: Arc<Semaphore>,
    pub(super) pause: Option<Duration>,
}

impl CallTurn {
    /// Waits for the pause, if there is one, and until one more request may be in flight.
    pub(super) async fn begins(&self) -> Result<SemaphorePermit<'_>, AcquireError> {
        if let Some(pause) = self.pause {
            sleep(pause).await;
        }
        self.calls.acquire().await
    }
}

#[cfg(test)]
mod tests;
