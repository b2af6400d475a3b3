//! A `batch-create` request: admitted, run, answered. What one catalog can do by itself is left to it.

use std::sync::Arc;

use aws_lc_rs::digest::{Context as Hasher, SHA256};
use bytes::Bytes;
use http::{Response, StatusCode};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use tokio::sync::OwnedSemaphorePermit;
use uuid::Uuid;

use super::coordinator::Run;
use super::log::{Action, BatchId, Intent};
use super::outcomes::{Admission, Answered, Outcome};
use super::participant::{self, Asker, is_unsupported};
use super::plan::{Entry, Plan};
use super::step::{Event, step};
use super::{Batches, Line, TableKey, busy};
use crate::backend::{Authority, Backend};
use crate::body::Body;
use crate::config::BatchMode;
use crate::error::Error;
use crate::protocol::batch::BatchRequest;
use crate::protocol::context::Context;
use crate::protocol::identifier::Identifier;
use crate::protocol::operation::Operation;

/// One `batch-create` request, its body checked and without `identity`.
pub struct BatchCall {
    /// The entries.
    pub request: BatchRequest,
    /// Who asks: whatever distinguishes callers.
    pub caller: String,
    /// The `Idempotency-Key` header.
    pub idempotency_key: Option<String>,
    /// The caller's credentials.
    pub authority: Authority,
    /// The caller's context.
    pub context: Context,
}

impl Batches {
    /// Creates the versions of a batch, all or none of them. `route` finds an entry's backend and the catalog's
    /// own identifier. Errors name the entry's index.
    pub async fn create(
        &self,
        call: BatchCall,
        route: impl Fn(&Identifier) -> Result<(Arc<Backend>, Identifier), Error>,
    ) -> Result<Response<Body>, Error> {
        let fingerprint = fingerprint(&call);
        let plan = Plan::new(routed(&call.request, route)?, |backend| {
            self.may_be_atomic(backend)
        })?;
        if let Some(response) = self.by_one_catalog(&plan, &call).await? {
            return Ok(response);
        }
        let permit = Arc::clone(&self.running).try_acquire_owned();
        let permit = permit.map_err(|_| busy("too many batches are running"))?;
        let key = request_key(&call, &fingerprint);
        match self.outcomes.admit(&key, Uuid::now_v7(), &fingerprint) {
            Admission::Different => Err(Error::invalid(
                "this Idempotency-Key was used before, with other entries",
            )
            .with_status(StatusCode::UNPROCESSABLE_ENTITY)),
            Admission::Join(outcome) => respond(&outcome).await,
            Admission::First(outcome) => {
                let intent = Intent {
                    entries: plan.intent_entries(),
                    idempotency: call.idempotency_key.is_some().then(|| key.clone()),
                    fingerprint,
                };
                self.begin(key, intent, plan, call, &outcome, permit);
                respond(&outcome).await
            }
        }
    }

    /// Runs a batch in a task of its own: a client that goes away stops nothing.
    fn begin(
        &self,
        key: String,
        intent: Intent,
        plan: Plan,
        call: BatchCall,
        outcome: &Arc<Outcome>,
        permit: OwnedSemaphorePermit,
    ) {
        let asker = self.asker(&call);
        let (state, effects) = step(plan.state(), Event::Begin);
        let coordinator = Arc::clone(&self.coordinator);
        let outcome_of_run = Arc::clone(outcome);
        let run = Run::new(coordinator, plan, intent, outcome_of_run, asker, permit);
        tokio::spawn(run.run(state, effects));
        let outcomes = Arc::clone(&self.outcomes);
        let outcome = Arc::clone(outcome);
        tokio::spawn(async move {
            outcome.wait().await;
            outcomes.finish(&key, call.idempotency_key.is_some(), &outcome);
        });
    }

    /// Leaves a batch to its only catalog, where that can do it by itself; `None`: it is to be coordinated.
    async fn by_one_catalog(
        &self,
        plan: &Plan,
        call: &BatchCall,
    ) -> Result<Option<Response<Body>>, Error> {
        let Entry { backend, .. } = &plan.entries[0];
        let one = |entry: &Entry| Arc::ptr_eq(&entry.backend, backend);
        if !plan.entries.iter().all(one) {
            return Ok(None);
        }
        let atomic = self.is_atomic(backend);
        // What a key promises, nsgate's own memory keeps.
        if call.idempotency_key.is_some() || (plan.entries.len() > 1 && atomic == Some(false)) {
            return Ok(None);
        }
        let wait = self.coordinator.settings.lock_timeout;
        let hold = self.coordinator.locks.shared(plan.tables(), wait).await;
        let _hold = hold.map_err(|_| busy("a table is part of a batch that is not decided yet"))?;
        let visibility = &self.coordinator.visibility;
        let versions = || {
            let entries = plan.entries.iter().enumerate();
            entries.filter_map(|(index, entry)| Some((index, &entry.line, entry.version()?)))
        };
        for (index, line, version) in versions() {
            let allowed = visibility.may_create(line, version);
            allowed.map_err(|forbidden| forbidden.refusal(version).at(index).into_error())?;
        }
        for (_, line, version) in versions() {
            visibility.contest(line, version);
        }
        let response = if plan.entries.len() == 1 && atomic != Some(true) {
            single(&plan.entries[0], &self.asker(call)).await?
        } else {
            let entries: Vec<&Entry> = plan.entries.iter().collect();
            let answer = participant::grouped(backend, &entries, &self.asker(call)).await;
            let answer = answer.map_err(|failure| failure.into_error(backend.name()))?;
            if backend.batch_mode() == BatchMode::Auto {
                let supported = !is_unsupported(answer.status, &answer.body);
                let atomic = &self.coordinator.atomic;
                atomic.insert(Arc::clone(backend.name()), supported);
                if !supported {
                    return Ok(None);
                }
            }
            json(answer.status, answer.body)
        };
        if response.status().is_success() {
            for (_, line, version) in versions() {
                visibility.taken(line, version);
            }
        }
        Ok(Some(response))
    }

    /// Whether a catalog has an atomic batch-create of its own, where that is known.
    fn is_atomic(&self, backend: &Backend) -> Option<bool> {
        match backend.batch_mode() {
            BatchMode::Atomic => Some(true),
            BatchMode::Versions => Some(false),
            BatchMode::Auto => {
                let known = self.coordinator.atomic.get(backend.name());
                known.map(|known| *known)
            }
        }
    }

    /// What is not known yet is found out by asking.
    fn may_be_atomic(&self, backend: &Backend) -> bool {
        self.is_atomic(backend) != Some(false)
    }

    fn asker(&self, call: &BatchCall) -> Asker {
        Asker {
            authority: call.authority.clone(),
            context: call.context.clone(),
            timeout: self.coordinator.settings.prepare_timeout,
        }
    }
}

/// A batch of one entry, as a single create; the answer in batch form.
async fn single(entry: &Entry, asker: &Asker) -> Result<Response<Body>, Error> {
    #[derive(Deserialize)]
    struct Created {
        version: Box<RawValue>,
    }
    let mut ask = asker.ask(Operation::CreateTableVersion, &entry.line.table.table);
    ask.body = Some(entry.body.clone());
    let answer = entry.backend.ask(ask).await;
    let answer = answer.map_err(|failure| failure.into_error(entry.backend.name()))?;
    if !answer.status.is_success() {
        return Ok(json(answer.status, answer.body));
    }
    let created: Created = serde_json::from_slice(&answer.body).map_err(|error| {
        Error::unavailable("the catalog's answer does not show the version").with_cause(error)
    })?;
    let body = Batch {
        transaction_id: None,
        versions: &[created.version],
    };
    Ok(json(answer.status, to_json(&body)?))
}

/// A `BatchCreateTableVersionsResponse`.
#[derive(Serialize)]
struct Batch<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    transaction_id: Option<String>,
    versions: &'a [Box<RawValue>],
}

/// Routes every entry and puts its body into the catalog's terms.
fn routed(
    request: &BatchRequest,
    route: impl Fn(&Identifier) -> Result<(Arc<Backend>, Identifier), Error>,
) -> Result<Vec<Entry>, Error> {
    let mut entries = Vec::with_capacity(request.entries.len());
    for (index, entry) in request.entries.iter().enumerate() {
        let (backend, table) =
            route(&entry.id).map_err(|error| error.within(&format!("entries[{index}]")))?;
        let body = entry.body_for(&table);
        let line = Line {
            table: TableKey {
                backend: Arc::clone(backend.name()),
                table,
            },
            branch: entry.branch.clone().filter(|branch| branch != "main"),
        };
        entries.push(Entry {
            backend,
            line,
            action: Action::CreateVersion {
                version: entry.version,
                manifest_size: entry
                    .manifest_size
                    .and_then(|size| u64::try_from(size).ok()),
                e_tag: entry.e_tag.clone(),
            },
            body,
        });
    }
    Ok(entries)
}

/// Waits for the batch and says how it ended.
async fn respond(outcome: &Outcome) -> Result<Response<Body>, Error> {
    match &*outcome.wait().await {
        Answered::Committed(versions) => created(outcome.id, versions),
        Answered::Refused { refusal, .. } => Err(refusal.clone().into_error()),
        Answered::Unknown => Err(Error::unavailable(
            "the batch is not decided yet; ask for its transaction",
        )
        .with_transaction(outcome.id.to_string())),
    }
}

fn created(id: BatchId, versions: &[Box<RawValue>]) -> Result<Response<Body>, Error> {
    let body = Batch {
        transaction_id: Some(id.to_string()),
        versions,
    };
    Ok(json(StatusCode::OK, to_json(&body)?))
}

fn to_json(value: &impl Serialize) -> Result<Vec<u8>, Error> {
    serde_json::to_vec(value)
        .map_err(|error| Error::internal("the answer cannot be written", error))
}

pub(super) fn json(status: StatusCode, body: impl Into<Bytes>) -> Response<Body> {
    let mut response = Response::new(Body::full(body));
    *response.status_mut() = status;
    let json = http::HeaderValue::from_static("application/json");
    response
        .headers_mut()
        .insert(http::header::CONTENT_TYPE, json);
    response
}

/// The same entries have the same fingerprint, whatever the spelling of the rest of the body.
fn fingerprint(call: &BatchCall) -> String {
    let mut hasher = Hasher::new(&SHA256);
    for entry in &call.request.entries {
        hasher.update(&entry.body_for(&entry.id));
        hasher.update(b"\n");
    }
    hex(hasher)
}

/// Caller and key, or caller and entries; hashed, for the log keeps it.
fn request_key(call: &BatchCall, fingerprint: &str) -> String {
    let mut hasher = Hasher::new(&SHA256);
    let (kind, key) = match &call.idempotency_key {
        Some(key) => ("key", key.as_str()),
        None => ("entries", fingerprint),
    };
    for part in [&call.caller, kind, key] {
        hasher.update(&(part.len() as u64).to_be_bytes());
        hasher.update(part.as_bytes());
    }
    hex(hasher)
}

fn hex(hasher: Hasher) -> String {
    use std::fmt::Write;
    let mut text = String::with_capacity(64);
    for byte in hasher.finish().as_ref() {
        // Writing to a String cannot fail.
        let _ = write!(text, "{byte:02x}");
    }
    text
}
