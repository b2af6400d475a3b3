//! The records of the durable batch log (the intent, the one decision, the settled entries, the end), and the trait of
//! every log.
//!
//! The log is a trait: `disk` implements it in a file, and `postgres` in a database.

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
pub mod postgres;
pub mod transfer;

/// The id of a batch: a UUID of version 7, so that ids sort by time. Clients see it as `transaction_id`.
pub type BatchId = Uuid;

/// The plan of a batch. It holds no token, and nothing of the caller but a fingerprint.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Intent {
    /// The changes, in request order.
    pub entries: Vec<IntentEntry>,
    /// The fingerprint of caller and `Idempotency-Key`; `None` if the request had no key.
    pub idempotency: Option<String>,
    /// The fingerprint of the entries.
    pub fingerprint: String,
}

/// One change, and the table that it changes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct IntentEntry {
    /// The name of the configured backend.
    pub backend: Arc<str>,
    /// The catalog's own identifier of the table.
    #[serde(with = "names")]
    pub table: Identifier,
    /// The branch; `None` is the main one.
    pub branch: Option<String>,
    /// The change.
    pub action: Action,
    /// True if another writer's create of that version had no answer when the batch began: a version that looks like
    /// the batch's own may be that writer's.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub contested: bool,
    /// The catalog itself, in case the backend is renamed.
    #[serde(default, skip_serializing_if = "CatalogRef::is_unnamed")]
    pub catalog: CatalogRef,
}

/// A catalog, independent of the name of its backend.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CatalogRef {
    /// The address that it had, in the form of [`BackendConfig::addresses`](crate::config::BackendConfig::addresses);
    /// `None` in logs from before addresses were recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<Arc<str>>,
    /// The identity in this process; `None` if that is the backend's name.
    #[serde(skip)]
    identity: Option<Arc<str>>,
}

/// One change of one table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Action {
    /// Creates a version.
    CreateVersion {
        /// The version. The table's latest version was this minus one, or the batch creates that one before.
        version: u64,
        /// The size of the staged manifest in bytes; `None` if the client did not name it.
        manifest_size: Option<u64>,
        /// The entity tag of the staged manifest; `None` if the client did not name it.
        e_tag: Option<String>,
    },
    /// Declares a table.
    Declare {
        /// The location that the table is to get; `None` if the client did not name one.
        location: Option<String>,
    },
    /// Registers a table that exists in storage.
    Register {
        /// The location of the table.
        location: String,
    },
    /// Removes a table's name, and leaves its storage as it is.
    Deregister,
    /// Deletes versions.
    DeleteVersions {
        /// The versions to delete.
        ranges: Vec<VersionRange>,
    },
}

/// A range of versions of one branch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct VersionRange {
    /// The first version.
    pub start: u64,
    /// The version after the last one.
    pub end: u64,
}

/// The answer to a create, which identifies the object in the catalog.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Proof {
    /// The path of the manifest that the catalog wrote.
    pub manifest_path: Option<String>,
    /// The size of that manifest in bytes.
    pub manifest_size: Option<u64>,
    /// The entity tag of that manifest.
    pub e_tag: Option<String>,
    /// The location of a table, if the batch created one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub location: Option<String>,
}

/// An operator's decision about a batch that was stuck.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Resolution {
    /// True for COMMIT, false for ABORT.
    pub commit: bool,
    /// The operator who decided.
    pub who: String,
    /// The operator's reason.
    pub why: String,
    /// The time of the decision, in milliseconds since the epoch.
    pub at: u64,
}

impl Resolution {
    /// Returns the decision.
    pub fn decision(&self) -> Decision {
        if self.commit {
            Decision::Commit
        } else {
            Decision::Abort
        }
    }
}

/// The decision as it is written to the log.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Verdict {
    /// COMMIT, with the catalogs' answers in request order, which become the answer to the caller.
    Commit(Vec<Box<RawValue>>),
    /// ABORT, with the proofs that undo may need, and the error for callers who ask later.
    Abort {
        /// The answer to the create of each entry; `None` where there was none.
        proofs: Vec<Option<Proof>>,
        /// The reason, as the caller was told.
        reason: String,
        /// The status and code of the answer to the caller; `None` in logs of older versions.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        answer: Option<AbortAnswer>,
    },
}

impl CatalogRef {
    /// Returns the catalog of a backend.
    pub fn of(backend: &Backend) -> Self {
        let mut catalog = Self {
            address: backend.addresses().first().cloned(),
            identity: None,
        };
        catalog.known_as(backend.name(), backend.catalog());
        catalog
    }

    /// Records the identity of the catalog behind a backend with this name.
    pub(in crate::batch) fn known_as(&mut self, name: &str, identity: &Arc<str>) {
        self.identity = (**identity != *name).then(|| Arc::clone(identity));
    }

    fn is_unnamed(&self) -> bool {
        self.address.is_none()
    }
}

impl IntentEntry {
    /// Returns the identity of the catalog, by which its tables are locked and hidden.
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
    /// The latest version of the entry's table, if that is the reason; `None` in logs of older versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub found: Option<u64>,
}

impl Verdict {
    /// Returns an ABORT because of `refusal`, which is `None` if the reason is not known.
    pub fn abort(proofs: Vec<Option<Proof>>, refusal: Option<&Refusal>) -> Self {
        Self::Abort {
            proofs,
            reason: refusal.map_or_else(String::new, spelled),
            answer: refusal.map(|refusal| AbortAnswer {
                status: refusal.status,
                code: refusal.code.number(),
                found: refusal.found,
            }),
        }
    }

    /// Returns the answer to the caller of an aborted batch; `None` if it was committed. If the log does not hold the
    /// status, it is a conflict.
    pub fn refusal(&self) -> Option<Refusal> {
        let Self::Abort { reason, answer, .. } = self else {
            return None;
        };
        let code = answer.and_then(|answer| Code::from_number(answer.code.into()));
        let (entry, message) = unspelled(reason);
        let refusal = Refusal {
            entry,
            found: answer.and_then(|answer| answer.found),
            ..Refusal::new(code.unwrap_or(Code::ConcurrentModification), message)
        };
        let status = answer.map_or(refusal.status, |answer| answer.status);
        Some(Refusal { status, ..refusal })
    }

    /// Returns the decision without its data.
    pub fn decision(&self) -> Decision {
        match self {
            Self::Commit(_) => Decision::Commit,
            Self::Abort { .. } => Decision::Abort,
        }
    }
}

/// Returns the spelling of a refusal in the log, e.g. `entries[2]: table t is busy`.
fn spelled(refusal: &Refusal) -> String {
    let message = &refusal.message;
    match refusal.entry {
        Some(entry) => format!("entries[{entry}]: {message}"),
        None => message.clone(),
    }
}

/// Returns the entry and the message of a refusal in the log.
fn unspelled(reason: &str) -> (Option<usize>, &str) {
    let numbered = reason.strip_prefix("entries[");
    let numbered = numbered.and_then(|rest| rest.split_once("]: "));
    match numbered.and_then(|(entry, message)| Some((entry.parse().ok()?, message))) {
        Some((entry, message)) => (Some(entry), message),
        None => (None, reason),
    }
}

/// All log entries of one batch, combined.
#[derive(Clone, Debug)]
pub struct Record {
    /// The id of the batch.
    pub id: BatchId,
    /// The plan of the batch.
    pub intent: Intent,
    /// The decision; `None` while the batch is undecided.
    pub verdict: Option<Verdict>,
    /// The final state of each entry; `None` where it is not settled.
    pub settled: Vec<Option<Settled>>,
    /// The decisions of operators.
    pub resolutions: Vec<Resolution>,
    /// The time when the batch ended, in milliseconds since the epoch; `None` while it is unfinished.
    pub ended: Option<u64>,
}

/// The error for a log that cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// The log cannot be opened or read, or its content is invalid.
    #[error("the batch log {path} cannot be used: {cause}")]
    Unusable {
        /// The path of the log.
        path: String,
        /// The cause.
        cause: String,
    },
    /// A write failed. It is unknown whether its data is on the disk.
    #[error(
        "the batch log cannot be written: {0}. Nothing was acknowledged that is not on the disk. Check the disk (`df -h`: space; limits, errors), then start the gateway again: it continues from what is on the disk"
    )]
    Write(String),
    /// The server of the log does not answer. Nothing was written, and it can be tried again.
    #[error("the batch log {path} does not answer: {cause}")]
    Away {
        /// The address of the log.
        path: String,
        /// The cause.
        cause: String,
    },
    /// Another process has taken the log over.
    #[error(
        "gateway `{by}` has taken the batch log {path} over, so this one must not go on: it was silent for longer than `batch.lease`. Nothing that it did not write is acknowledged. Start it again: with `batch.gateways` it goes on as one of the gateways that share the log, and without it waits until the other one ends"
    )]
    TakenOver {
        /// The address of the log.
        path: String,
        /// The name of the other process; empty if it is not known.
        by: String,
    },
}

/// A future that a log operation returns.
pub type Logged<'a, T> = BoxFuture<'a, Result<T, LogError>>;

/// The log. A write that returned `Ok` survives a crash.
pub trait Log: Send + Sync + 'static {
    /// Writes INTENT. After [`LogError::Away`] it may be in the log until [`Log::withdrawn`] returns.
    fn intend(&self, id: BatchId, intent: Arc<Intent>) -> Logged<'_, ()>;
    /// Returns once the INTENT of a batch that was refused is not in the log, and cannot come there any more. Until
    /// then, another process could recover the batch and take versions that were made meanwhile for its own.
    fn withdrawn(&self, id: BatchId) -> Logged<'_, ()> {
        let _ = id;
        Box::pin(async { Ok(()) })
    }
    /// Writes the decision, unless there is one. Returns the one that is in the log.
    fn decide(&self, id: BatchId, verdict: Verdict) -> Logged<'_, Decision>;
    /// Writes an operator's decision, before it is carried out.
    fn resolve(&self, id: BatchId, resolution: Resolution) -> Logged<'_, ()>;
    /// Writes the final state of one entry.
    fn note(&self, id: BatchId, entry: usize, settled: Settled) -> Logged<'_, ()>;
    /// Records that a delete or deregister for this entry may leave from now on. A process that does not own the log
    /// any more gets an error, and must not send it. A log that only one process can have open records nothing.
    fn sending(&self, id: BatchId, entry: usize) -> Logged<'_, ()> {
        let _ = (id, entry);
        Box::pin(async { Ok(()) })
    }
    /// Writes the end, at `now` in milliseconds since the epoch.
    fn end(&self, id: BatchId, now: u64) -> Logged<'_, ()>;
    /// Forgets batches that ended before `before`, in milliseconds since the epoch.
    fn forget(&self, before: u64) -> Logged<'_, ()>;
    /// True if the log was created by this process, so that no earlier process can have sent requests.
    fn is_new(&self) -> bool;
    /// Finds one batch by its id.
    fn find(&self, id: BatchId) -> Logged<'_, Option<Record>>;
    /// Finds the last batch that began with this [`Intent::idempotency`].
    fn find_by_key<'a>(&'a self, key: &'a str) -> Logged<'a, Option<Record>>;
    /// Calls `each` with every batch in the order in which they began, one at a time because they may be very many.
    fn scan<'a>(&'a self, each: &'a mut (dyn FnMut(Record) + Send)) -> Logged<'a, ()>;
    /// Does the same for the part of the log that a start needs: every batch from the first unfinished one on, and the
    /// last one. Others may be left out.
    fn scan_needed<'a>(&'a self, each: &'a mut (dyn FnMut(Record) + Send)) -> Logged<'a, ()> {
        self.scan(each)
    }
    /// Completes the writes that were requested before, and accepts none after. The next process that opens the log
    /// need not repair it.
    fn close(&self) -> Logged<'_, ()> {
        Box::pin(async { Ok(()) })
    }
}

/// Returns all batches of a log at once. Use it for a small log only.
///
/// # Errors
/// Fails if the log cannot be read.
pub async fn all(log: &dyn Log) -> Result<Vec<Record>, LogError> {
    let mut records = Vec::new();
    log.scan(&mut |record| records.push(record)).await?;
    Ok(records)
}

/// The spelling of [`Settled`] in the log.
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

/// Builds the record of one batch from its lines in order. Lines that cannot follow each other are an error.
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

/// Explains a line that is complete, but holds words that this version does not know.
fn cause_of_unread(id: BatchId, error: &serde_json::Error) -> String {
    format!(
        "batch {id}: {error}. A newer gateway wrote it: start that version again, or a later one"
    )
}

/// Parses the lines of one batch and writes them again, for tests of their format.
///
/// # Errors
/// Fails if a line cannot be parsed, or if the lines cannot follow each other.
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
    //! Writes an identifier as the list of its names, and reads it.

    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    use super::Identifier;

    pub(super) fn serialize<S: Serializer>(id: &Identifier, to: S) -> Result<S::Ok, S::Error> {
        to.collect_seq(id.names())
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Identifier, D::Error> {
        Identifier::from_names(Vec::<String>::deserialize(from)?).map_err(Error::custom)
    }
}
