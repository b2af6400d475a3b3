//! Questions of batches to catalogs: what each takes with it, and how many are under way at a time.

use std::sync::Arc;
use std::time::Duration;

use dashmap::DashMap;
use tokio::sync::{AcquireError, Semaphore, SemaphorePermit};
use tokio::time::sleep;

use crate::batch::participant::CallerContext;
use crate::batch::plan::Plan;

/// To one catalog, over all batches.
const CALLS: usize = 512;

/// For each catalog by itself: one that hangs keeps no batch from the others.
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

/// What a question to a catalog takes with it.
pub(super) struct CallTurn {
    pub(super) plan: Arc<Plan>,
    pub(super) asker: CallerContext,
    pub(super) calls: Arc<Semaphore>,
    pub(super) pause: Option<Duration>,
}

impl CallTurn {
    /// Waits for the pause, if there is one, and until one more question may be under way.
    pub(super) async fn begins(&self) -> Result<SemaphorePermit<'_>, AcquireError> {
        if let Some(pause) = self.pause {
            sleep(pause).await;
        }
        self.calls.acquire().await
    }
}

#[cfg(test)]
mod tests;
