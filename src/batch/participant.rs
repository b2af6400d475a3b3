//! What a batch asks of one catalog, in the contract's single-version operations, and what the answers mean.
//!
//! The meaning is decided by pure functions; a wrong "no" here would lose a version, so everything that is not
//! clear is said to be unclear.

use std::time::Duration;

use bytes::Bytes;
use http::StatusCode;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::backend::{Answer, Ask, Authority, Backend, Failure};
use crate::batch::log::Proof;
use crate::batch::step::{Finding, Likeness, Refusal};
use crate::batch::visibility::Line;
use crate::protocol::context::Context;
use crate::protocol::error::Code;
use crate::protocol::identifier::Identifier;
use crate::protocol::operation::Operation;

/// On whose behalf a catalog is asked, and how long to wait.
#[derive(Clone)]
pub struct Asker {
    /// The caller's credentials, or the gateway's own.
    pub authority: Authority,
    /// The caller's context.
    pub context: Context,
    /// For each question.
    pub timeout: Duration,
}

/// A version as a catalog describes it: its own bytes, and what identifies it.
#[derive(Clone, Debug)]
pub struct Described {
    /// The `TableVersion` as the catalog wrote it.
    pub raw: Box<RawValue>,
    /// What identifies the object.
    pub proof: Proof,
}

/// What a create came to.
#[derive(Debug)]
pub enum Created {
    /// The catalog says that it created the version.
    Yes(Described),
    /// A definite no.
    Refused(Refusal),
    /// 409: ours from before, or somebody else's.
    Conflicted(Refusal),
    /// It may have acted.
    Lost,
}

/// The fields of a `TableVersion` that matter here.
#[derive(Deserialize)]
struct TableVersion {
    version: u64,
    manifest_path: Option<String>,
    manifest_size: Option<u64>,
    e_tag: Option<String>,
}

/// An error body of the contract.
#[derive(Deserialize, Default)]
struct ErrorBody {
    #[serde(default)]
    error: String,
    code: Option<u64>,
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

/// Asks for one version to be created; `body` is a `CreateTableVersionRequest` in the catalog's terms.
pub async fn create(
    backend: &Backend,
    line: &Line,
    version: u64,
    body: Bytes,
    asker: &Asker,
) -> Created {
    let mut ask = asker.ask(Operation::CreateTableVersion, &line.table.table);
    ask.body = Some(body);
    match backend.ask(ask).await {
        Ok(answer) => created(backend.name(), version, &answer),
        Err(failure @ Failure::NotSent(_)) => Created::Refused(unreachable(backend, &failure)),
        Err(_) => Created::Lost,
    }
}

/// Looks for one version and compares it with what was staged; `None`: the catalog did not say.
pub async fn find(
    backend: &Backend,
    line: &Line,
    version: u64,
    staged: &Staged<'_>,
    asker: &Asker,
) -> Option<(Finding, Option<Described>)> {
    let mut ask = asker.ask(Operation::DescribeTableVersion, &line.table.table);
    ask.body = Some(version_body(line, "version", version.into()));
    let answer = backend.ask(ask).await.ok()?;
    let Some(described) = described(version, &answer) else {
        return is_absent(&answer).then_some((Finding::Absent, None));
    };
    let likeness = staged.compare(&described.proof);
    let latest = latest(backend, line, asker).await.ok()?;
    let finding = Finding::Present {
        likeness,
        latest: latest == version,
    };
    Some((finding, Some(described)))
}

/// Asks for exactly one version to be deleted. What came of it is found out by asking for the version.
pub async fn delete(backend: &Backend, line: &Line, version: u64, asker: &Asker) {
    let Some(end) = version.checked_add(1) else {
        return;
    };
    let range = serde_json::json!([{"start_version": version, "end_version": end}]);
    let mut ask = asker.ask(Operation::BatchDeleteTableVersions, &line.table.table);
    ask.body = Some(version_body(line, "ranges", range));
    if let Err(failure) = backend.ask(ask).await {
        tracing::warn!(backend = %backend.name(), version, ?failure, "the delete of an aborted version got no answer");
    }
}

/// Whether an answer says that the catalog does not have the operation, in any of the forms seen in the field.
pub fn is_unsupported(status: StatusCode, body: &[u8]) -> bool {
    let error: ErrorBody = serde_json::from_slice(body).unwrap_or_default();
    match status {
        StatusCode::NOT_IMPLEMENTED | StatusCode::METHOD_NOT_ALLOWED => true,
        StatusCode::NOT_ACCEPTABLE => error.code.unwrap_or(0) == 0,
        StatusCode::NOT_FOUND => error.code.is_none(),
        StatusCode::INTERNAL_SERVER_ERROR => {
            error.code == Some(0)
                || error.error.starts_with("Not supported")
                || error.error.contains("not implemented")
        }
        _ => false,
    }
}

/// What an entry staged, and what its create was answered with, if it was.
pub struct Staged<'a> {
    /// From the create's answer.
    pub proof: Option<&'a Proof>,
    /// Bytes of the staged manifest.
    pub size: Option<u64>,
    /// The staged manifest's entity tag.
    pub e_tag: Option<&'a str>,
}

impl Staged<'_> {
    /// Entity tags prove sameness where they agree; they prove nothing where they differ, for a copy may change them.
    pub fn compare(&self, found: &Proof) -> Likeness {
        let tag = found.e_tag.as_deref();
        let same_tag = |tag: Option<&str>, other: Option<&str>| tag.is_some() && tag == other;
        let proof_tag = self.proof.and_then(|proof| proof.e_tag.as_deref());
        let size = self
            .proof
            .and_then(|proof| proof.manifest_size)
            .or(self.size);
        match (size, found.manifest_size) {
            (Some(ours), Some(theirs)) if ours != theirs => Likeness::Unlike,
            _ if same_tag(proof_tag, tag) || same_tag(self.e_tag, tag) => Likeness::Proven,
            (Some(_), Some(_)) => Likeness::Alike,
            _ => Likeness::Incomparable,
        }
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
            timeout: Some(self.timeout),
        }
    }
}

/// `{"id": …, "branch": …, key: value}`.
fn version_body(line: &Line, key: &str, value: serde_json::Value) -> Bytes {
    let id: Vec<&str> = line.table.table.names().collect();
    let mut body = serde_json::json!({ "id": id });
    body[key] = value;
    if let Some(branch) = &line.branch {
        body["branch"] = branch.as_str().into();
    }
    Bytes::from(body.to_string())
}

fn created(backend: &str, version: u64, answer: &Answer) -> Created {
    if answer.status.is_success() {
        // A success that does not show the version is looked into like a lost answer.
        return described(version, answer).map_or(Created::Lost, Created::Yes);
    }
    match answer.status {
        StatusCode::CONFLICT => Created::Conflicted(refusal(backend, answer)),
        StatusCode::REQUEST_TIMEOUT | StatusCode::TOO_EARLY => Created::Lost,
        status if status.is_client_error() || is_unsupported(status, &answer.body) => {
            Created::Refused(refusal(backend, answer))
        }
        _ => Created::Lost,
    }
}

/// The version of `{"version": {…}}`, if it is the one asked for.
fn described(version: u64, answer: &Answer) -> Option<Described> {
    #[derive(Deserialize)]
    struct Body {
        version: Box<RawValue>,
    }
    if !answer.status.is_success() {
        return None;
    }
    let body: Body = serde_json::from_slice(&answer.body).ok()?;
    let found: TableVersion = serde_json::from_str(body.version.get()).ok()?;
    (found.version == version).then_some(Described {
        raw: body.version,
        proof: Proof {
            manifest_path: found.manifest_path,
            manifest_size: found.manifest_size,
            e_tag: found.e_tag,
        },
    })
}

/// A 404 says so only with the contract's code: one from a proxy in between says nothing.
fn is_absent(answer: &Answer) -> bool {
    let code = || {
        let error: ErrorBody = serde_json::from_slice(&answer.body).ok()?;
        Code::from_number(error.code?)
    };
    answer.status == StatusCode::NOT_FOUND
        && matches!(
            code(),
            Some(Code::TableVersionNotFound | Code::TableNotFound | Code::NamespaceNotFound)
        )
}

fn latest_of(answer: &Answer) -> Option<u64> {
    #[derive(Deserialize)]
    struct Body {
        versions: Vec<TableVersion>,
    }
    if !answer.status.is_success() {
        return None;
    }
    let body: Body = serde_json::from_slice(&answer.body).ok()?;
    let latest = body.versions.iter().map(|version| version.version).max();
    Some(latest.unwrap_or(0))
}

/// The catalog's own words, with its status where it is an error.
fn refusal(backend: &str, answer: &Answer) -> Refusal {
    let error: ErrorBody = serde_json::from_slice(&answer.body).unwrap_or_default();
    let refused = answer.status.is_client_error() || answer.status.is_server_error();
    if !refused || error.error.is_empty() {
        let status = match answer.status.is_client_error() {
            true => answer.status,
            false => StatusCode::SERVICE_UNAVAILABLE,
        };
        return Refusal {
            status: status.as_u16(),
            code: Code::ServiceUnavailable,
            message: format!(
                "backend `{backend}` gave an answer that makes no sense ({})",
                answer.status
            ),
        };
    }
    Refusal {
        status: answer.status.as_u16(),
        code: error
            .code
            .and_then(Code::from_number)
            .unwrap_or(Code::Internal),
        message: error.error,
    }
}

fn unreachable(backend: &Backend, failure: &Failure) -> Refusal {
    tracing::warn!(backend = %backend.name(), ?failure, "a batch could not reach a catalog");
    Refusal {
        status: StatusCode::SERVICE_UNAVAILABLE.as_u16(),
        code: Code::ServiceUnavailable,
        message: format!("backend `{}` did not answer", backend.name()),
    }
}

#[cfg(test)]
mod tests;
