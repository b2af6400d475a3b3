//! The locks of a snapshot whose tables change faster than they can be read.

use std::time::Duration;

use futures_util::FutureExt as _;

use crate::batch::locks::{Hold, LockError, TableKey};
use crate::batch::run::permits::Permit;
use crate::batch::{Batches, locked};
use crate::error::Error;

/// Tables that are locked exclusively, and their place within the limits of batches. Dropping it frees both.
pub struct ExclusiveHold {
    _hold: Hold,
    _permit: Permit,
}

impl Batches {
    /// Locks tables exclusively for a reader, within the limits of batches and in their order: no change through the
    /// gateway is under way while they are locked. Fails with 503 and `Retry-After` after `batch.lock_timeout`.
    pub async fn hold_exclusively(&self, tables: Vec<TableKey>) -> Result<ExclusiveHold, Error> {
        let coordinator = &self.coordinator;
        let permit = coordinator.permits.admit(&tables);
        let mut permit = permit.map_err(|full| full.into_error())?;
        let wait = coordinator.settings().lock_timeout;
        let mut locking = Box::pin(coordinator.locks.for_batch(tables, wait));
        let hold = match locking.as_mut().now_or_never() {
            Some(hold) => hold,
            None if permit.wait() => locking.await,
            None => Err(LockError::Crowded),
        };
        let message =
            "one of the tables is locked by an unfinished batch or a long operation; retry later";
        Ok(ExclusiveHold {
            _hold: hold.map_err(|error| locked(error, message))?,
            _permit: permit,
        })
    }

    /// The longest time for which a batch prepares, and for which a reader may keep tables locked.
    pub fn prepare_timeout(&self) -> Duration {
        self.coordinator.settings().prepare_timeout
    }
}
