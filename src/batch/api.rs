//! Handles requests for batches: admits, runs and answers them.
//!
//! `batch-create`, `batch-commit` and a rename that the gateway does are one path: a batch-create is a commit of
//! versions only, a rename is a commit of one operation, and only the wording of their answers differs.

mod admissible;
mod answer;
pub mod outcomes;
pub(in crate::batch) mod rename;
mod repeated;
pub(in crate::batch) mod second_name;
mod snapshot;
pub(in crate::batch) mod table_lock;

use std::sync::Arc;

use aws_lc_rs::digest::{Context as Hasher, SHA256};
use http::Response;
use tokio::time::Instant;

pub use answer::json;
use repeated::{different, unknown, withdrawn};

use super::log::{Action, Intent, VersionRange};
use super::participant::CallerContext;
use super::plan::{Entry, Plan};
use super::step::{Event, Refusal, step};
use super::{Batches, TableBranch, TableKey};
use crate::backend::{Authority, Backend};
use crate::batch::api::outcomes::{Admission, BatchAnswer, Fingerprint, Outcome, RequestKey};
use crate::batch::run::BatchRun;
use crate::batch::run::admission::NoRoom;
use crate::batch::run::audited::AuditedBatch;
use crate::body::Body;
use crate::config::BatchMode;
use crate::error::Error;
use crate::error::code::Code;
use crate::protocol::canonical;
use crate::protocol::commit::{CommitOperation, DeleteTableVersions, RenameTable};
use crate::protocol::context::Context;
use crate::protocol::identifier::Identifier;
use crate::request::held::HeldBody;
use crate::request::origin::Origin;
use crate::util::budget::pause_among;

/// One request for a batch, with its body checked and `identity` removed.
pub struct BatchCall {
    /// The contract's request that was used.
    pub form: Form,
    /// The operations, in request order.
    pub operations: Vec<CommitOperation>,
    /// The caller of the batch.
    pub caller: Caller,
}

/// The contract's requests that are carried out as batches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// `batch-create`: versions only.
    Create,
    /// `batch-commit`: any of its operations.
    Commit,
    /// The rename of one table.
    Rename,
}

/// The caller of a batch.
pub struct Caller {
    /// A name that distinguishes callers, and never changes between two tries.
    pub name: String,
    /// A name that distinguishes callers, and that none of them can choose: what one may have of the places and of the log
    /// counts under it.
    pub counts_as: String,
    /// The context and headers that distinguish two requests of one caller besides their entries; empty for most.
    pub besides: String,
    /// The `Idempotency-Key` header; `None` if there was none.
    pub idempotency_key: Option<String>,
    /// The caller's credentials.
    pub authority: Authority,
    /// The caller's context.
    pub context: Context,
    /// The caller's request.
    pub origin: Origin,
    /// The time at which it came.
    pub came: Instant,
    /// True if the gateway's own rules decide what the caller may write.
    pub is_judged: bool,
    /// The memory that the body takes; `None` if it does not count.
    pub held: Option<Arc<HeldBody>>,
}

impl Batches {
    /// Carries out all operations of a batch, or none. `route` returns a table's backend and the catalog's own
    /// identifier. Errors name the operation's index.
    pub async fn commit(
        &self,
        call: BatchCall,
        route: impl Fn(&Identifier) -> Result<(Arc<Backend>, Identifier), Error>,
    ) -> Result<Response<Body>, Error> {
        let planned = self.planned(&call, &route).await;
        pause_among(call.operations.len()).await;
        let fingerprint = fingerprint(&call);
        pause_among(call.operations.len()).await;
        let plan = match planned {
            Ok(plan) => plan,
            Err(error) => {
                let may = |id: &Identifier| {
                    let denied = route(id).err();
                    denied.is_none_or(|error| error.code() != Code::PermissionDenied)
                };
                let operations = call.operations.iter();
                let mut names = operations.flat_map(|it| [Some(it.id()), it.new_name()]);
                if call.caller.idempotency_key.is_none() || !names.all(|id| id.is_none_or(may)) {
                    return Err(error);
                }
                return self.repeated(&call, fingerprint, error).await;
            }
        };
        let entries = plan.entries.iter();
        let tables = entries.map(|entry| entry.line.table.clone()).collect();
        let bytes = plan.entries.iter().map(|entry| entry.body.len()).sum();
        let context = self.context_of(&call.caller);
        let plan = rename::located(plan, rename::all(&call.operations), context);
        let outcome = self.coordinate(&call.caller, fingerprint, (tables, bytes), plan);
        call.form.answer(&call.operations, &*outcome.await?).await
    }

    /// Returns the plan of a batch as the configuration is now.
    async fn planned(
        &self,
        call: &BatchCall,
        route: impl Fn(&Identifier) -> Result<(Arc<Backend>, Identifier), Error>,
    ) -> Result<Plan, Error> {
        self.may_have(call)?;
        let atomic = |backend: &Backend| self.may_be_atomic(backend);
        let operation_of = |entry| operation_of(&call.operations, entry);
        let label = |entry| call.form.label(operation_of(entry));
        let entries = routed(call, route)?;
        pause_among(entries.len()).await;
        let mut plan = Plan::new(entries, label, atomic)?;
        plan.held.clone_from(&call.caller.held);
        self.may_declare(&plan, call).await?;
        Ok(plan)
    }

    /// Refuses a batch with more entries than are allowed now.
    fn may_have(&self, call: &BatchCall) -> Result<(), Error> {
        let most = self.max_entries();
        let entries = call.operations.iter().map(CommitOperation::entries);
        let entries: usize = entries.sum();
        if entries <= most {
            return Ok(());
        }
        Err(Error::invalid(match call.form {
            Form::Create => {
                format!("`entries`: a batch has at most {most} entries, and this one has {entries}")
            }
            Form::Commit | Form::Rename => format!(
                "`operations`: a batch has at most {most} operations, and this one has {entries}; a rename counts as two"
            ),
        }))
    }

    /// Starts a coordinated batch, or joins the same one: from the same caller, with the same key or, without one,
    /// the same `fingerprint`. Only the first request is planned. `tables` has the table of each entry, and `bytes` is what
    /// the client has sent for all of them.
    pub(super) async fn coordinate(
        &self,
        caller: &Caller,
        fingerprint: Fingerprint,
        (tables, bytes): (Vec<TableKey>, usize),
        plan: impl Future<Output = Result<Plan, Refusal>> + Send + 'static,
    ) -> Result<Arc<Outcome>, Error> {
        let entries = tables.len();
        let permit = self.coordinator.permits.admit(&caller.counts_as, &tables);
        let key = caller.idempotency_key.as_deref();
        let request = RequestKey::new(&caller.name, key, fingerprint);
        let name = || self.coordinator.ids.next();
        let admitted = self.outcomes.admit(&request, tables, name).await;
        let outcome = match admitted.map_err(|error| unknown(error, key))? {
            Admission::Different => return Err(different()),
            Admission::Withdrawn => return Err(withdrawn()),
            Admission::Join(outcome) => {
                caller.origin.began(&outcome.id);
                caller.origin.repeats();
                return Ok(outcome);
            }
            Admission::First(outcome) => outcome,
        };
        caller.origin.began(&outcome.id);
        let (idempotency, fingerprint) = (request.idempotency(), request.fingerprint().to_owned());
        let (key, has_key) = request.into_parts();
        let permit = permit.map_err(NoRoom::into_error).and_then(|permit| {
            let settings = self.coordinator.settings();
            let share = (settings.log_share, settings.remember_outcomes);
            let log_share = &self.coordinator.log_share;
            let counted = log_share.take(&caller.counts_as, (bytes, entries), share)?;
            Ok((permit, counted))
        });
        let (permit, counted) = match permit {
            Ok(permit) => permit,
            Err(error) => {
                self.coordinator.metrics.refused();
                // Requests that have joined meanwhile get the same answer.
                outcome.refuse(&error);
                self.outcomes.finish(&key, has_key, &outcome).await;
                return Err(error);
            }
        };
        let coordinator = Arc::clone(&self.coordinator);
        let audited = AuditedBatch::begun(&coordinator, outcome.id, &caller.origin);
        let (context, of_run) = (self.context_of(caller), Arc::clone(&outcome));
        let (caller, counts_as) = ((context, caller.came), caller.counts_as.clone());
        // The batch has a task of its own: a client that disconnects stops nothing.
        let run = tokio::spawn(async move {
            let plan = match plan.await {
                Ok(plan) => plan,
                Err(refusal) => {
                    if refusal.is_another_writers() {
                        coordinator.metrics.conflicted();
                    } else {
                        coordinator.metrics.refused();
                    }
                    let written = false;
                    return of_run.set(BatchAnswer::Refused { refusal, written });
                }
            };
            let intent = Intent {
                entries: plan.intent_entries(),
                idempotency,
                fingerprint,
                context: caller.0.context.pairs(),
            };
            let (state, effects) = step(plan.state(), Event::Begin);
            let mut run = BatchRun::new(coordinator, plan, intent, of_run, caller, permit);
            run.audited_as(audited);
            run.run(state, effects).await;
        });
        let (outcomes, finished) = (Arc::clone(&self.outcomes), Arc::clone(&outcome));
        let coordinator = Arc::clone(&self.coordinator);
        tokio::spawn(async move {
            tokio::select! {
                biased;
                _ = finished.wait() => {}
                // The task panicked before there was a batch. A batch that runs answers before it ends, however it
                // ends.
                Err(ended) = run => if ended.is_panic() { finished.give_up() },
            }
            let answer = finished.get();
            if matches!(
                answer.as_deref(),
                Some(BatchAnswer::Refused { written: false, .. })
            ) {
                coordinator.log_share.give_back(&counts_as, counted);
            }
            outcomes.finish(&key, has_key, &finished).await;
        });
        Ok(outcome)
    }

    /// Returns true if a catalog has, or may have, an atomic batch-create of its own. The first request to it finds
    /// out.
    fn may_be_atomic(&self, backend: &Backend) -> bool {
        match backend.batch_mode() {
            BatchMode::Atomic => true,
            BatchMode::Versions => false,
            BatchMode::Auto => {
                let known = self.coordinator.atomic.get(backend.name());
                known.is_none_or(|known| *known)
            }
        }
    }

    pub(super) fn context_of(&self, caller: &Caller) -> CallerContext {
        CallerContext {
            authority: caller.authority.clone(),
            context: caller.context.clone(),
            timeout: self.coordinator.settings().prepare_timeout,
            origin: caller.origin.clone(),
        }
    }
}

impl Form {
    /// Returns the request's name for one of its operations.
    fn label(self, operation: usize) -> String {
        match self {
            Self::Create => format!("entries[{operation}]"),
            Self::Commit | Self::Rename => format!("operations[{operation}]"),
        }
    }

    /// Names the operation that an error is about, if the request may have several.
    fn within(self, operation: usize, error: Error) -> Error {
        match self {
            Self::Create | Self::Commit => error.within(&self.label(operation)),
            Self::Rename => error,
        }
    }
}

/// Returns the operation that an entry of the plan belongs to.
fn operation_of(operations: &[CommitOperation], entry: usize) -> usize {
    let mut entries = 0;
    let found = operations.iter().position(|operation| {
        entries += operation.entries();
        entry < entries
    });
    found.unwrap_or(entry)
}

/// Routes every operation and converts its body into the catalog's terms.
fn routed(
    call: &BatchCall,
    route: impl Fn(&Identifier) -> Result<(Arc<Backend>, Identifier), Error>,
) -> Result<Vec<Entry>, Error> {
    let mut entries = Vec::with_capacity(call.operations.len());
    for (index, operation) in call.operations.iter().enumerate() {
        let within = |error| call.form.within(index, error);
        for (id, branch, action) in changes(operation).map_err(within)? {
            let (backend, table) = route(id).map_err(within)?;
            let body = operation.body_for(&table);
            admissible::check(&backend, id, &action, &call.caller).map_err(within)?;
            let table = TableKey::at(&backend, table);
            entries.push(Entry {
                backend,
                line: TableBranch::new(table, branch),
                action,
                body,
            });
        }
        if let CommitOperation::RenameTable(RenameTable { id, new }) = operation
            && let [.., one, other] = &entries[..]
            && one.line == other.line
        {
            let message = format!("{id} and {new} are the same table");
            return Err(within(Error::invalid(message)));
        }
    }
    Ok(entries)
}

/// One change of an operation: the table, its branch, and the action.
type Change<'a> = (&'a Identifier, Option<String>, Action);

/// Returns the changes that an operation is made of.
fn changes(operation: &CommitOperation) -> Result<Vec<Change<'_>>, Error> {
    let id = operation.id();
    Ok(match operation {
        CommitOperation::DeclareTable(declare) => {
            let location = declare.location.clone();
            vec![(id, None, Action::Declare { location })]
        }
        CommitOperation::CreateTableVersion(create) => {
            let action = Action::CreateVersion {
                version: create.version,
                manifest_size: create
                    .manifest_size
                    .and_then(|size| u64::try_from(size).ok()),
                e_tag: create.e_tag.clone(),
            };
            vec![(id, create.branch.clone(), action)]
        }
        CommitOperation::DeleteTableVersions(delete) => {
            let ranges = bounded(delete)?;
            let action = Action::DeleteVersions { ranges };
            vec![(id, delete.branch.clone(), action)]
        }
        CommitOperation::DeregisterTable(_) => vec![(id, None, Action::Deregister)],
        CommitOperation::RenameTable(rename) => {
            // The location follows when the catalog has told it.
            let location = String::new();
            vec![
                (&rename.new, None, Action::Register { location }),
                (id, None, Action::Deregister),
            ]
        }
    })
}

fn bounded(delete: &DeleteTableVersions) -> Result<Vec<VersionRange>, Error> {
    let ranges = delete.ranges.iter().enumerate();
    let ranges = ranges.map(|(place, range)| match range.end {
        Some(end) => Ok(VersionRange {
            start: range.start,
            end,
        }),
        None => Err(Error::invalid(format!(
            "`delete_table_versions.ranges[{place}].end_version`: -1 would also delete the latest version, which a batch must keep; to remove the table, deregister it"
        ))),
    });
    ranges.collect()
}

/// Returns the fingerprint of a request: equal values have the same one, however the body spells them.
fn fingerprint(call: &BatchCall) -> Fingerprint {
    if let (Form::Rename, [CommitOperation::RenameTable(RenameTable { id, new })]) =
        (call.form, &call.operations[..])
    {
        return rename::fingerprint(id, new, &call.caller);
    }
    let has_key = call.caller.idempotency_key.is_some();
    let mut canonical = Hasher::new(&SHA256);
    let mut spelled = has_key.then(|| Hasher::new(&SHA256));
    for hasher in std::iter::once(&mut canonical).chain(&mut spelled) {
        hasher.update(call.caller.besides.as_bytes());
    }
    let mut spelling = Vec::new();
    for operation in &call.operations {
        let body = operation.body_for(operation.id());
        spelling.clear();
        // The body was JSON when it was parsed, so nothing is lost here.
        canonical::write(&String::from_utf8_lossy(&body), &mut spelling);
        let texts = [spelling.as_slice(), &body];
        for (hasher, text) in std::iter::once(&mut canonical)
            .chain(&mut spelled)
            .zip(texts)
        {
            if call.form == Form::Commit {
                hasher.update(operation.kind().as_bytes());
                hasher.update(b":");
            }
            hasher.update(text);
            hasher.update(b"\n");
        }
    }
    Fingerprint::new(canonical, spelled)
}
