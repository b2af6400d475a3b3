//! `snapshot`: the latest visible versions of several tables, all of which were the latest at one moment.
//!
//! All tables are read, round after round, until two rounds in a row agree. A round begins after the one before it has
//! ended: each version was the latest before the earlier round ended, and again after the later one began, so all of
//! them were the latest in between. Tables that change too fast are locked, and read once more.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::{FuturesUnordered, StreamExt as _};
use http::header::AUTHORIZATION;
use http::request::Parts;
use http::{Request, Response, StatusCode};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout_at};

use super::{
    RoutingSnapshot, Shared, bulkhead, forward, needed_locks, operation_of, outgoing, request_body,
};
use crate::auth::access::Rights;
use crate::backend::{Authority, Backend, Failure, InternalAnswer, InternalRequest, read_answer};
use crate::batch::{READ_WAIT, TableBranch, json, refused};
use crate::body::Body;
use crate::error::Error;
use crate::error::code::Code;
use crate::error::facts::ErrorFacts;
use crate::protocol::context::Context;
use crate::protocol::operation::{Access, Kind, Operation};
use crate::protocol::snapshot::{SnapshotTable, parse};
use crate::request::caller::Caller;
use crate::request::context::RequestContext;
use crate::request::origin::Origin;

/// The largest number of rounds without locks.
const ROUNDS: usize = 5;
/// The largest number of reads of one snapshot at a time.
const AT_ONCE: usize = 256;
/// The largest number of reads of one snapshot at a time from one catalog.
const AT_ONE_CATALOG: usize = 32;
/// The largest number of long answers that one snapshot holds at a time. A catalog that ignores `limit` may list 64 MiB
/// for each table.
const LONG_AT_ONCE: usize = 4;
/// The largest size of all versions of one snapshot, as the catalogs describe them, in bytes.
const ANSWER_BYTES: usize = 64 << 20;

/// A table of a snapshot and its place in a catalog.
struct LocatedTable {
    asked: SnapshotTable,
    backend: Arc<Backend>,
    /// The table and its branch in the catalog.
    line: TableBranch,
}

/// The reads of one snapshot.
struct SnapshotReads<'a> {
    shared: &'a Shared,
    tables: Vec<LocatedTable>,
    authority: Authority,
    /// The name that distinguishes the caller from others.
    caller: String,
    context: Context,
    origin: Origin,
}

/// A version as its catalog describes it.
struct ListedVersion {
    raw: Box<RawValue>,
    facts: VersionFacts,
}

/// The fields that tell a version from another of the same number, such as one that was undone.
#[derive(Deserialize, PartialEq)]
struct VersionFacts {
    version: u64,
    manifest_path: Option<serde_json::Value>,
    manifest_size: Option<serde_json::Value>,
    e_tag: Option<serde_json::Value>,
    timestamp_millis: Option<serde_json::Value>,
}

/// The answer to a snapshot.
#[derive(Serialize)]
struct Snapshot<'a> {
    tables: Vec<TableAtMoment<'a>>,
    /// The number of rounds that were needed.
    rounds: usize,
}

#[derive(Serialize)]
struct TableAtMoment<'a> {
    id: Vec<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    branch: Option<&'a str>,
    version: &'a RawValue,
}

/// Answers with the latest versions of the tables that the body names.
pub(super) async fn snapshot(
    shared: &Shared,
    mut request: Request<Body>,
) -> Result<Response<Body>, Error> {
    let operation = operation_of(&request)?;
    let keep = |_: &_| Ok(None);
    request_body::admit(&mut request, operation, None, &shared.bodies, keep).await?;
    let (head, body) = request.into_parts();
    let body = request_body::read(body, shared.bodies.json).await?;
    let tables = parse(&body, shared.batches.max_entries())?;
    let context = RequestContext::of(&head.extensions).context.clone();
    let world = shared.world.seen_by(context.as_ref(), &head.headers)?;
    let reads = SnapshotReads {
        shared,
        tables: located(shared, &world, &head, tables)?,
        authority: Authority::Caller(head.headers.get(AUTHORIZATION).cloned()),
        caller: Caller::among(&head.extensions).to_string(),
        context: context.unwrap_or_default(),
        origin: Origin::of(&head.extensions),
    };
    let (versions, rounds) = reads.at_one_moment().await?;
    reads.answer(&versions, rounds)
}

/// Routes every table and checks that the caller may read it, before any catalog is asked.
fn located(
    shared: &Shared,
    world: &RoutingSnapshot,
    head: &Parts,
    tables: Vec<SnapshotTable>,
) -> Result<Vec<LocatedTable>, Error> {
    let rights = head.extensions.get::<Rights>();
    let route = |asked: SnapshotTable| {
        let id = &asked.id;
        if let Some(rights) = rights {
            rights.decide(Access::Read, id)?;
        }
        let mount = world.routes.owner(id, Kind::Table)?;
        let (backend, there) = (world.backend(mount), mount.to_catalog(id));
        outgoing::check(backend, Operation::ListTableVersions, (id, &there))?;
        bulkhead::check(shared.free.as_ref(), world, backend)?;
        Ok(LocatedTable {
            line: TableBranch::new(needed_locks::key(backend, &there), asked.branch.clone()),
            backend: Arc::clone(backend),
            asked,
        })
    };
    let tables = tables.into_iter().enumerate();
    let tables = tables.map(|(index, asked)| route(asked).map_err(|error| within(index, error)));
    let tables: Vec<LocatedTable> = tables.collect::<Result<_, _>>()?;
    let mut seen = HashMap::with_capacity(tables.len());
    for (index, table) in tables.iter().enumerate() {
        if let Some(first) = seen.insert(&table.line, index) {
            let message = format!("the same table and branch as `tables[{first}]`; name it once");
            return Err(within(index, Error::invalid(message)));
        }
    }
    Ok(tables)
}

impl SnapshotReads<'_> {
    /// Returns the versions, and the number of rounds that were needed.
    async fn at_one_moment(&self) -> Result<(Vec<ListedVersion>, usize), Error> {
        let (patience, mut before) = (self.shared.answer_timeout, None);
        for round in 1..=ROUNDS {
            let now = self.round(patience).await?;
            let is_same = |before: &Vec<_>| agree(before, &now);
            if self.tables.len() == 1 || before.as_ref().is_some_and(is_same) {
                return Ok((now, round));
            }
            before = Some(now);
        }
        // Changes wait meanwhile, so the round may take no longer than a read may wait for a batch.
        let batches = &self.shared.batches;
        let tables = self.tables.iter().map(|table| table.line.table.clone());
        let held = batches
            .hold_exclusively(&self.caller, tables.collect())
            .await;
        let _held = held.map_err(|error| self.with_table(error))?;
        let patience = patience.min(READ_WAIT);
        Ok((self.round(patience).await?, ROUNDS + 1))
    }

    /// Reads every table once, within `patience`.
    async fn round(&self, patience: Duration) -> Result<Vec<ListedVersion>, Error> {
        let deadline = Instant::now() + patience;
        let (all, long) = (Semaphore::new(AT_ONCE), Semaphore::new(LONG_AT_ONCE));
        let mut catalogs = BTreeMap::new();
        for table in &self.tables {
            let places = || Semaphore::new(AT_ONE_CATALOG);
            catalogs.entry(table.backend.name()).or_insert_with(places);
        }
        let read = async |index: usize| {
            let table = &self.tables[index];
            let read = async {
                // The catalog's place first: one that hangs must not hold the places of the others.
                let _catalog = catalogs[table.backend.name()].acquire().await;
                let _place = all.acquire().await;
                // Boxed, because most reads of a large snapshot only wait.
                Box::pin(self.read(table, &long, deadline)).await
            };
            let read = timeout_at(deadline, read).await;
            let late = |_| Err(Failure::TimedOut.into_error(table.backend.name()));
            let read = read.unwrap_or_else(late);
            (index, read.map_err(|error| within(index, error)))
        };
        let mut reads: FuturesUnordered<_> = (0..self.tables.len()).map(read).collect();
        let mut versions: Vec<Option<ListedVersion>> = Vec::new();
        versions.resize_with(self.tables.len(), || None);
        let mut bytes = 0;
        while let Some((index, read)) = reads.next().await {
            let version = read?;
            bytes += version.raw.get().len();
            if bytes > ANSWER_BYTES {
                let message = format!(
                    "the catalogs describe the versions in more than {ANSWER_BYTES} bytes; name fewer tables"
                );
                return Err(within(index, Error::unavailable(message)));
            }
            versions[index] = Some(version);
        }
        Ok(versions.into_iter().flatten().collect())
    }

    /// Returns the latest visible version of a table, as `version/list` shows it. `long` has the places of answers that
    /// did not come whole.
    async fn read(
        &self,
        table: &LocatedTable,
        long: &Semaphore,
        deadline: Instant,
    ) -> Result<ListedVersion, Error> {
        let LocatedTable {
            asked,
            backend,
            line,
        } = table;
        let mut query = vec![("descending", "true".to_owned()), ("limit", "1".to_owned())];
        query.extend(line.branch.iter().map(|branch| ("branch", branch.clone())));
        let there = &line.table.table;
        let ask = InternalRequest {
            operation: Operation::ListTableVersions,
            identifier: there.clone(),
            query,
            body: None,
            authority: self.authority.clone(),
            context: self.context.clone(),
            origin: self.origin.clone(),
            timeout: None,
        };
        let request = ask.into_request();
        let mut request = request.map_err(|error| {
            Error::internal("the request to the catalog cannot be written", error)
        })?;
        backend.scope().select_in(request.headers_mut());
        let _waiting = self.origin.waiting();
        let names = (&asked.id, there);
        let (head, body) = forward::list_versions(self.shared, backend, names, request)
            .await?
            .into_parts();
        // Until the answer is dropped.
        let _place = if body.is_whole() {
            None
        } else {
            long.acquire().await.ok()
        };
        let left = deadline.saturating_duration_since(Instant::now());
        let body = read_answer(body, left).await;
        let answer = InternalAnswer {
            status: head.status,
            headers: head.headers,
            body: body.map_err(|failure| failure.into_error(backend.name()))?,
        };
        match latest(&answer) {
            Some(Some(version)) => Ok(version),
            Some(None) => Err(Error::new(
                Code::TableVersionNotFound,
                format!("table {} has no version yet", asked.id),
            )),
            None => Err(refused(backend.name(), &answer)),
        }
    }

    /// Adds the table of an error that knows its index.
    fn with_table(&self, error: Error) -> Error {
        let entry = error.facts().and_then(|facts| facts.entry);
        match entry.and_then(|entry| self.tables.get(entry)) {
            Some(LocatedTable { asked, .. }) => error.with_facts(ErrorFacts {
                table: Some(asked.id.names().map(str::to_owned).collect()),
                branch: asked.branch.clone(),
                ..ErrorFacts::default()
            }),
            None => error,
        }
    }

    fn answer(&self, versions: &[ListedVersion], rounds: usize) -> Result<Response<Body>, Error> {
        let tables = self.tables.iter().zip(versions);
        let tables = tables.map(|(LocatedTable { asked, .. }, version)| TableAtMoment {
            id: asked.id.names().collect(),
            branch: asked.branch.as_deref(),
            version: &version.raw,
        });
        let snapshot = Snapshot {
            tables: tables.collect(),
            rounds,
        };
        let body = serde_json::to_vec(&snapshot);
        let body = body.map_err(|error| Error::internal("the answer cannot be written", error))?;
        Ok(json(StatusCode::OK, body))
    }
}

/// Returns the latest version in a list of versions; `Some(None)` for an empty list, `None` if the answer is not a
/// list.
fn latest(answer: &InternalAnswer) -> Option<Option<ListedVersion>> {
    #[derive(Deserialize)]
    struct Versions {
        versions: Vec<Box<RawValue>>,
    }
    if !answer.status.is_success() {
        return None;
    }
    let listed: Versions = serde_json::from_slice(&answer.body).ok()?;
    let mut latest: Option<ListedVersion> = None;
    for raw in listed.versions {
        let facts: VersionFacts = serde_json::from_str(raw.get()).ok()?;
        if latest
            .as_ref()
            .is_none_or(|latest| latest.facts.version < facts.version)
        {
            latest = Some(ListedVersion { raw, facts });
        }
    }
    Some(latest)
}

/// True if two rounds show the same versions.
fn agree(one: &[ListedVersion], other: &[ListedVersion]) -> bool {
    one.iter()
        .zip(other)
        .all(|(one, other)| one.facts == other.facts)
}

fn within(index: usize, error: Error) -> Error {
    error.within(&format!("tables[{index}]"))
}
