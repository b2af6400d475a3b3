//! The requests that a batch sends to one catalog, in the contract's single operations, and the meaning of the
//! answers.

mod answers;
mod create;
mod folder;
mod latest;
mod register;
mod remove;

use std::time::Duration;

use bytes::Bytes;
use serde_json::value::RawValue;
use tokio::time::Instant;

use crate::backend::{Authority, Backend, Failure, InternalAnswer, InternalRequest};
use crate::batch::log::{Action, Proof, VersionRange};
use crate::batch::plan::{Entry, Plan};
use crate::batch::step::{Finding, Hazard, Match, Refusal};
use crate::batch::visibility::{TableBranch, Visibility};
use crate::error::Error;
use crate::error::code::Code;
use crate::protocol::context::Context;
use crate::protocol::identifier::Identifier;
use crate::protocol::operation::Operation;
use crate::request::origin::Origin;
use answers::{
    LatestVersion, Staged, described, described_table, is_absent, refusal, same_registration,
    same_table,
};
use latest::{latest_and_alone, latest_version, versions};

pub use answers::{is_unsupported, same_place};
pub use create::{CreateOutcome, create, create_together};
pub use latest::{latest, look_above};
pub use register::{
    can_deregister, has_namespace, look_for_origin, look_for_versions, register, registration,
};
pub use remove::{Removal, delete, remove};

/// The largest number of hidden versions above the latest one that is shown.
const SHOWN: usize = 1024;

/// The number of lookups in a row that must find nothing before it is believed: a catalog may answer one of them from an
/// old copy.
pub const LOOKS_FOR_ABSENCE: u32 = 2;

/// The credentials and context of requests to a catalog, and their time limit.
#[derive(Clone)]
pub struct CallerContext {
    /// The caller's credentials, or the gateway's own.
    pub authority: Authority,
    /// The caller's context.
    pub context: Context,
    /// The caller's request.
    pub origin: Origin,
    /// The time limit of each request.
    pub timeout: Duration,
}

impl CallerContext {
    /// Returns the context of requests that the gateway sends for itself.
    pub fn service(timeout: Duration) -> Self {
        Self {
            authority: Authority::Service,
            context: Context::default(),
            origin: Origin::default(),
            timeout,
        }
    }
}

/// A version or a table as a catalog describes it: the unchanged JSON, and what identifies the object.
#[derive(Clone, Debug)]
pub struct CatalogDescription {
    /// The `TableVersion`, or the answer about a table, as the catalog wrote it.
    pub raw: Box<RawValue>,
    /// The values that identify the object.
    pub proof: Proof,
}

/// The reason why a catalog did not fully answer whether an object exists and is the batch's own.
#[derive(Debug)]
pub struct UnclearAnswer {
    /// The answer that it gave instead.
    pub refusal: Refusal,
    /// True if it has the version or the table.
    pub is_there: bool,
}

impl From<Refusal> for UnclearAnswer {
    fn from(refusal: Refusal) -> Self {
        let is_there = false;
        Self { refusal, is_there }
    }
}

fn but_there(refusal: Refusal) -> UnclearAnswer {
    let is_there = true;
    UnclearAnswer { refusal, is_there }
}

/// The comparison of a catalog's object with the batch's own.
pub struct Found {
    /// The result.
    pub finding: Finding,
    /// The catalog's description of the object; `None` if it does not exist.
    pub described: Option<CatalogDescription>,
    /// The latest version of the table; `None` if it was not looked up.
    pub latest: Option<u64>,
}

impl Found {
    fn absent() -> Self {
        Self {
            finding: Finding::Absent,
            described: None,
            latest: None,
        }
    }

    fn present(likeness: Match, obstacle: Option<Hazard>, described: CatalogDescription) -> Self {
        Self {
            finding: Finding::Present { likeness, obstacle },
            described: Some(described),
            latest: None,
        }
    }
}

/// Checks whether the batch may begin with this entry, which is the first of its branch. `came` is when the request
/// arrived. Returns the table's description where it was requested.
pub async fn validate(
    entry: &Entry,
    visibility: &Visibility,
    came: Instant,
    caller: &CallerContext,
) -> Result<Option<CatalogDescription>, Refusal> {
    let Entry { backend, line, .. } = entry;
    match &entry.action {
        Action::CreateVersion { version, .. } => {
            let LatestVersion { number, manifest } = latest_version(backend, line, caller).await?;
            let latest = number;
            if latest >= *version && visibility.hidden(line).contains(*version) {
                return Err(Refusal::unavailable(format!(
                    "version {version} of an aborted batch has arrived late and is being rolled back; retry later"
                )));
            }
            if latest + 1 != *version {
                let refusal = Refusal::conflict(format!(
                    "version {version} is not the next one: the table's latest is {latest}"
                ));
                let hidden = visibility.hidden(line);
                let mut shown = (0..=latest).rev().take(SHOWN);
                let found = shown.find(|version| *version == 0 || !hidden.contains(*version));
                return Err(Refusal { found, ..refusal });
            }
            if let Some(manifest) = manifest {
                folder::check(entry, &manifest)?;
            }
            // A version that must not be created now is refused here, before anything is written.
            let allowed = visibility.may_create(line, *version, came);
            allowed.map_err(|forbidden| forbidden.refusal(*version))?;
            Ok(None)
        }
        Action::Declare { .. } | Action::Register { .. } | Action::Deregister
            if let Err(forbidden) = visibility.may_rename(&line.table) =>
        {
            Err(forbidden.of_name(&line.table))
        }
        Action::Declare { .. } | Action::Register { .. } => {
            if let Action::Register { location } = &entry.action {
                visibility.may_leave(|place| same_place(&place.location, location))?;
            }
            match table(backend, line, caller).await? {
                None => Ok(None),
                Some(_) => Err(Refusal::new(
                    Code::TableAlreadyExists,
                    format!("table {} already exists", line.table.table),
                )),
            }
        }
        Action::Deregister => match table(backend, line, caller).await? {
            Some(described) => Ok(Some(described)),
            None => Err(Refusal::new(
                Code::TableNotFound,
                format!("table {} does not exist", line.table.table),
            )),
        },
        Action::DeleteVersions { ranges } => {
            // A version of an aborted batch that has landed late, or may land, is not a version to be kept.
            let allowed = visibility.may_rename(&line.table);
            allowed.map_err(|forbidden| forbidden.of_name(&line.table))?;
            let latest = latest(backend, line, caller).await?;
            match ranges.iter().find(|range| range.end > latest) {
                None => Ok(None),
                Some(VersionRange { start, end }) => Err(Refusal::conflict(format!(
                    "versions {start} to {end} cannot be deleted: a batch must keep the latest version, {latest}"
                ))
                .with_found(latest)),
            }
        }
    }
}

/// Checks whether aborted batches allow the later versions of a share.
pub fn may_follow(plan: &Plan, share: usize, visibility: &Visibility) -> Result<(), Refusal> {
    for &index in &plan.shape.shares[share][1..] {
        let entry = &plan.entries[index];
        if let Some(version) = entry.version() {
            let allowed = visibility.may_follow(&entry.line, version);
            allowed.map_err(|forbidden| forbidden.refusal(version).at(index))?;
        }
    }
    Ok(())
}

/// Requests a table's description; `None` if the catalog says that there is no such table, each time that it is asked.
pub async fn table(
    backend: &Backend,
    line: &TableBranch,
    caller: &CallerContext,
) -> Result<Option<CatalogDescription>, Refusal> {
    let answer = ask_again_if_absent(backend, || {
        let mut ask = caller.ask(Operation::DescribeTable, &line.table.table);
        ask.body = Some(body(line, &[]));
        ask
    });
    let answer = answer.await;
    let answer = answer.map_err(|failure| unreachable(backend, &failure))?;
    match described_table(&answer, backend.sets_managed_versioning()) {
        Some(described) => Ok(Some(described)),
        None if is_absent(&answer) => Ok(None),
        None => Err(refusal(backend.name(), &answer)),
    }
}

/// Looks for the version or name that the entry creates, and compares it. Fails if the catalog does not tell. With
/// `undoing`, an object that must be removed counts as a match, even if it is not the intended one.
pub async fn find(
    entry: &Entry,
    proof: Option<&Proof>,
    undoing: bool,
    caller: &CallerContext,
) -> Result<Found, UnclearAnswer> {
    let Entry { backend, line, .. } = entry;
    match &entry.action {
        Action::CreateVersion {
            version,
            manifest_size,
            e_tag,
        } => {
            let staged = Staged {
                proof,
                size: *manifest_size,
                e_tag: e_tag.as_deref(),
            };
            find_version(backend, line, *version, &staged, caller).await
        }
        Action::Declare { location } => {
            let Some(described) = table(backend, line, caller).await? else {
                return Ok(Found::absent());
            };
            let likeness = same_table(proof, location.as_deref(), &described.proof);
            // A table that has versions by now has been built on: removing its name would lose them.
            let latest = versions(backend, line, caller).await;
            let is_built_on = latest.map_err(but_there)? > 0;
            let obstacle = is_built_on.then_some(Hazard::BuiltOn);
            Ok(Found::present(likeness, obstacle, described))
        }
        Action::Register { location } => {
            let Some(described) = table(backend, line, caller).await? else {
                return Ok(Found::absent());
            };
            let likeness = same_registration(proof, location, undoing, &described.proof);
            // Its versions existed before the name, and stay.
            Ok(Found::present(likeness, None, described))
        }
        Action::Deregister | Action::DeleteVersions { .. } => {
            Err(Refusal::conflict("this entry makes nothing to be found").into())
        }
    }
}

/// Returns true if the catalog answers that a version does not exist, each time that it is asked.
pub async fn lacks_version(
    backend: &Backend,
    line: &TableBranch,
    version: u64,
    caller: &CallerContext,
) -> bool {
    let answer = ask_again_if_absent(backend, || {
        let mut ask = caller.ask(Operation::DescribeTableVersion, &line.table.table);
        ask.body = Some(body(line, &[("version", version.into())]));
        ask
    });
    answer.await.is_ok_and(|answer| is_absent(&answer))
}

/// Sends the request again while the answer is that there is nothing, as often as it takes to believe that.
async fn ask_again_if_absent(
    backend: &Backend,
    request: impl Fn() -> InternalRequest,
) -> Result<InternalAnswer, Failure> {
    let mut answer = backend.ask(request()).await;
    for _ in 1..LOOKS_FOR_ABSENCE {
        if !answer.as_ref().is_ok_and(is_absent) {
            break;
        }
        answer = backend.ask(request()).await;
    }
    answer
}

/// Returns the error for a catalog's answer that is not the expected one: its own words, code and status, if it has
/// any.
pub fn refused(backend: &str, answer: &InternalAnswer) -> Error {
    refusal(backend, answer).into_error()
}

async fn find_version(
    backend: &Backend,
    line: &TableBranch,
    version: u64,
    staged: &Staged<'_>,
    caller: &CallerContext,
) -> Result<Found, UnclearAnswer> {
    let mut ask = caller.ask(Operation::DescribeTableVersion, &line.table.table);
    ask.body = Some(body(line, &[("version", version.into())]));
    let answer = backend.ask(ask).await;
    let answer = answer.map_err(|failure| silent(backend, &failure))?;
    let described = match described(version, &answer) {
        Some(described) => described,
        None if is_absent(&answer) => return Ok(Found::absent()),
        None => return Err(refusal(backend.name(), &answer).into()),
    };
    let likeness = staged.compare(&described.proof);
    let (latest, is_alone) = latest_and_alone(backend, line, caller)
        .await
        .map_err(but_there)?;
    let obstacle = match version {
        _ if latest != version => Some(Hazard::BuiltOn),
        // A table whose first version this is had none when the batch began.
        1 => None,
        _ => is_alone.then_some(Hazard::OnlyVersion),
    };
    Ok(Found {
        latest: Some(latest),
        ..Found::present(likeness, obstacle, described)
    })
}

impl CallerContext {
    /// Builds a request about a table, or about none (the root).
    pub fn ask(&self, operation: Operation, table: &Identifier) -> InternalRequest {
        InternalRequest {
            operation,
            identifier: table.clone(),
            query: Vec::new(),
            body: None,
            authority: self.authority.clone(),
            context: self.context.clone(),
            origin: self.origin.clone(),
            timeout: Some(self.timeout),
        }
    }
}

/// Builds the body `{"id": …, "branch": …}` with more members.
fn body(line: &TableBranch, more: &[(&str, serde_json::Value)]) -> Bytes {
    let id: Vec<&str> = line.table.table.names().collect();
    let mut body = serde_json::json!({ "id": id });
    if let Some(branch) = &line.branch {
        body["branch"] = branch.as_str().into();
    }
    for (key, value) in more {
        body[*key] = value.clone();
    }
    Bytes::from(body.to_string())
}

/// Returns the error for a request without an answer, with its cause, for operators only. No client sees it.
fn silent(backend: &Backend, failure: &Failure) -> Refusal {
    let name = backend.name();
    Refusal::unavailable(format!("backend `{name}` gave no answer: {failure}"))
}

fn unreachable(backend: &Backend, failure: &Failure) -> Refusal {
    tracing::warn!(backend = %backend.name(), cause = %failure, "no answer from a catalog to a batch request; the batch finds out what happened and goes on by itself");
    if let Failure::NoToken(refusal) = failure {
        return Refusal::from(&refusal.to_error(backend.name()));
    }
    Refusal::unavailable(format!("backend `{}` did not answer", backend.name()))
}
