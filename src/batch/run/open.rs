//! The unfinished batches, as operators see them.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use dashmap::DashMap;
use serde::{Deserialize, Serialize};
use tokio::sync::mpsc;

use super::{Call, WATCH, now_millis};
use crate::batch::log::{Action, BatchId, Intent};
use crate::batch::step::{Decision, Hazard};
use crate::metrics::{BatchCounts, BatchState};
use crate::request::origin::Origin;

/// The largest number of version ranges that are listed for an operator.
const NAMED: usize = 4;
/// The reason shown when a version is not deleted because a later version was built on it.
pub const BUILT_ON: &str = "a later version was built on it";
/// The reason shown when a version is not deleted because its table has no other one.
pub const ONLY_VERSION: &str =
    "its table has no other version any more: something has deleted the older ones";
/// The reason shown when a name is not taken away because its table has no other one.
pub const ONLY_NAME: &str = "its table has no other name any more: the old one is gone";

const REGISTER: &str = "register";

/// Every batch with a durable INTENT and no durable end.
#[derive(Default)]
pub struct OpenBatches(DashMap<BatchId, Open>);

struct Open {
    shown: OpenBatch,
    caller: mpsc::Sender<Call>,
}

/// One unfinished batch.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct OpenBatch {
    /// The id of the batch, the `transaction_id` of its answer.
    pub id: String,
    /// The state of the batch.
    pub state: BatchState,
    /// Its decision; `None` before it is decided.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decision: Option<Decision>,
    /// The time at which it began, in milliseconds since the epoch.
    pub since_millis: u64,
    /// The time until which a request that it sent may still arrive, in milliseconds since the epoch; `None` until only
    /// that is left.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub watched_until_millis: Option<u64>,
    /// The last error of a catalog, if a request to it has not succeeded since.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// The caller who began it; `None` after a restart, and if callers are not recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub begun_by: Option<BatchCaller>,
    /// The changes of the batch.
    pub entries: Vec<OpenEntry>,
}

/// The caller who began a batch. The batch log does not have it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BatchCaller {
    /// The `sub` claim of the token, or the subject of the certificate; empty for the anonymous caller.
    pub subject: Arc<str>,
    /// The `iss` claim of the token; empty without a token.
    pub issuer: Arc<str>,
    /// The id of the request.
    pub request_id: String,
}

/// One change of a batch.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct OpenEntry {
    /// The backend's name.
    pub backend: Arc<str>,
    /// The values that select the data besides the identifier, such as `[tenant=acme]`; empty for most tables.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub scope: String,
    /// The catalog's own identifier, its names joined by `$`.
    pub table: String,
    /// The branch; `None` for the main one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub branch: Option<String>,
    /// `create_version`, `declare`, `register`, `deregister` or `delete_versions`.
    pub action: Cow<'static, str>,
    /// The version that is created; `None` for other actions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<u64>,
    /// The change in words, such as `create version 7`.
    pub change: String,
    /// The reason why it could not be deleted; `None` unless it waits for an operator.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hazard: Option<Cow<'static, str>>,
}

impl OpenBatch {
    /// The time since it began.
    pub fn age(&self) -> Duration {
        Duration::from_millis(now_millis().saturating_sub(self.since_millis))
    }

    /// The time for which a request that it sent may still arrive; zero before only that is left.
    pub fn watched_for(&self) -> Duration {
        let until = self.watched_until_millis.unwrap_or_default();
        Duration::from_millis(until.saturating_sub(now_millis()))
    }

    /// The state of a batch that is rolled back, and has not unlocked all of its tables.
    fn undoing(&self) -> BatchState {
        match self.hazards() {
            0 => BatchState::Undoing,
            _ => BatchState::Hazard,
        }
    }

    /// The number of its changes that wait for an operator.
    pub fn hazards(&self) -> usize {
        let hazards = self.entries.iter().filter(|entry| entry.hazard.is_some());
        hazards.count()
    }
}

impl OpenBatches {
    /// All unfinished batches, the oldest first.
    pub fn list(&self) -> Vec<OpenBatch> {
        let mut open: Vec<OpenBatch> = self.0.iter().map(|open| open.shown.clone()).collect();
        open.sort_by(|one, other| one.id.cmp(&other.id));
        open
    }

    /// The number of unfinished batches.
    pub(in crate::batch) fn len(&self) -> usize {
        self.0.len()
    }

    /// True if at least one batch is being prepared, undone or finished, and no catalog has reported an error for it.
    pub(in crate::batch) fn is_at_work(&self) -> bool {
        self.0.iter().any(|open| {
            let works = [
                BatchState::Undecided,
                BatchState::Undoing,
                BatchState::Committed,
            ];
            works.contains(&open.shown.state) && open.shown.error.is_none()
        })
    }

    /// True if the batch is unfinished.
    pub(in crate::batch) fn has(&self, id: BatchId) -> bool {
        self.0.contains_key(&id)
    }

    /// The numbers of batches by state, with their ages and hazards.
    pub fn counts(&self) -> BatchCounts {
        let mut census = BatchCounts::default();
        for open in &self.0 {
            let batch = &open.shown;
            census.add(batch.state, batch.age(), batch.hazards());
        }
        census
    }

    /// The channel to the batch's task; `None` if the batch is not open.
    pub(super) fn caller(&self, id: BatchId) -> Option<mpsc::Sender<Call>> {
        self.0.get(&id).map(|open| open.caller.clone())
    }

    /// The batch with this id; `None` if it is not open.
    pub fn get(&self, id: BatchId) -> Option<OpenBatch> {
        self.0.get(&id).map(|open| open.shown.clone())
    }

    /// Adds a batch that the request `origin` began; the default origin after a restart.
    pub(super) fn insert(
        &self,
        id: BatchId,
        intent: &Intent,
        origin: &Origin,
        caller: mpsc::Sender<Call>,
    ) {
        let entries = intent.entries.iter().map(|entry| OpenEntry {
            backend: Arc::clone(&entry.backend),
            scope: entry.catalog.scope.to_string().trim_start().to_owned(),
            table: entry.table.to_string(),
            branch: entry.branch.clone(),
            action: name(&entry.action).into(),
            version: match entry.action {
                Action::CreateVersion { version, .. } => Some(version),
                _ => None,
            },
            change: change(&entry.action),
            hazard: None,
        });
        let shown = OpenBatch {
            id: id.to_string(),
            state: BatchState::Undecided,
            decision: None,
            // The time in the id is in the future if the clock was set back.
            since_millis: began(id).min(now_millis()),
            watched_until_millis: None,
            error: None,
            begun_by: origin.caller().map(|caller| BatchCaller {
                subject: Arc::clone(caller.subject()),
                issuer: Arc::clone(caller.issuer()),
                request_id: origin.request_id().unwrap_or_default().to_owned(),
            }),
            entries: entries.collect(),
        };
        self.0.insert(id, Open { shown, caller });
    }

    pub(super) fn decided(&self, id: BatchId, decision: Decision) {
        let state = match decision {
            Decision::Commit => BatchState::Committed,
            Decision::Abort => BatchState::Undoing,
        };
        self.change(id, |batch| {
            batch.state = state;
            batch.decision = Some(decision);
        });
    }

    /// Records that one of the batch's backends is not configured any more.
    pub(super) fn stranded(&self, id: BatchId) {
        self.change(id, |batch| batch.state = BatchState::Stranded);
    }

    /// Records that the batch only watches for requests that were sent and may still arrive.
    pub(super) fn watching(&self, id: BatchId) {
        self.change(id, |batch| {
            if batch.state != BatchState::Watching {
                let watch = u64::try_from(WATCH.as_millis()).unwrap_or(u64::MAX);
                batch.watched_until_millis = Some(now_millis().saturating_add(watch));
            }
            batch.state = BatchState::Watching;
        });
    }

    /// Records that a create has landed after all: the batch is rolled back once more.
    pub(super) fn landed(&self, id: BatchId) {
        self.change(id, |batch| {
            batch.state = batch.undoing();
            batch.watched_until_millis = None;
        });
    }

    /// Records that an entry waits for an operator, or with `None` that it does not any more.
    pub(super) fn hazard(&self, id: BatchId, entry: usize, hazard: Option<Hazard>) {
        self.change(id, |batch| {
            let entry = &mut batch.entries[entry];
            entry.hazard = hazard.map(|hazard| Cow::Borrowed(reason(hazard, &entry.action)));
            batch.state = batch.undoing();
        });
    }

    /// Records the last error of a catalog; `None` removes it.
    pub(super) fn trouble(&self, id: BatchId, words: Option<String>) {
        self.change(id, |batch| batch.error = words);
    }

    /// Removes a batch that has ended.
    pub fn remove(&self, id: BatchId) {
        self.0.remove(&id);
    }

    fn change(&self, id: BatchId, change: impl FnOnce(&mut OpenBatch)) {
        if let Some(mut open) = self.0.get_mut(&id) {
            change(&mut open.shown);
        }
    }
}

/// The time at which a batch began, in milliseconds since the epoch, taken from its id.
pub(super) fn began(id: BatchId) -> u64 {
    id.get_timestamp().map_or(0, |time| {
        let (seconds, nanos) = time.to_unix();
        seconds * 1000 + u64::from(nanos / 1_000_000)
    })
}

/// Describes why an entry is a hazard, in words for an operator. `action` is the name of what the entry does.
pub(super) fn reason(hazard: Hazard, action: &str) -> &'static str {
    match hazard {
        Hazard::BuiltOn if action == REGISTER => ONLY_NAME,
        Hazard::BuiltOn => BUILT_ON,
        Hazard::OnlyVersion => ONLY_VERSION,
        Hazard::Unproven => {
            "it may belong to another writer: nothing proves that the batch created it"
        }
    }
}

/// Describes what an entry does, in words for an operator.
pub(super) fn change(action: &Action) -> String {
    match action {
        Action::CreateVersion { version, .. } => format!("create version {version}"),
        Action::Declare { .. } => "declare".to_owned(),
        Action::Register { .. } => "register".to_owned(),
        Action::Deregister => "deregister".to_owned(),
        Action::DeleteVersions { ranges } => {
            let said = ranges.iter().take(NAMED).map(|range| {
                let last = range.end.saturating_sub(1);
                if last == range.start {
                    last.to_string()
                } else {
                    format!("{} to {last}", range.start)
                }
            });
            let said: Vec<String> = said.collect();
            let more = if ranges.len() > NAMED { ", …" } else { "" };
            format!("delete versions {}{more}", said.join(", "))
        }
    }
}

pub(super) fn name(action: &Action) -> &'static str {
    match action {
        Action::CreateVersion { .. } => "create_version",
        Action::Declare { .. } => "declare",
        Action::Register { .. } => REGISTER,
        Action::Deregister => "deregister",
        Action::DeleteVersions { .. } => "delete_versions",
    }
}
