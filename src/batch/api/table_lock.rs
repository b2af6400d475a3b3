//! What requests hold while their catalogs work on them, what they are refused on account of batches, and what batches
//! learn of how they ended.

use std::sync::Arc;

use tokio::time::Instant;

use crate::backend::Backend;
use crate::batch::locks::{Hold, LockError, TableKey};
use crate::batch::participant;
use crate::batch::participant::CallerContext;
use crate::batch::step::Refusal;
use crate::batch::visibility::{Forbidden, TableBranch};
use crate::batch::{Batches, READ_WAIT, busy, locked, unwritten};
use crate::error::Error;
use crate::protocol::identifier::Identifier;
use crate::protocol::operation::Access;

impl Batches {
    /// Holds a table shared while its catalog reads or changes it. Waits for a batch on it: reads 2 s, changes
    /// `batch.lock_timeout`; then 503 with `Retry-After`.
    pub async fn hold(&self, table: TableKey, access: Access) -> Result<Hold, Error> {
        let wait = match access {
            Access::Read => READ_WAIT,
            Access::Write => self.coordinator.settings().lock_timeout,
        };
        let hold = self.coordinator.locks.shared(table, wait).await;
        hold.map_err(in_batch)
    }

    /// Holds a table for a change of which its catalog chooses the version by itself; refused (503) while something that
    /// a batch sent about the table may still arrive there.
    pub async fn hold_for_change(&self, table: TableKey) -> Result<Hold, Error> {
        let hold = self.hold_at_rest(&table, None).await?;
        let allowed = self.coordinator.visibility.may_change(&table);
        allowed.map_err(|forbidden| forbidden.unchangeable(&table))?;
        Ok(hold)
    }

    /// Holds a table shared for a change that makes this version, or one that the catalog chooses, or gives the table to
    /// another name (`None`). Waits, besides, while a number rests that may be made by then.
    async fn hold_at_rest(
        &self,
        table: &TableKey,
        version: Option<(&TableBranch, u64)>,
    ) -> Result<Hold, Error> {
        let coordinator = &self.coordinator;
        let lock = |wait| coordinator.locks.shared(table.clone(), wait);
        let rests = || coordinator.visibility.rests(table, version);
        let hold = coordinator.lock_at_rest(lock, rests).await;
        hold.map_err(in_batch)
    }

    /// Holds a table while a name of it is given, taken away or given to another; refused (503) while something that a
    /// batch sent about it may still arrive.
    pub async fn hold_for_name(&self, table: TableKey) -> Result<Hold, Error> {
        let hold = self.hold_at_rest(&table, None).await?;
        let allowed = self.coordinator.visibility.may_rename(&table);
        allowed.map_err(|forbidden| forbidden.unchangeable(&table))?;
        if !self.coordinator.visibility.is_empty() {
            self.coordinator.renamed(&table).await;
        }
        Ok(hold)
    }

    /// Holds a namespace while its catalog drops it: waits for batches on tables below it.
    pub async fn hold_namespace(
        &self,
        backend: &Backend,
        namespace: &Identifier,
    ) -> Result<Hold, Error> {
        let key = TableKey {
            backend: Arc::clone(backend.catalog()),
            table: namespace.clone(),
        };
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
            allowed.map_err(|forbidden| forbidden.unchangeable(&key))?;
        }
        let is_below = |table: &TableKey| table.is_below(&key);
        let left = visibility.may_leave(|place| place.origin.as_ref().is_some_and(is_below));
        left.map_err(Refusal::into_error)?;
        Ok(hold)
    }

    /// Holds a table for the create of one version: refuses one that a removal of ours may still hit (503), or that was
    /// built on a version that is gone (409, code 14).
    pub async fn hold_for_create(&self, line: &TableBranch, version: u64) -> Result<Hold, Error> {
        let came = Instant::now();
        let hold = self
            .hold_at_rest(&line.table, Some((line, version)))
            .await?;
        let visibility = &self.coordinator.visibility;
        if visibility.is_empty() {
            return Ok(hold);
        }
        let allowed = visibility.may_create(line, version, came);
        allowed.map_err(|forbidden| {
            let seconds = forbidden.seconds();
            let error = forbidden.refusal(version).into_error();
            match forbidden {
                Forbidden::Uncertain(_) => error.retry_after(seconds),
                Forbidden::BuiltOnGone { .. } => error,
            }
        })?;
        let contested = self.coordinator.contest(line, version).await;
        contested.map_err(unwritten)?;
        Ok(hold)
    }

    /// A create that was held for has succeeded: that version is its writer's.
    pub async fn created(&self, line: &TableBranch, version: u64) {
        self.coordinator.taken(line, version).await;
    }

    /// A create of this version that was held for, or a change of which the catalog chose the version (`None`), has ended
    /// without having made that version for certain.
    pub async fn attempted(&self, table: &TableKey, version: Option<(&TableBranch, u64)>) {
        if !self.coordinator.visibility.is_empty() {
            self.coordinator.attempted(table, version).await;
        }
    }

    /// A change that held `table` has ended, and whether its catalog has acted on it, or yet will, is not known: it may
    /// still land, for as long as requests are under way. `version`: the one that it was to create; `None`: its catalog
    /// chooses it, or it has another effect.
    pub fn unanswered(&self, table: &TableKey, version: Option<(&TableBranch, u64)>) {
        self.coordinator.unanswered(table, version);
    }

    /// Whether the answer of a catalog that chose the version by itself may be shown: no create of an aborted batch has
    /// landed meanwhile. To be asked while the table is held, once the catalog has answered.
    pub async fn check_latest(&self, backend: &Backend, table: &TableKey) -> Result<(), Error> {
        let visibility = &self.coordinator.visibility;
        if visibility.is_empty() {
            return Ok(());
        }
        for (line, version) in visibility.landing(table) {
            let asker = CallerContext::service(READ_WAIT);
            let lacks = participant::lacks_version(backend, &line, version, &asker).await;
            if !lacks {
                return Err(busy(
                    "a version of an aborted batch has arrived late and is being rolled back; retry later",
                ));
            }
        }
        Ok(())
    }
}

fn in_batch(error: LockError) -> Error {
    locked(
        error,
        "the table is locked by an unfinished batch; retry later",
    )
}

impl Forbidden {
    /// The answer to a change of the table, or of its name.
    pub(in crate::batch) fn unchangeable(self, table: &TableKey) -> Error {
        let error = self.of_name(&table.table).into_error();
        error.retry_after(self.seconds())
    }
}
