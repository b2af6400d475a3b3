//! The durable memory of batches: what was intended, the one decision, what undo has settled, the end.
//!
//! A trait, so that gateways may share a log; `disk` is the one for a gateway alone.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use uuid::Uuid;

use crate::backend::Backend;
use crate::batch::step::{Decision, Hazard, Refusal, Settled};
use crate::error::code::Code;
use crate::protocol::identifier::Identifier;

pub mod disk;

/// The batch's name: a UUID of version 7, so that names sort by time. Clients see it as `transaction_id`.
pub type BatchId = Uuid;

/// What a batch set out to do. It holds no token and nothing of the caller but a fingerprint.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Intent {
    /// The changes, in request order.
    pub entries: Vec<IntentEntry>,
    /// Fingerprint of caller and `Idempotency-Key`, when the request had one.
    pub idempotency: Option<String>,
    /// Fingerprint of the entries.
    pub fingerprint: String,
}

/// One change, and where.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct IntentEntry {
    /// The configured backend's name.
    pub backend: Arc<str>,
    /// The catalog's own identifier of the table.
    #[serde(with = "names")]
    pub table: Identifier,
    /// The branch, if not the main one.
    pub branch: Option<String>,
    /// What is to be done there.
    pub action: Action,
    /// Somebody else's create of that version had got no answer when the batch began: what looks like the batch's own need
    /// not be.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub contested: bool,
    /// Which catalog it is, should the backend be renamed.
    #[serde(default, skip_serializing_if = "CatalogRef::is_unnamed")]
    pub catalog: CatalogRef,
}

/// A catalog, whatever the name of the backend that leads to it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CatalogRef {
    /// Where it was, in the form of [`BackendConfig::addresses`](crate::config::BackendConfig::addresses); absent in
    /// logs from before it was noted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<Arc<str>>,
    /// Its identity in this process, where that is not the backend's name.
    #[serde(skip)]
    identity: Option<Arc<str>>,
}

/// One change of one table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Action {
    /// Creates a version.
    CreateVersion {
        /// The version; the table's latest was this minus one, or the batch's own one before it.
        version: u64,
        /// Bytes of the staged manifest, when the client said.
        manifest_size: Option<u64>,
        /// The staged manifest's entity tag, when the client said.
        e_tag: Option<String>,
    },
    /// Declares a table.
    Declare {
        /// Where it is to be, when the client said.
        location: Option<String>,
    },
    /// Registers a table that exists in storage.
    Register {
        /// Where it is.
        location: String,
    },
    /// Takes a table's name away, and leaves its storage alone.
    Deregister,
    /// Deletes versions.
    DeleteVersions {
        /// Which.
        ranges: Vec<VersionRange>,
    },
}

/// Versions of one line, one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct VersionRange {
    /// The first.
    pub start: u64,
    /// The one after the last.
    pub end: u64,
}

/// What a create was answered with: it identifies the object in the catalog.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Proof {
    /// Path of the manifest that the catalog wrote.
    pub manifest_path: Option<String>,
    /// Its bytes.
    pub manifest_size: Option<u64>,
    /// Its entity tag.
    pub e_tag: Option<String>,
    /// Where a table is, if that is what was made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub location: Option<String>,
}

/// What a person decided about a batch that was stuck.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Resolution {
    /// COMMIT instead of ABORT.
    pub commit: bool,
    /// Who.
    pub who: String,
    /// Why.
    pub why: String,
    /// When, in milliseconds since the epoch.
    pub at: u64,
}

/// The decision as it is written.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Verdict {
    /// COMMIT, with what catalogs answered, to be answered with, in request order.
    Commit(Vec<Box<RawValue>>),
    /// ABORT, with the proofs that undo may need, and the words for who asks later.
    Abort {
        /// For each entry what its create was answered with.
        proofs: Vec<Option<Proof>>,
        /// Why.
        reason: String,
        /// What the caller was answered with; absent in logs of older versions.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        answer: Option<AbortAnswer>,
    },
}

impl CatalogRef {
    /// The catalog of a backend.
    pub fn of(backend: &Backend) -> Self {
        let mut catalog = Self {
            address: backend.addresses().first().cloned(),
            identity: None,
        };
        catalog.known_as(backend.name(), backend.catalog());
        catalog
    }

    /// Notes the identity of the catalog that a backend of this name leads to.
    pub(in crate::batch) fn known_as(&mut self, name: &str, identity: &Arc<str>) {
        self.identity = (**identity != *name).then(|| Arc::clone(identity));
    }

    fn is_unnamed(&self) -> bool {
        self.address.is_none()
    }
}

impl IntentEntry {
    /// The identity of the catalog, by which its tables are locked and hidden.
    pub fn identity(&self) -> &Arc<str> {
        self.catalog.identity.as_ref().unwrap_or(&self.backend)
    }
}

/// The status and the code of an aborted batch's answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AbortAnswer {
    /// The HTTP status.
    pub status: u16,
    /// The contract's code.
    pub code: u8,
}

impl Verdict {
    /// ABORT because of `refusal`, if that is known.
    pub fn abort(proofs: Vec<Option<Proof>>, refusal: Option<&Refusal>) -> Self {
        Self::Abort {
            proofs,
            reason: refusal.map_or_else(String::new, |refusal| refusal.message.clone()),
            answer: refusal.map(|refusal| AbortAnswer {
                status: refusal.status,
                code: refusal.code.number(),
            }),
        }
    }

    /// What the caller of an aborted batch is answered with. Where the log does not say, it is a conflict.
    pub fn refusal(&self) -> Option<Refusal> {
        let Self::Abort { reason, answer, .. } = self else {
            return None;
        };
        let conflict = Code::ConcurrentModification;
        let code = answer.and_then(|answer| Code::from_number(answer.code.into()));
        Some(Refusal {
            status: answer.map_or(conflict.status().as_u16(), |answer| answer.status),
            code: code.unwrap_or(conflict),
            message: reason.clone(),
        })
    }

    /// The decision without what goes with it.
    pub fn decision(&self) -> Decision {
        match self {
            Self::Commit(_) => Decision::Commit,
            Self::Abort { .. } => Decision::Abort,
        }
    }
}

/// All that the log knows of one batch.
#[derive(Clone, Debug)]
pub struct Record {
    /// The batch.
    pub id: BatchId,
    /// What it set out to do.
    pub intent: Intent,
    /// Its decision, once there is one.
    pub verdict: Option<Verdict>,
    /// For each entry how it was settled.
    pub settled: Vec<Option<Settled>>,
    /// What people decided about it.
    pub resolutions: Vec<Resolution>,
    /// When it ended, in milliseconds since the epoch.
    pub ended: Option<u64>,
}

/// The log could not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// It cannot be opened or read, or does not make sense.
    #[error("the batch log {path} cannot be used: {cause}")]
    Unusable {
        /// Where it is.
        path: String,
        /// What is wrong.
        cause: String,
    },
    /// A write failed; whether it happened is not known.
    #[error(
        "the batch log cannot be written: {0}. Nothing was acknowledged that is not on the disk. Check the disk (space, limits, errors), then start the gateway again: it continues from what is on the disk"
    )]
    Write(String),
}

/// A future of the log.
pub type Logged<'a, T> = BoxFuture<'a, Result<T, LogError>>;

/// The log. A write that has been answered with `Ok` survives a crash.
pub trait Log: Send + Sync + 'static {
    /// Writes INTENT.
    fn intend(&self, id: BatchId, intent: Arc<Intent>) -> Logged<'_, ()>;
    /// Writes the decision, unless there is one; answers with the one that stands.
    fn decide(&self, id: BatchId, verdict: Verdict) -> Logged<'_, Decision>;
    /// Writes what a person decided, before it is acted on.
    fn resolve(&self, id: BatchId, resolution: Resolution) -> Logged<'_, ()>;
    /// Writes what became of one entry.
    fn note(&self, id: BatchId, entry: usize, settled: Settled) -> Logged<'_, ()>;
    /// Writes the end, at `now` in milliseconds since the epoch.
    fn end(&self, id: BatchId, now: u64) -> Logged<'_, ()>;
    /// Forgets batches that ended before `before`, in milliseconds since the epoch.
    fn forget(&self, before: u64) -> Logged<'_, ()>;
    /// Whether it was made in this life of the gateway: nothing was sent in an earlier one.
    fn is_new(&self) -> bool;
    /// Finds one batch.
    fn find(&self, id: BatchId) -> Logged<'_, Option<Record>>;
    /// Finds the batch that was begun last with this [`Intent::idempotency`].
    fn find_by_key<'a>(&'a self, key: &'a str) -> Logged<'a, Option<Record>>;
    /// Shows every batch it knows, in the order in which they began, one at a time: they may be very many.
    fn scan<'a>(&'a self, each: &'a mut (dyn FnMut(Record) + Send)) -> Logged<'a, ()>;
    /// Writes what was asked for before, and nothing after; the next to open it need repair nothing.
    fn close(&self) -> Logged<'_, ()> {
        Box::pin(async { Ok(()) })
    }
}

/// Every batch that a log knows, all at once: for a look at a small one.
///
/// # Errors
/// It cannot be read.
pub async fn all(log: &dyn Log) -> Result<Vec<Record>, LogError> {
    let mut records = Vec::new();
    log.scan(&mut |record| records.push(record)).await?;
    Ok(records)
}

/// How `Settled` stands in the log.
#[derive(Clone, Copy, Serialize, Deserialize)]
enum Word {
    Gone,
    Unseen,
    Contested,
    Leaving,
    LeavingContested,
    Theirs,
    Kept,
    Removed,
    BuiltOn,
    Unproven,
}

impl From<Settled> for Word {
    fn from(settled: Settled) -> Self {
        match settled {
            Settled::Gone => Self::Gone,
            Settled::Unseen => Self::Unseen,
            Settled::Contested => Self::Contested,
            Settled::Leaving => Self::Leaving,
            Settled::LeavingContested => Self::LeavingContested,
            Settled::Theirs => Self::Theirs,
            Settled::Kept => Self::Kept,
            Settled::Removed => Self::Removed,
            Settled::Hazard(Hazard::BuiltOn) => Self::BuiltOn,
            Settled::Hazard(Hazard::Unproven) => Self::Unproven,
        }
    }
}

impl From<Word> for Settled {
    fn from(word: Word) -> Self {
        match word {
            Word::Gone => Self::Gone,
            Word::Unseen => Self::Unseen,
            Word::Contested => Self::Contested,
            Word::Leaving => Self::Leaving,
            Word::LeavingContested => Self::LeavingContested,
            Word::Theirs => Self::Theirs,
            Word::Kept => Self::Kept,
            Word::Removed => Self::Removed,
            Word::BuiltOn => Self::Hazard(Hazard::BuiltOn),
            Word::Unproven => Self::Hazard(Hazard::Unproven),
        }
    }
}

/// One line of the log.
#[derive(Serialize, Deserialize)]
enum Line {
    Intent(Arc<Intent>),
    Verdict(Verdict),
    Resolve(Resolution),
    Note(usize, Word),
    End(u64),
}

/// The lines of one batch, in order, make its record; lines that do not follow each other make none.
fn replay(id: BatchId, lines: impl IntoIterator<Item = Line>) -> Result<Record, String> {
    let mut lines = lines.into_iter();
    let Some(Line::Intent(intent)) = lines.next() else {
        return Err(format!("batch {id} does not begin with its intent"));
    };
    let mut record = Record {
        id,
        settled: vec![None; intent.entries.len()],
        intent: Arc::unwrap_or_clone(intent),
        verdict: None,
        resolutions: Vec::new(),
        ended: None,
    };
    for line in lines {
        if record.ended.is_some() {
            return Err(format!("batch {id} goes on after its end"));
        }
        match line {
            Line::Verdict(verdict) if record.verdict.is_none() => record.verdict = Some(verdict),
            Line::Note(entry, word) if entry < record.settled.len() && record.verdict.is_some() => {
                record.settled[entry] = Some(word.into());
            }
            Line::Resolve(resolution) => record.resolutions.push(resolution),
            Line::End(at) if record.verdict.is_some() => record.ended = Some(at),
            Line::Intent(_) | Line::Verdict(_) | Line::Note(..) | Line::End(_) => {
                return Err(format!(
                    "batch {id} has a line that cannot follow the one before"
                ));
            }
        }
    }
    Ok(record)
}

/// Reads the lines of one batch as they stand in the log, and writes them again. For tests of their form.
///
/// # Errors
/// They are no lines, or do not follow each other.
#[doc(hidden)]
pub fn reread(lines: &[&[u8]]) -> Result<(Record, Vec<Vec<u8>>), String> {
    let read = lines.iter().map(|line| serde_json::from_slice(line));
    let read: Vec<Line> = read
        .collect::<Result<_, _>>()
        .map_err(|error| error.to_string())?;
    let written = read.iter().map(serde_json::to_vec);
    let written = written.collect::<Result<_, _>>();
    let written = written.map_err(|error| error.to_string())?;
    Ok((replay(Uuid::nil(), read)?, written))
}

mod names {
    //! An identifier as the list of its names.

    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    use super::Identifier;

    pub(super) fn serialize<S: Serializer>(id: &Identifier, to: S) -> Result<S::Ok, S::Error> {
        to.collect_seq(id.names())
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Identifier, D::Error> {
        Identifier::from_names(Vec::<String>::deserialize(from)?).map_err(Error::custom)
    }
}
