//! Decides whether the location of a table may get a second name, through which readers would see what the first one
//! hides.

use std::sync::Arc;

use futures_util::future::join_all;
use percent_encoding::percent_decode_str;
use tokio::time::Instant;

use super::operation_of;
use super::table_lock::READ_WAIT;
use crate::backend::Backend;
use crate::batch::log::Action;
use crate::batch::participant;
use crate::batch::participant::{CallerContext, same_place};
use crate::batch::plan::Plan;
use crate::batch::step::Refusal;
use crate::batch::visibility::gates::renaming;
use crate::batch::visibility::names::RenamedLocation;
use crate::batch::{BatchCall, Batches, Caller, Hold, TableBranch, TableKey, busy};
use crate::error::Error;
use crate::protocol::context::Context;
use crate::protocol::operation::Access;

/// The most tables of one catalog that are looked up before a location gets a name; beyond it 503.
const LOOKED_AT: usize = 64;

impl Batches {
    /// Refuses a name for the location of another table of the catalog while versions of that table are hidden or
    /// watched for: 503 with `Retry-After`.
    pub async fn may_name(
        &self,
        backend: &Arc<Backend>,
        table: &TableKey,
        location: &str,
        caller: &Caller,
    ) -> Result<(), Error> {
        let visibility = &self.coordinator.visibility;
        let catalog = backend.catalog();
        let named = visibility.may_leave(|place| {
            let is_known = place.is_in(catalog) && are_alike(&place.location, location);
            place.origin.as_ref() != Some(table)
                && (is_known || same_place(&place.location, location))
        });
        named.map_err(Refusal::into_error)?;
        let mut tables = visibility.tables_of(catalog);
        tables.remove(table);
        if tables.len() > LOOKED_AT {
            return Err(busy(
                "too many tables are locked by unfinished batches to tell whether one of them is at `location`; retry later",
            ));
        }
        let mut context = self.context_of(caller);
        if backend.has_service_credentials() {
            // The caller need not have permission to see the other tables.
            context.authority = backend.service_authority();
        }
        let found = tables.into_iter().map(async |table| {
            let mut context = context.clone();
            if table.scope != *backend.scope() {
                context.context = Context::default();
            }
            at(&backend.in_scope(&table.scope), table, &context).await
        });
        for found in join_all(found).await {
            let is_there = match found {
                Ok(found) => found.is_some_and(|found| are_alike(&found, location)),
                Err(error) => return Err(error),
            };
            if is_there {
                return Err(busy(
                    "the table at `location` is locked by an unfinished batch; retry later",
                ));
            }
        }
        Ok(())
    }

    /// Locks a table shared while its catalog may destroy its data. Waits while a batch on the table runs, and while a
    /// committed one removes the name that the table had before. Fails with 503 while a batch gives the location a second
    /// name that is not decided or may come back.
    pub async fn hold_to_destroy(
        &self,
        backend: &Backend,
        table: &TableKey,
    ) -> Result<Hold, Error> {
        let deadline = Instant::now() + self.coordinator.settings().lock_timeout;
        loop {
            let hold = self.hold_for_name(table.clone()).await?;
            match self.name_before(|place| place.name == *table) {
                None => {
                    self.may_leave(backend, table).await?;
                    return Ok(hold);
                }
                Some(_) if Instant::now() > deadline => return Err(renaming().into_error()),
                Some(before) => {
                    drop(hold);
                    self.hold(before, Access::Write).await?;
                }
            }
        }
    }

    /// Refuses (503) to destroy a table, or to give it another name, while a batch gives its location a second name
    /// that is not decided or may come back. Must be called while the table is locked.
    async fn may_leave(&self, backend: &Backend, table: &TableKey) -> Result<(), Error> {
        let visibility = &self.coordinator.visibility;
        let left = visibility.may_leave(|place| place.origin.as_ref() == Some(table));
        left.map_err(Refusal::into_error)?;
        let is_near = |place: &RenamedLocation| place.is_in(backend.catalog());
        if visibility.names.second_name(is_near).is_none() && self.name_before(is_near).is_none() {
            return Ok(());
        }
        // The table may be another name of that location.
        let found = at(backend, table.clone(), &CallerContext::service(READ_WAIT)).await?;
        let Some(location) = found else {
            return Ok(());
        };
        let is_there = |place: &RenamedLocation| same_place(&place.location, &location);
        visibility
            .may_leave(is_there)
            .map_err(Refusal::into_error)?;
        match self.name_before(is_there) {
            Some(_) => Err(renaming().into_error()),
            None => Ok(()),
        }
    }

    /// The first name of a matching place that a committed batch is removing; `None` if that is done.
    pub(in crate::batch) fn name_before(
        &self,
        of: impl Fn(&RenamedLocation) -> bool,
    ) -> Option<TableKey> {
        let coordinator = &self.coordinator;
        let names = coordinator.visibility.names.first_names(of);
        let mut names = names.into_iter();
        names.find(|name| coordinator.locks.holder(name).is_some())
    }

    /// Does the same as [`may_name`](Self::may_name) for the names that a batch declares.
    pub(in crate::batch) async fn may_declare(
        &self,
        plan: &Plan,
        call: &BatchCall,
    ) -> Result<(), Error> {
        for (index, entry) in plan.entries.iter().enumerate() {
            let Action::Declare {
                location: Some(location),
            } = &entry.action
            else {
                continue;
            };
            self.may_name(&entry.backend, &entry.line.table, location, &call.caller)
                .await
                .map_err(|error| {
                    let operation = operation_of(&call.operations, index);
                    call.form.within(operation, error)
                })?;
        }
        Ok(())
    }
}

/// Returns the location of a table; `None` if the table does not exist. Fails with 503 if its catalog does not say.
async fn at(
    backend: &Backend,
    table: TableKey,
    context: &CallerContext,
) -> Result<Option<String>, Error> {
    let line = TableBranch::new(table, None);
    let found = participant::table(backend, &line, context).await;
    let untold = || {
        busy("cannot tell whether an unfinished batch uses the location of the table; retry later")
    };
    let found = found
        .map_err(|refusal| untold().of(refusal.origin).with_cause(refusal.message))?
        .map(|found| found.proof.location.ok_or_else(untold));
    found.transpose()
}

/// Returns true if two locations may be one. Some catalogs interpret a location relative to their root.
fn are_alike(one: &str, other: &str) -> bool {
    let (one, other) = (parts(one), parts(other));
    let of_both = one.iter().rev().zip(other.iter().rev());
    !one.is_empty() && !other.is_empty() && of_both.into_iter().all(|(one, other)| one == other)
}

/// Returns the names in a location, without its scheme.
fn parts(location: &str) -> Vec<Arc<str>> {
    let path = location
        .split_once("://")
        .map_or(location, |(_, path)| path);
    let parts = path.split('/');
    let parts = parts.filter(|part| !matches!(*part, "" | "."));
    parts
        .map(|part| percent_decode_str(part).decode_utf8_lossy().into())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::are_alike;

    #[test]
    fn a_location_has_several_spellings() {
        let whole = "file:///lake/170c_prod$t1";
        let same = [
            whole,
            "/lake/170c_prod$t1/",
            "170c_prod$t1",
            "./170c_prod%24t1",
            "file:///lake//170c_prod$t1",
        ];
        for other in same {
            assert!(
                are_alike(whole, other) && are_alike(other, whole),
                "{other}"
            );
        }
        for other in ["file:///pond/170c_prod$t1", "170c_prod$t", "t1", "", "/"] {
            assert!(!are_alike(whole, other), "{other}");
        }
    }
}
