//! What a batch asks of one catalog, in the contract's single operations, and what the answers mean.

mod answers;
mod register;

use std::time::Duration;

use bytes::Bytes;
use http::StatusCode;
use serde_json::value::RawValue;

use crate::backend::{Answer, Ask, Authority, Backend, Failure};
use crate::batch::log::{Action, Proof, VersionRange};
use crate::batch::plan::Entry;
use crate::batch::step::{Finding, Refusal};
use crate::batch::visibility::{Line, Visibility};
use crate::exchange::origin::Origin;
use crate::protocol::context::Context;
use crate::protocol::error::Code;
use crate::protocol::identifier::Identifier;
use crate::protocol::operation::Operation;
use answers::{
    Staged, created, described, described_table, described_together, is_absent, latest_of, refusal,
    same_registration, same_table,
};

pub use answers::{is_unsupported, same_place};
pub use register::{can_deregister, has_namespace, register, registration};

/// On whose behalf a catalog is asked, and how long to wait.
#[derive(Clone)]
pub struct Asker {
    /// The caller's credentials, or the gateway's own.
    pub authority: Authority,
    /// The caller's context.
    pub context: Context,
    /// The caller's request.
    pub origin: Origin,
    /// For each question.
    pub timeout: Duration,
}

/// A version or a table as a catalog describes it: its own bytes, and what identifies it.
#[derive(Clone, Debug)]
pub struct Described {
    /// The `TableVersion`, or the answer about a table, as the catalog wrote it.
    pub raw: Box<RawValue>,
    /// What identifies the object.
    pub proof: Proof,
}

/// What a catalog has, compared and as it describes it.
pub type Found = (Finding, Option<Described>);

/// What a create came to.
#[derive(Clone, Debug)]
pub enum Created {
    /// The catalog says that it made it.
    Yes(Described),
    /// A definite no.
    Refused(Refusal),
    /// 409: ours from before, or somebody else's.
    Conflicted(Refusal),
    /// It may have acted.
    Lost,
}

/// A table's latest version; 0 when it has none.
pub async fn latest(backend: &Backend, line: &Line, asker: &Asker) -> Result<u64, Refusal> {
    let mut query = vec![("descending", "true".to_owned()), ("limit", "1".to_owned())];
    if let Some(branch) = &line.branch {
        query.push(("branch", branch.clone()));
    }
    let mut ask = asker.ask(Operation::ListTableVersions, &line.table.table);
    ask.query = query;
    let answer = backend
        .ask(ask)
        .await
        .map_err(|f| unreachable(backend, &f))?;
    latest_of(&answer).ok_or_else(|| refusal(backend.name(), &answer))
}

/// Whether the batch may begin with this entry: the first of its line. Answers with the table, where that is known.
pub async fn validate(
    entry: &Entry,
    visibility: &Visibility,
    asker: &Asker,
) -> Result<Option<Described>, Refusal> {
    let Entry { backend, line, .. } = entry;
    match &entry.action {
        Action::CreateVersion { version, .. } => {
            let latest = latest(backend, line, asker).await?;
            if latest + 1 != *version {
                return Err(conflict(format!(
                    "version {version} is not the next one: the table's latest is {latest}"
                )));
            }
            // A number that rests is refused here, before anything is written.
            let allowed = visibility.may_create(line, *version);
            allowed.map_err(|forbidden| forbidden.refusal(*version))?;
            visibility.contest(line, *version);
            Ok(None)
        }
        Action::Declare { .. } | Action::Register { .. } => {
            match table(backend, line, asker).await? {
                None => Ok(None),
                Some(_) => Err(Refusal {
                    code: Code::TableAlreadyExists,
                    ..conflict(format!("table {} exists already", line.table.table))
                }),
            }
        }
        Action::Deregister => match table(backend, line, asker).await? {
            Some(described) => Ok(Some(described)),
            None => Err(Refusal {
                status: StatusCode::NOT_FOUND.as_u16(),
                code: Code::TableNotFound,
                message: format!("table {} does not exist", line.table.table),
            }),
        },
        Action::DeleteVersions { ranges } => {
            let latest = latest(backend, line, asker).await?;
            match ranges.iter().find(|range| range.end > latest) {
                None => Ok(None),
                Some(VersionRange { start, end }) => Err(conflict(format!(
                    "versions {start} to {end} reach beyond those that may go: the latest, {latest}, has to stay"
                ))),
            }
        }
    }
}

fn conflict(message: String) -> Refusal {
    Refusal {
        status: StatusCode::CONFLICT.as_u16(),
        code: Code::ConcurrentModification,
        message,
    }
}

/// A table as its catalog describes it; `None` if it does not exist.
pub async fn table(
    backend: &Backend,
    line: &Line,
    asker: &Asker,
) -> Result<Option<Described>, Refusal> {
    let mut ask = asker.ask(Operation::DescribeTable, &line.table.table);
    ask.body = Some(body(line, &[]));
    let answer = backend.ask(ask).await;
    let answer = answer.map_err(|failure| unreachable(backend, &failure))?;
    match described_table(&answer, backend.sets_managed_versioning()) {
        Some(described) => Ok(Some(described)),
        None if is_absent(&answer) => Ok(None),
        None => Err(refusal(backend.name(), &answer)),
    }
}

/// Asks for what the entry makes.
pub async fn create(entry: &Entry, asker: &Asker) -> Created {
    let backend = &entry.backend;
    let operation = match entry.action {
        Action::Declare { .. } => Operation::DeclareTable,
        Action::Register { .. } => Operation::RegisterTable,
        _ => Operation::CreateTableVersion,
    };
    let mut ask = asker.ask(operation, &entry.line.table.table);
    ask.body = Some(entry.body.clone());
    match backend.ask(ask).await {
        Ok(answer) => {
            let described = match entry.version() {
                Some(version) => described(version, &answer),
                None => described_table(&answer, backend.sets_managed_versioning()),
            };
            created(backend.name(), described, &answer)
        }
        Err(failure) if !failure.may_have_acted() => {
            Created::Refused(unreachable(backend, &failure))
        }
        Err(_) => Created::Lost,
    }
}

/// Asks for several versions to be created by a catalog that does so all or nothing. `None`: it has no such operation.
pub async fn create_together(entries: &[&Entry], asker: &Asker) -> Option<Vec<Created>> {
    let backend = &entries[0].backend;
    let all = |created: Created| Some(vec![created; entries.len()]);
    let answer = match grouped(backend, entries, asker).await {
        Ok(answer) => answer,
        Err(failure) if !failure.may_have_acted() => {
            return all(Created::Refused(unreachable(backend, &failure)));
        }
        Err(_) => return all(Created::Lost),
    };
    if is_unsupported(answer.status, &answer.body) {
        return None;
    }
    if !answer.status.is_success() {
        return all(created(backend.name(), None, &answer));
    }
    let versions = entries.iter().filter_map(|entry| entry.version());
    Some(
        described_together(versions, &answer)
            .map_or(vec![Created::Lost; entries.len()], |described| {
                described.into_iter().map(Created::Yes).collect()
            }),
    )
}

/// Sends a catalog's own batch-create.
pub async fn grouped(
    backend: &Backend,
    entries: &[&Entry],
    asker: &Asker,
) -> Result<Answer, Failure> {
    let mut body = b"{\"entries\":[".to_vec();
    for (index, entry) in entries.iter().enumerate() {
        if index > 0 {
            body.push(b',');
        }
        body.extend_from_slice(&entry.body);
    }
    body.extend_from_slice(b"]}");
    let mut ask = asker.ask(Operation::BatchCreateTableVersions, &Identifier::root());
    ask.body = Some(body.into());
    backend.ask(ask).await
}

/// Looks for what the entry makes and compares it with what was asked for; an error if the catalog did not say.
/// `undoing`: what must go counts as well, although it is not what was meant.
pub async fn find(
    entry: &Entry,
    proof: Option<&Proof>,
    undoing: bool,
    asker: &Asker,
) -> Result<Found, Refusal> {
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
            find_version(backend, line, *version, &staged, asker).await
        }
        Action::Declare { location } => {
            let Some(described) = table(backend, line, asker).await? else {
                return Ok((Finding::Absent, None));
            };
            let likeness = same_table(proof, location.as_deref(), &described.proof);
            // What has versions by now has been built on; taking the name away would lose them.
            let latest = versions(backend, line, asker).await? == 0;
            Ok((Finding::Present { likeness, latest }, Some(described)))
        }
        Action::Register { location } => {
            let Some(described) = table(backend, line, asker).await? else {
                return Ok((Finding::Absent, None));
            };
            let likeness = same_registration(proof, location, undoing, &described.proof);
            // Its versions were there before the name, and stay there.
            let latest = true;
            Ok((Finding::Present { likeness, latest }, Some(described)))
        }
        Action::Deregister | Action::DeleteVersions { .. } => {
            Err(conflict("this entry makes nothing to be found".into()))
        }
    }
}

async fn find_version(
    backend: &Backend,
    line: &Line,
    version: u64,
    staged: &Staged<'_>,
    asker: &Asker,
) -> Result<Found, Refusal> {
    let mut ask = asker.ask(Operation::DescribeTableVersion, &line.table.table);
    ask.body = Some(body(line, &[("version", version.into())]));
    let answer = backend.ask(ask).await;
    let answer = answer.map_err(|failure| silent(backend, &failure))?;
    let described = match described(version, &answer) {
        Some(described) => described,
        None if is_absent(&answer) => return Ok((Finding::Absent, None)),
        None => return Err(refusal(backend.name(), &answer)),
    };
    let likeness = staged.compare(&described.proof);
    let latest = latest(backend, line, asker).await?;
    let finding = Finding::Present {
        likeness,
        latest: latest == version,
    };
    Ok((finding, Some(described)))
}

/// Asks for what the entry made to be taken back: exactly that. What came of it is found out by asking for it, whatever
/// the answer is.
pub async fn delete(entry: &Entry, asker: &Asker) -> Result<(), Refusal> {
    let undone = match entry.version() {
        Some(version) => {
            let Some(end) = version.checked_add(1) else {
                return Ok(());
            };
            let start = version;
            delete_versions(entry, &[VersionRange { start, end }], asker).await
        }
        None => deregister(entry, asker).await,
    };
    done(entry, undone)
}

/// Removes what the entry removes; an error if it is not gone. Asking again does no harm.
pub async fn remove(entry: &Entry, asker: &Asker) -> Result<(), Refusal> {
    if let Action::DeleteVersions { ranges } = &entry.action {
        return done(entry, delete_versions(entry, ranges, asker).await);
    }
    done(entry, deregister(entry, asker).await)?;
    is_gone(entry, asker).await
}

fn done(entry: &Entry, answer: Result<Answer, Failure>) -> Result<(), Refusal> {
    let backend = &entry.backend;
    let answer = answer.map_err(|failure| silent(backend, &failure))?;
    if answer.status.is_success() || is_absent(&answer) {
        return Ok(());
    }
    Err(refusal(backend.name(), &answer))
}

/// Some catalogs find tables in storage, whatever has been deregistered: their word alone is not enough.
async fn is_gone(entry: &Entry, asker: &Asker) -> Result<(), Refusal> {
    let Entry { backend, line, .. } = entry;
    match table(backend, line, asker).await? {
        None => Ok(()),
        Some(_) => Err(conflict(format!(
            "backend `{}` still has table {}, although it was deregistered there",
            backend.name(),
            line.table.table
        ))),
    }
}

async fn deregister(entry: &Entry, asker: &Asker) -> Result<Answer, Failure> {
    let mut ask = asker.ask(Operation::DeregisterTable, &entry.line.table.table);
    ask.body = Some(body(&entry.line, &[]));
    entry.backend.ask(ask).await
}

async fn delete_versions(
    entry: &Entry,
    ranges: &[VersionRange],
    asker: &Asker,
) -> Result<Answer, Failure> {
    let ranges = ranges
        .iter()
        .map(|VersionRange { start, end }| serde_json::json!({"start_version": start, "end_version": end}));
    let ranges: Vec<_> = ranges.collect();
    let table = &entry.line.table.table;
    let mut ask = asker.ask(Operation::BatchDeleteTableVersions, table);
    ask.body = Some(body(&entry.line, &[("ranges", ranges.into())]));
    entry.backend.ask(ask).await
}

/// A table's latest version; 0 also when it is only declared.
async fn versions(backend: &Backend, line: &Line, asker: &Asker) -> Result<u64, Refusal> {
    let mut ask = asker.ask(Operation::ListTableVersions, &line.table.table);
    ask.query = vec![("descending", "true".to_owned()), ("limit", "1".to_owned())];
    let answer = backend.ask(ask).await;
    let answer = answer.map_err(|failure| silent(backend, &failure))?;
    match latest_of(&answer) {
        Some(latest) => Ok(latest),
        None if is_absent(&answer) => Ok(0),
        None => Err(refusal(backend.name(), &answer)),
    }
}

impl Asker {
    /// A question about a table, or about none (the root).
    pub fn ask(&self, operation: Operation, table: &Identifier) -> Ask {
        Ask {
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

/// `{"id": …, "branch": …}` and more members.
fn body(line: &Line, more: &[(&str, serde_json::Value)]) -> Bytes {
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

/// No answer, with its cause, for people who look at the batch; no client is told so.
fn silent(backend: &Backend, failure: &Failure) -> Refusal {
    Refusal {
        status: StatusCode::SERVICE_UNAVAILABLE.as_u16(),
        code: Code::ServiceUnavailable,
        message: format!("backend `{}` gave no answer: {failure}", backend.name()),
    }
}

fn unreachable(backend: &Backend, failure: &Failure) -> Refusal {
    tracing::warn!(backend = %backend.name(), cause = %failure, "a batch could not reach a catalog");
    if let Failure::NoToken(refusal) = failure {
        let error = refusal.to_error(backend.name());
        return Refusal {
            status: error.status().as_u16(),
            code: error.code(),
            message: error.message().to_owned(),
        };
    }
    Refusal {
        status: StatusCode::SERVICE_UNAVAILABLE.as_u16(),
        code: Code::ServiceUnavailable,
        message: format!("backend `{}` did not answer", backend.name()),
    }
}
