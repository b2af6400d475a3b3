//! Locks tables for requests while catalogs work on them, refuses requests because of batches, and tells batches how
//! the requests ended.

use std::time::Duration;

use tokio::time::Instant;

use crate::backend::Backend;
use crate::batch::locks::{Hold, LockError, TableKey};
use crate::batch::log::BatchId;
use crate::batch::participant;
use crate::batch::participant::CallerContext;
use crate::batch::step::Refusal;
use crate::batch::visibility::{Forbidden, TableBranch};
use crate::batch::{Batches, busy, locked, unwritten};
use crate::error::Error;
use crate::error::facts::ErrorFacts;
use crate::protocol::identifier::Identifier;
use crate::protocol::operation::Access;

/// The longest time that a read waits for a table that is in a batch.
pub const READ_WAIT: Duration = Duration::from_secs(2);

impl Batches {
    /// Locks a table shared while its catalog reads or changes it. Waits for a batch on it: reads 2 s, changes
    /// `batch.lock_timeout`; then fails with 503 and `Retry-After`.
    pub async fn hold(&self, table: TableKey, access: Access) -> Result<Hold, Error> {
        let wait = match access {
            Access::Read => READ_WAIT,
            Access::Write => self.coordinator.settings().lock_timeout,
        };
        let locks = &self.coordinator.locks;
        let hold = locks.shared(table.clone(), wait).await;
        hold.map_err(|error| in_batch(error, locks.holder(&table)))
    }

    /// Waits until a reader that has locked this table must give way to a batch; returns the answer to the reader.
    pub async fn gives_way(&self, table: &TableKey) -> Error {
        self.coordinator.locks.pressed(table, Instant::now()).await;
        busy("a batch has waited long for the table, so this read was ended; retry later")
    }

    /// Locks a table shared for a change whose version the catalog chooses. Fails with 503 while a request that a
    /// batch sent about the table may still arrive there.
    pub async fn hold_for_change(&self, table: TableKey) -> Result<Hold, Error> {
        let hold = self.hold_at_rest(&table, None).await?;
        let allowed = self.coordinator.visibility.may_change(&table);
        allowed.map_err(|forbidden| forbidden.unchangeable(&table))?;
        Ok(hold)
    }

    /// Locks a table shared for a change that makes this version; `None` if the catalog chooses the version or the
    /// table gets another name. Also waits while a number that the change may make is in cool-down.
    async fn hold_at_rest(
        &self,
        table: &TableKey,
        version: Option<(&TableBranch, u64)>,
    ) -> Result<Hold, Error> {
        let coordinator = &self.coordinator;
        let lock = |wait| coordinator.locks.shared(table.clone(), wait);
        let rests = || coordinator.visibility.rests(table, version);
        let hold = coordinator.lock_at_rest(lock, rests).await;
        hold.map_err(|error| in_batch(error, coordinator.locks.holder(table)))
    }

    /// Locks a table shared while its name is given, taken away or given to another. Fails with 503 while a request
    /// that a batch sent about the table may still arrive.
    pub async fn hold_for_name(&self, table: TableKey) -> Result<Hold, Error> {
        let hold = self.hold_to_delete(table.clone()).await?;
        if !self.coordinator.visibility.is_empty() {
            self.coordinator.unclaim(&table).await;
        }
        Ok(hold)
    }

    /// Records that a change under the locks of these names has taken them from their tables.
    pub async fn renamed(&self, names: &[TableKey]) {
        if !self.coordinator.visibility.is_empty() {
            for name in names {
                self.coordinator.renamed(name).await;
            }
        }
    }

    /// Records that a change under the lock of `table` may have begun its versions, or those of a branch, anew.
    pub fn renumbered(&self, table: &TableKey) {
        self.coordinator.visibility.renumbered(table);
    }

    /// Locks a table shared while its catalog deletes versions or a branch. Fails with 503 while a request that a batch
    /// sent about the table may still arrive: it could hit a version that gets a deleted number again.
    pub async fn hold_to_delete(&self, table: TableKey) -> Result<Hold, Error> {
        let hold = self.hold_at_rest(&table, None).await?;
        let allowed = self.coordinator.visibility.may_rename(&table);
        allowed.map_err(|forbidden| forbidden.unchangeable(&table))?;
        Ok(hold)
    }

    /// Locks a namespace while its catalog drops it, and waits for batches on tables below it.
    pub async fn hold_namespace(
        &self,
        backend: &Backend,
        namespace: &Identifier,
    ) -> Result<Hold, Error> {
        let key = TableKey::at(backend, namespace.clone());
        let wait = self.coordinator.settings().lock_timeout;
        let hold = self.coordinator.locks.namespace(key.clone(), wait).await;
        let hold = hold.map_err(|error| {
            let message =
                "a table below the namespace is locked by an unfinished batch; retry later";
            locked(error, message)
        })?;
        let visibility = &self.coordinator.visibility;
        if !visibility.is_empty() {
            let allowed = visibility.may_drop(|table| table.is_below(&key));
            allowed.map_err(|forbidden| forbidden.of_namespace().into_error())?;
        }
        let is_below = |table: &TableKey| table.is_below(&key);
        let left = visibility.may_leave(|place| place.origin.as_ref().is_some_and(is_below));
        left.map_err(Refusal::into_error)?;
        Ok(hold)
    }

    /// Locks a table shared for the create of one version. Refuses a version that a removal by a batch may still hit
    /// (503), or that was built on a version that is gone (409, code 14). `came` is when the request arrived.
    pub async fn hold_for_create(
        &self,
        line: &TableBranch,
        version: u64,
        came: Instant,
    ) -> Result<Hold, Error> {
        let hold = self
            .hold_at_rest(&line.table, Some((line, version)))
            .await?;
        let visibility = &self.coordinator.visibility;
        if visibility.is_empty() {
            return Ok(hold);
        }
        let allowed = visibility.may_create(line, version, came);
        allowed.map_err(|forbidden| forbidden.refusal(version).into_error())?;
        let contested = self.coordinator.contest(line, version).await;
        contested.map_err(unwritten)?;
        Ok(hold)
    }

    /// Records that a create under this lock has succeeded: the version is its writer's.
    pub async fn created(&self, line: &TableBranch, version: u64) {
        self.coordinator.taken(line, version).await;
    }

    /// Records that a create under this lock, or a change whose version the catalog chose (`None`), has ended without
    /// having made that version for certain.
    pub async fn attempted(&self, table: &TableKey, version: Option<(&TableBranch, u64)>) {
        if !self.coordinator.visibility.is_empty() {
            self.coordinator.attempted(table, version).await;
        }
    }

    /// Records that a change under the lock of `table` has ended without a known result: it may still land for as
    /// long as requests are in flight. `version` is the one that it was to create; `None` if its catalog chooses it,
    /// or if it has another effect.
    pub fn unanswered(&self, table: &TableKey, version: Option<(&TableBranch, u64)>) {
        self.coordinator.unanswered(table, version);
    }

    /// Checks whether the answer of a catalog that chose the version by itself may be shown: fails with 503 if a
    /// create of an aborted batch may have landed meanwhile. Must be called while the table is locked, once the
    /// catalog has answered.
    pub async fn check_latest(&self, backend: &Backend, table: &TableKey) -> Result<(), Error> {
        let visibility = &self.coordinator.visibility;
        if visibility.is_empty() {
            return Ok(());
        }
        for (line, version) in visibility.landing(table) {
            let caller = CallerContext::service(READ_WAIT);
            let lacks = participant::lacks_version(backend, &line, version, &caller).await;
            if !lacks {
                return Err(busy(
                    "a version of an aborted batch has arrived late and is being rolled back; retry later",
                ));
            }
        }
        Ok(())
    }
}

/// Returns the answer to a request for a locked table. `holder` is the batch that holds it.
fn in_batch(error: LockError, holder: Option<BatchId>) -> Error {
    let message = "the table is locked by an unfinished batch; retry later";
    let error = locked(error, message);
    match holder {
        Some(batch) => error.with_facts(ErrorFacts {
            locked_by: Some(batch.to_string()),
            ..ErrorFacts::default()
        }),
        None => error,
    }
}

impl Forbidden {
    /// Returns the answer to a change of the table, or of its name.
    pub(in crate::batch) fn unchangeable(self, table: &TableKey) -> Error {
        self.of_name(table).into_error()
    }
}
