//! Limits how many requests of all batches are in flight to one catalog, and decides the pauses before they are
//! retried.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use dashmap::DashMap;
use tokio::sync::{AcquireError, Semaphore, SemaphorePermit};
use tokio::time::sleep;

use crate::batch::fleet::Fleet;
use crate::batch::participant::CallerContext;
use crate::batch::plan::Plan;

/// The shortest and the longest pause before a request to a catalog is retried.
const PAUSES: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(5));

/// A semaphore for each catalog, so that a catalog that hangs does not delay requests to the others.
#[derive(Default)]
pub(super) struct CallLimits(DashMap<Arc<str>, Calls>);

/// The places for requests to one catalog, over all batches.
struct Calls {
    most: usize,
    places: Arc<Semaphore>,
}

/// Returns the pause before a request that was retried so many times is retried again.
pub(super) fn pause_before_retry(retries: u32) -> Duration {
    let (first, longest) = PAUSES;
    first.saturating_mul(1 << retries.min(10)).min(longest)
}

impl CallLimits {
    /// Returns the `most` places for requests to a catalog. After a reload with another number, requests that wait or run
    /// keep the places that they were given.
    pub(super) fn to(&self, backend: &Arc<str>, most: usize) -> Arc<Semaphore> {
        if let Some(calls) = self.0.get(backend)
            && calls.most == most
        {
            return Arc::clone(&calls.places);
        }
        let new = || Calls {
            most,
            places: Arc::new(Semaphore::new(most)),
        };
        let mut calls = self.0.entry(Arc::clone(backend)).or_insert_with(new);
        if calls.most != most {
            *calls = new();
        }
        Arc::clone(&calls.places)
    }

    /// Drops the places at catalogs that are not kept.
    pub(super) fn retain(&self, is_kept: impl Fn(&Arc<str>) -> bool) {
        self.0.retain(|name, _| is_kept(name));
    }
}

/// The context of one request to a catalog.
pub(super) struct CallTurn {
    pub(super) plan: Arc<Plan>,
    pub(super) caller: CallerContext,
    pub(super) calls: Arc<Semaphore>,
    pub(super) pause: Option<Duration>,
    /// The gateways that share the log; `None` if the log is for one process only.
    pub(super) fleet: Option<Arc<Fleet>>,
}

impl CallTurn {
    /// Waits for the pause, if there is one, for a place among the requests in flight, and for the lease of this gateway.
    pub(super) async fn begins(&self) -> Result<SemaphorePermit<'_>, AcquireError> {
        if let Some(pause) = self.pause {
            sleep(pause).await;
        }
        let call = self.calls.acquire().await;
        may_send(self.fleet.as_deref()).await;
        call
    }
}

/// The permission to send the creates of a batch, which is looked at before each of them.
#[derive(Clone)]
pub(super) struct CreatePermission {
    /// True once the batch is to be aborted.
    pub(super) given_up: Arc<AtomicBool>,
    /// The gateways that share the log; `None` if the log is for one process only.
    pub(super) fleet: Option<Arc<Fleet>>,
}

impl CreatePermission {
    /// Waits for the lease of this gateway. Returns false if the batch is given up by then.
    pub(super) async fn is_given(&self) -> bool {
        may_send(self.fleet.as_deref()).await;
        !self.given_up.load(Ordering::Relaxed)
    }
}

/// Waits for the lease of this gateway: another one may be finishing the batch if it is over.
async fn may_send(fleet: Option<&Fleet>) {
    if let Some(fleet) = fleet {
        fleet.may_send().await;
    }
}

#[cfg(test)]
mod tests;
