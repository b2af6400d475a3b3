//! The locks of a snapshot whose tables change faster than they can be read.

use futures_util::FutureExt as _;

use crate::batch::locks::{Hold, LockError, TableKey};
use crate::batch::run::admission::Permit;
use crate::batch::{Batches, LOCKED, locked};
use crate::error::Error;
use crate::error::facts::ErrorFacts;

/// Tables that are locked exclusively, and their place within the limits of batches. Dropping it frees both.
pub struct ExclusiveHold {
    _hold: Hold,
    _permit: Permit,
}

impl Batches {
    /// Locks tables exclusively for a reader, within the limits of batches and in their order: no change through the
    /// gateway is under way while they are locked. Fails with 503 and `Retry-After` after `batch.lock_timeout`; the
    /// error's `entry` is the index of a table that is locked.
    pub async fn hold_exclusively(
        &self,
        caller: &str,
        tables: Vec<TableKey>,
    ) -> Result<ExclusiveHold, Error> {
        let coordinator = &self.coordinator;
        let locks = &coordinator.locks;
        let permit = coordinator.permits.admit(caller, &tables);
        let permit = permit.map_err(|full| full.into_error())?;
        let wait = coordinator.settings().lock_timeout;
        let mut locking = Box::pin(locks.for_snapshot(tables.iter().cloned(), wait));
        let hold = match locking.as_mut().now_or_never() {
            Some(hold) => hold,
            None if permit.place().wait() => locking.await,
            None => {
                drop(locking);
                Err(LockError::Crowded)
            }
        };
        let hold = hold.map_err(|error| {
            let blocking = locks.blocking(&tables);
            locked(error, LOCKED).with_facts(ErrorFacts {
                entry: blocking.map(|blocking| blocking.entry),
                locked_by: blocking.and_then(|blocking| Some(blocking.by?.to_string())),
                ..ErrorFacts::default()
            })
        })?;
        let guarded = coordinator.guard_tables(&tables).await;
        guarded.map_err(|error| locked(error, LOCKED))?;
        Ok(ExclusiveHold {
            _hold: hold,
            _permit: permit,
        })
    }
}
