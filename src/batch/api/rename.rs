//! Renames tables that no catalog renames by itself: a table's location is registered under the new name before the
//! decision, and the old name is deregistered after it. The data stay where they are.

use std::collections::HashSet;
use std::sync::Arc;

use aws_lc_rs::digest::{Context as Hasher, SHA256};
use bytes::Bytes;
use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use http::Response;

use super::outcomes::{Admission, Fingerprint, RequestKey};
use super::repeated::{different, withdrawn};
use super::{BatchCall, Caller, Form};
use crate::backend::Backend;
use crate::batch::locks::Hold;
use crate::batch::log::Action;
use crate::batch::participant;
use crate::batch::participant::CallerContext;
use crate::batch::plan::{Entry, Plan};
use crate::batch::step::Refusal;
use crate::batch::{Batches, TableBranch, TableKey, locked, unread};
use crate::body::Body;
use crate::error::Error;
use crate::error::code::Code;
use crate::protocol::commit::{CommitOperation, RenameTable};
use crate::protocol::identifier::Identifier;

/// The number of renames of one batch that are looked up at the same time.
const AT_ONCE: usize = 8;

/// One request to rename a table.
pub struct RenameCall {
    /// The present name.
    pub old: RenameEnd,
    /// The new name.
    pub new: RenameEnd,
    /// The caller of the rename.
    pub caller: Caller,
}

/// One of the two names of a rename, and its backend.
#[derive(Clone)]
pub struct RenameEnd {
    /// The backend of the catalog that has the name.
    pub backend: Arc<Backend>,
    /// The identifier as the catalog spells it.
    pub there: Identifier,
    /// The identifier as the client spells it.
    pub asked: Identifier,
}

impl Batches {
    /// Returns true if a catalog may have a rename of its own.
    pub fn may_rename(&self, backend: &Backend) -> bool {
        !self.without_rename.contains(backend.name())
    }

    /// Records that a catalog has no rename.
    pub fn cannot_rename(&self, backend: &Backend) {
        self.without_rename.insert(Arc::clone(backend.name()));
    }

    /// Locks both names shared, while a catalog renames. Fails with 503 while a request that a batch sent about one
    /// of them may still arrive; waits while a version number of theirs is in cool-down.
    pub async fn hold_both(&self, old: TableKey, new: TableKey) -> Result<Hold, Error> {
        let coordinator = &self.coordinator;
        let both = [old, new];
        let lock = |wait| coordinator.locks.all_shared(both.clone(), wait);
        let rests = || {
            let rests = both.iter();
            let rests = rests.filter_map(|table| coordinator.visibility.rests(table, None));
            rests.max()
        };
        let hold = coordinator.lock_at_rest(lock, rests).await;
        let message = "one of the names is locked by an unfinished batch; retry later";
        let hold = hold.map_err(|error| locked(error, message))?;
        for table in &both {
            let allowed = self.coordinator.visibility.may_rename(table);
            allowed.map_err(|forbidden| forbidden.unchangeable(table))?;
            self.coordinator.unclaim(table).await;
        }
        Ok(hold)
    }

    /// Renames a table by registering it under its new name and deregistering the old one: readers see one of the
    /// two.
    pub async fn rename(&self, call: RenameCall) -> Result<Response<Body>, Error> {
        let RenameCall { old, new, caller } = call;
        let names = RenameTable {
            id: old.asked.clone(),
            new: new.asked.clone(),
        };
        let call = BatchCall {
            form: Form::Rename,
            operations: vec![CommitOperation::RenameTable(names)],
            caller,
        };
        let route = |asked: &Identifier| {
            let end = if *asked == old.asked { &old } else { &new };
            Ok((Arc::clone(&end.backend), end.there.clone()))
        };
        self.commit(call, route).await
    }

    /// Returns the answer to the same rename, if it is running or was done before; `None` if there is none.
    pub async fn repeated_rename(
        &self,
        caller: &Caller,
        old: &Identifier,
        new: &Identifier,
    ) -> Result<Option<Response<Body>>, Error> {
        let key = caller.idempotency_key.as_deref();
        let fingerprint = fingerprint(old, new, caller);
        let request = RequestKey::new(&caller.name, key, fingerprint);
        match self.outcomes.known(&request).await.map_err(unread)? {
            None => Ok(None),
            Some(Admission::Different) => Err(different()),
            Some(Admission::Withdrawn) => Err(withdrawn()),
            Some(Admission::Join(outcome) | Admission::First(outcome)) => {
                caller.origin.began(&outcome.id);
                caller.origin.repeats();
                Form::Rename.answer(&[], &outcome).await.map(Some)
            }
        }
    }
}

impl RenameEnd {
    /// Returns the key by which the table is locked.
    pub fn key(&self) -> TableKey {
        TableKey::at(&self.backend, self.there.clone())
    }

    pub(in crate::batch) fn line(&self) -> TableBranch {
        TableBranch::new(self.key(), None)
    }
}

/// A rename of a batch, with the number of its first entry.
pub(super) type Rename = (usize, RenameTable);

/// Returns the renames among the operations of a batch.
pub(super) fn all(operations: &[CommitOperation]) -> Vec<Rename> {
    let mut next = 0;
    let renames = operations.iter().filter_map(|operation| {
        let entry = next;
        next += operation.entries();
        match operation {
            CommitOperation::RenameTable(names) => Some((entry, names.clone())),
            _ => None,
        }
    });
    renames.collect()
}

/// Looks up the tables that the batch renames, and completes their registrations. Nothing has been written anywhere
/// when this fails.
pub(super) async fn located(
    mut plan: Plan,
    renames: Vec<Rename>,
    context: CallerContext,
) -> Result<Plan, Refusal> {
    let mut asked = HashSet::new();
    let mut lookups = Vec::with_capacity(renames.len());
    for (entry, names) in renames {
        let (new, old) = (plan.entries[entry].clone(), plan.entries[entry + 1].clone());
        let mut is_first = |question: Question, of: &Entry| {
            let TableKey {
                backend,
                scope,
                table,
            } = &of.line.table;
            let catalog = (Arc::clone(backend), scope.clone());
            asked.insert((question, catalog, table.parent()))
        };
        let lookup = Lookup {
            can_deregister: is_first(Question::CanDeregister, &old),
            other_can_deregister: new.backend.name() != old.backend.name()
                && is_first(Question::CanDeregister, &new),
            has_namespace: is_first(Question::HasNamespace, &new),
            names,
            old,
            new,
        };
        let context = context.clone();
        lookups.push(async move {
            let found = lookup.find(&context).await;
            found
                .map_err(|refusal| refusal.at(entry))
                .map(|found| (entry, found))
        });
    }
    let mut found = stream::iter(lookups).buffered(AT_ONCE);
    while let Some((entry, (location, body))) = found.try_next().await? {
        let register = &mut plan.entries[entry];
        (register.action, register.body) = (Action::Register { location }, body);
    }
    Ok(plan)
}

/// A question about a namespace of a catalog, which is asked once for a batch.
#[derive(PartialEq, Eq, Hash)]
enum Question {
    CanDeregister,
    HasNamespace,
}

/// The questions about one rename. Those that an earlier rename of the batch asks are left out.
struct Lookup {
    names: RenameTable,
    old: Entry,
    new: Entry,
    can_deregister: bool,
    other_can_deregister: bool,
    has_namespace: bool,
}

impl Lookup {
    /// Returns the location of the table, and the body that registers it under its new name.
    async fn find(&self, context: &CallerContext) -> Result<(String, Bytes), Refusal> {
        let Self { old, new, .. } = self;
        let can_deregister = async |entry: &Entry, is_asked: bool| {
            if !is_asked {
                return Ok(());
            }
            participant::can_deregister(&entry.backend, &entry.line, context).await
        };
        let has_namespace = async {
            if !self.has_namespace {
                return Ok(true);
            }
            participant::has_namespace(&new.backend, &new.line, context).await
        };
        let (found, can, other_can, is_served) = tokio::join!(
            participant::table(&old.backend, &old.line, context),
            can_deregister(old, self.can_deregister),
            can_deregister(new, self.other_can_deregister),
            has_namespace,
        );
        let RenameTable { id, new: new_id } = &self.names;
        let found = found?.ok_or_else(|| {
            let message = format!("table {id} does not exist");
            Refusal::new(Code::TableNotFound, message)
        })?;
        if !is_served? {
            let namespace = new_id.parent().unwrap_or_else(Identifier::root);
            let message = format!("namespace {namespace} does not exist");
            return Err(Refusal::new(Code::NamespaceNotFound, message));
        }
        can?;
        other_can?;
        let backend = old.backend.name();
        let Some(location) = found.proof.location.clone() else {
            return Err(unsupported(format!(
                "backend `{backend}` does not tell the location of {id}, which is needed to register it under its new name",
            )));
        };
        if is_found_by_its_directory(&old.line.table.table, &location) {
            return Err(unsupported(format!(
                "backend `{backend}` finds {id} by the name of its directory, and a rename does not change that: the table would keep its old name",
            )));
        }
        let body = participant::registration(&new.line.table.table, &found);
        Ok((location, body))
    }
}

/// Returns true if the catalog finds a table by its directory: directory catalogs find what is at their root by
/// listing it, whatever has been deregistered.
fn is_found_by_its_directory(there: &Identifier, location: &str) -> bool {
    let directory = location.trim_end_matches('/').rsplit('/').next();
    let name = directory.and_then(|directory| directory.strip_suffix(".lance"));
    there.len() == 1 && name.is_some() && name == there.last()
}

fn unsupported(message: String) -> Refusal {
    Refusal::new(Code::Unsupported, message)
}

/// Returns the fingerprint of the rename of one table.
pub(super) fn fingerprint(old: &Identifier, new: &Identifier, caller: &Caller) -> Fingerprint {
    let mut hasher = Hasher::new(&SHA256);
    hasher.update(caller.besides.as_bytes());
    hasher.update(b"rename");
    for name in [old, new] {
        for part in name.names() {
            hasher.update(b"\0");
            hasher.update(part.as_bytes());
        }
        hasher.update(b"\n");
    }
    Fingerprint::new(hasher, None)
}
