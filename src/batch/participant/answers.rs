//! Reads a catalog's answers to creates, describes and lists, and tells definite ones from unclear ones. The functions
//! are pure. A wrong "no" here would lose a version, so every unclear answer is reported as unclear.

use http::StatusCode;
use http::header::RETRY_AFTER;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::{CatalogDescription, CreateOutcome};
use crate::backend::InternalAnswer;
use crate::batch::log::Proof;
use crate::batch::step::{Match, Refusal};
use crate::error::code::Code;
use crate::error::origin::ErrorOrigin;
use crate::error::retry_after::RetryAfter;

/// The fields of a `TableVersion` that are compared.
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

/// True if an answer says that the catalog does not have the operation, in any of the forms seen in the field.
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

/// The staged object of an entry, and the answer to its create.
pub(super) struct Staged<'a> {
    /// The answer to the create; `None` if there was none.
    pub(super) proof: Option<&'a Proof>,
    /// The size of the staged manifest in bytes; `None` if the client did not name it.
    pub(super) size: Option<u64>,
    /// The entity tag of the staged manifest; `None` if the client did not name it.
    pub(super) e_tag: Option<&'a str>,
}

impl Staged<'_> {
    /// Compares a version with the staged one. Equal entity tags prove that it is the same; different ones prove
    /// nothing, because a copy may change them.
    pub(super) fn compare(&self, found: &Proof) -> Match {
        let tag = found.e_tag.as_deref();
        let same_tag = |tag: Option<&str>, other: Option<&str>| tag.is_some() && tag == other;
        let proof_tag = self.proof.and_then(|proof| proof.e_tag.as_deref());
        let size = self
            .proof
            .and_then(|proof| proof.manifest_size)
            .or(self.size);
        match (size, found.manifest_size) {
            (Some(ours), Some(theirs)) if ours != theirs => Match::Unlike,
            _ if same_tag(proof_tag, tag) || same_tag(self.e_tag, tag) => Match::Proven,
            (Some(_), Some(_)) => Match::Alike,
            _ => Match::Incomparable,
        }
    }
}

/// Compares a table with the one that the batch created.
pub(super) fn same_table(proof: Option<&Proof>, asked: Option<&str>, found: &Proof) -> Match {
    let found = found.location.as_deref().map(path);
    let made = proof.and_then(|proof| proof.location.as_deref()).map(path);
    match (made, asked.map(path), found) {
        (_, _, None) => Match::Incomparable,
        (Some(made), _, Some(found)) if made == found => Match::Proven,
        (Some(_), _, Some(_)) => Match::Unlike,
        (None, Some(asked), Some(found)) if found.ends_with(asked) => Match::Alike,
        (None, Some(_), Some(_)) => Match::Unlike,
        // A catalog that chooses the location chooses the same one for the same name.
        (None, None, Some(_)) => Match::Alike,
    }
}

/// Compares the table under a new name with the one that was to get this name. A catalog may have taken the end of the
/// location for one of its own: that is not the table, but still the result of the batch's registration.
pub(super) fn same_registration(
    proof: Option<&Proof>,
    asked: &str,
    undoing: bool,
    found: &Proof,
) -> Match {
    let Some(found) = found.location.as_deref() else {
        return Match::Incomparable;
    };
    let made = proof.and_then(|proof| proof.location.as_deref());
    match (same_place(asked, found), proof) {
        (true, Some(_)) => Match::Proven,
        (false, Some(_)) if undoing && made.is_some_and(|made| same_place(made, found)) => {
            Match::Proven
        }
        (true, None) => Match::Alike,
        _ if undoing && last(asked) == last(found) => Match::Alike,
        _ => Match::Unlike,
    }
}

/// True if two locations are equal. A path on this machine may be spelled with or without its scheme.
pub fn same_place(one: &str, other: &str) -> bool {
    path(one) == path(other)
}

/// Returns a location in its shortest spelling.
fn path(location: &str) -> &str {
    let path = location.strip_prefix("file://").unwrap_or(location);
    path.trim_end_matches('/')
}

/// True if an error says that the catalog will not act. It is still checked that the catalog has not acted.
pub(super) fn is_definite(status: StatusCode, body: &[u8]) -> bool {
    match status {
        StatusCode::REQUEST_TIMEOUT | StatusCode::TOO_EARLY => false,
        status => status.is_client_error() || is_unsupported(status, body),
    }
}

/// Classifies the answer to a create. `described` is the object in a success.
pub(super) fn created(
    backend: &str,
    described: Option<CatalogDescription>,
    answer: &InternalAnswer,
) -> CreateOutcome {
    if answer.status.is_success() {
        // A success that does not show the object is checked like a lost answer.
        return described.map_or(CreateOutcome::Lost(None), CreateOutcome::Yes);
    }
    match answer.status {
        StatusCode::CONFLICT => CreateOutcome::Conflicted(refusal(backend, answer)),
        status if is_definite(status, &answer.body) => {
            CreateOutcome::Refused(refusal(backend, answer))
        }
        _ => CreateOutcome::Lost(Some(refusal(backend, answer))),
    }
}

/// Returns the version of `{"version": {…}}`, if it is the requested one.
pub(super) fn described(version: u64, answer: &InternalAnswer) -> Option<CatalogDescription> {
    #[derive(Deserialize)]
    struct Body {
        version: Box<RawValue>,
    }
    if !answer.status.is_success() {
        return None;
    }
    let body: Body = serde_json::from_slice(&answer.body).ok()?;
    described_version(version, body.version)
}

/// Returns the versions of `{"versions": [{…}]}`, if they are the requested ones in their order.
pub(super) fn described_together(
    versions: impl Iterator<Item = u64>,
    answer: &InternalAnswer,
) -> Option<Vec<CatalogDescription>> {
    #[derive(Deserialize)]
    struct Body {
        versions: Vec<Box<RawValue>>,
    }
    let body: Body = serde_json::from_slice(&answer.body).ok()?;
    let mut shown = body.versions.into_iter();
    let described = versions
        .map(|version| described_version(version, shown.next()?))
        .collect::<Option<Vec<_>>>()?;
    shown.next().is_none().then_some(described)
}

pub(super) fn described_version(version: u64, raw: Box<RawValue>) -> Option<CatalogDescription> {
    let found: TableVersion = serde_json::from_str(raw.get()).ok()?;
    (found.version == version).then_some(CatalogDescription {
        raw,
        proof: Proof {
            manifest_path: found.manifest_path,
            manifest_size: found.manifest_size,
            e_tag: found.e_tag,
            location: None,
        },
    })
}

/// Returns the table of a successful describe, declare or register, without fields that may hold credentials, because
/// the log keeps it. With `managed`, it is described as having managed versioning, whatever the catalog says.
pub(super) fn described_table(
    answer: &InternalAnswer,
    managed: bool,
) -> Option<CatalogDescription> {
    #[derive(Serialize, Deserialize)]
    struct Table {
        #[serde(skip_serializing_if = "Option::is_none")]
        location: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        properties: Option<Box<RawValue>>,
        #[serde(skip_serializing_if = "Option::is_none")]
        managed_versioning: Option<bool>,
    }
    if !answer.status.is_success() {
        return None;
    }
    let mut table: Table = serde_json::from_slice(&answer.body).ok()?;
    if managed {
        table.managed_versioning = Some(true);
    }
    let raw = serde_json::value::to_raw_value(&table).ok()?;
    let proof = Proof {
        location: table.location,
        ..Proof::default()
    };
    Some(CatalogDescription { raw, proof })
}

/// True if the catalog answers that the object does not exist. A 404 counts only with the contract's code: it may come
/// from a proxy in between.
pub(super) fn is_absent(answer: &InternalAnswer) -> bool {
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

/// A page of a listing of versions.
pub(super) struct Numbers {
    /// The versions on the page.
    pub(super) versions: Vec<u64>,
    /// The token of the next page; `None` if this is the last one.
    pub(super) token: Option<String>,
}

/// A `ListTableVersionsResponse`.
#[derive(Deserialize)]
struct VersionList {
    versions: Vec<TableVersion>,
    page_token: Option<String>,
}

impl VersionList {
    /// Parses an answer; `None` if it is not a listing.
    fn of(answer: &InternalAnswer) -> Option<Self> {
        let is_listing = answer.status.is_success();
        is_listing.then(|| serde_json::from_slice(&answer.body).ok())?
    }
}

impl Numbers {
    /// Parses a `ListTableVersionsResponse`; `None` if the answer is not one.
    pub(super) fn of(answer: &InternalAnswer) -> Option<Self> {
        let list = VersionList::of(answer)?;
        Some(Self {
            versions: list.versions.iter().map(|it| it.version).collect(),
            token: list.page_token.filter(|token| !token.is_empty()),
        })
    }
}

/// The latest version of a table.
#[derive(Default)]
pub(super) struct LatestVersion {
    /// Its number; 0 if the table has none.
    pub(super) number: u64,
    /// The path of its manifest; `None` if the catalog does not name it.
    pub(super) manifest: Option<String>,
}

/// Returns the latest version of a listing; `None` if the answer is not a listing.
pub(super) fn latest_of(answer: &InternalAnswer) -> Option<LatestVersion> {
    let versions = VersionList::of(answer)?.versions;
    let latest = versions.into_iter().max_by_key(|it| it.version);
    Some(
        latest.map_or_else(LatestVersion::default, |it| LatestVersion {
            number: it.version,
            manifest: it.manifest_path,
        }),
    )
}

/// Returns the catalog's own error message, with its status if that is an error.
pub(super) fn refusal(backend: &str, answer: &InternalAnswer) -> Refusal {
    let error: ErrorBody = serde_json::from_slice(&answer.body).unwrap_or_default();
    let refused = answer.status.is_client_error() || answer.status.is_server_error();
    if !refused || error.error.is_empty() {
        let status = if answer.status.is_client_error() {
            answer.status
        } else {
            StatusCode::SERVICE_UNAVAILABLE
        };
        let message = format!(
            "backend `{backend}` gave an invalid answer ({})",
            answer.status
        );
        return Refusal {
            status: status.as_u16(),
            origin: ErrorOrigin::Catalog,
            ..Refusal::unavailable(message)
        };
    }
    let code = error.code.and_then(Code::from_number);
    Refusal {
        status: answer.status.as_u16(),
        retry_after: RetryAfter::of(answer.headers.get(RETRY_AFTER)).unwrap_or(RetryAfter::SOON),
        origin: ErrorOrigin::Catalog,
        ..Refusal::new(code.unwrap_or(Code::Internal), error.error)
    }
}

/// Returns the last part of a location; `None` if it has only one part.
pub(super) fn last(location: &str) -> Option<&str> {
    let (_, last) = location.trim_end_matches('/').rsplit_once('/')?;
    Some(last).filter(|last| !last.is_empty())
}

#[cfg(test)]
mod tests;
