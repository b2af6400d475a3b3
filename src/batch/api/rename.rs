//! Renames a table that no catalog renames by itself: the table's location is registered under the new name before
//! the decision, and the old name is deregistered after it. The data stay where they are.

use std::sync::Arc;

use aws_lc_rs::digest::{Context as Hasher, SHA256};
use bytes::Bytes;
use http::{Response, StatusCode};

use super::outcomes::{Admission, BatchAnswer, Fingerprint, Outcome, RequestKey};
use crate::backend::Backend;
use crate::batch::api::{Caller, different, json};
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
use crate::protocol::identifier::Identifier;

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
            self.coordinator.renamed(table).await;
        }
        Ok(hold)
    }

    /// Renames a table by registering it under its new name and deregistering the old one: readers see one of the
    /// two.
    pub async fn rename(&self, call: RenameCall) -> Result<Response<Body>, Error> {
        let RenameCall { old, new, caller } = call;
        let fingerprint = fingerprint(&old, &new);
        let context = self.context_of(&caller);
        // The batch has one entry for each name.
        let tables = vec![old.key(), new.key()];
        let planned = planned(old, new, context);
        let outcome = self.coordinate(&caller, fingerprint, tables, planned);
        answer(&*outcome.await?).await
    }

    /// Returns the answer to the same rename, if it is running or was done before; `None` if there is none.
    pub async fn repeated_rename(
        &self,
        RenameCall { old, new, caller }: &RenameCall,
    ) -> Result<Option<Response<Body>>, Error> {
        let key = caller.idempotency_key.as_deref();
        let request = RequestKey::new(&caller.name, key, fingerprint(old, new));
        match self.outcomes.known(&request).await.map_err(unread)? {
            None => Ok(None),
            Some(Admission::Different) => Err(different()),
            Some(Admission::Join(outcome) | Admission::First(outcome)) => {
                answer(&outcome).await.map(Some)
            }
        }
    }
}

/// Waits for the rename and returns the answer to its request.
async fn answer(outcome: &Outcome) -> Result<Response<Body>, Error> {
    match &*outcome.wait().await {
        BatchAnswer::Committed(_) => {
            let body = serde_json::json!({"transaction_id": outcome.id.to_string()});
            Ok(json(StatusCode::OK, body.to_string()))
        }
        BatchAnswer::Refused { refusal, .. } => {
            // The request has no entries, so its answer names none.
            Err(refusal.clone().into_error())
        }
        BatchAnswer::Unknown => Err(Error::unavailable(
            "the rename is not decided yet; describe its transaction to learn the outcome",
        )
        .with_transaction(outcome.id.to_string())),
    }
}

impl RenameEnd {
    /// Returns the key by which the table is locked.
    pub fn key(&self) -> TableKey {
        TableKey {
            backend: Arc::clone(self.backend.catalog()),
            table: self.there.clone(),
        }
    }

    pub(in crate::batch) fn line(&self) -> TableBranch {
        TableBranch::new(self.key(), None)
    }
}

/// Looks up what exists, and returns the plan. Nothing has been written anywhere when this fails.
async fn planned(old: RenameEnd, new: RenameEnd, context: CallerContext) -> Result<Plan, Refusal> {
    let other = async {
        if old.backend.name() == new.backend.name() {
            Ok(())
        } else {
            participant::can_deregister(&new.backend, &new.line(), &context).await
        }
    };
    let (line, of_new) = (old.line(), new.line());
    let (found, can, other_can, is_served) = tokio::join!(
        participant::table(&old.backend, &line, &context),
        participant::can_deregister(&old.backend, &line, &context),
        other,
        participant::has_namespace(&new.backend, &of_new, &context),
    );
    let found = found?.ok_or_else(|| {
        let message = format!("table {} does not exist", old.asked);
        Refusal::new(Code::TableNotFound, message)
    })?;
    if !is_served? {
        let namespace = new.asked.parent().unwrap_or_else(Identifier::root);
        let message = format!("namespace {namespace} does not exist");
        return Err(Refusal::new(Code::NamespaceNotFound, message));
    }
    can?;
    other_can?;
    let Some(location) = found.proof.location.clone() else {
        return Err(unsupported(format!(
            "backend `{}` does not tell the location of {}, which is needed to register it under its new name",
            old.backend.name(),
            old.asked
        )));
    };
    if is_found_by_its_directory(&old.there, &location) {
        return Err(unsupported(format!(
            "backend `{}` finds {} by the name of its directory, and a rename does not change that: the table would keep its old name",
            old.backend.name(),
            old.asked
        )));
    }
    let body = participant::registration(&new.there, &found);
    let entry = |end: &RenameEnd, action, body| Entry {
        backend: Arc::clone(&end.backend),
        line: end.line(),
        action,
        body,
    };
    let register = entry(&new, Action::Register { location }, body);
    let deregister = entry(&old, Action::Deregister, Bytes::new());
    let plan = Plan::new(vec![register, deregister], "entries", |_| false);
    plan.map_err(|error| Refusal::from(&error))
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

fn fingerprint(old: &RenameEnd, new: &RenameEnd) -> Fingerprint {
    let mut hasher = Hasher::new(&SHA256);
    hasher.update(b"rename");
    for end in [old, new] {
        for part in end.asked.names() {
            hasher.update(b"\0");
            hasher.update(part.as_bytes());
        }
        hasher.update(b"\n");
    }
    Fingerprint::new(hasher, None)
}
