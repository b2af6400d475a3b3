//! The batches that are not over, for whoever looks after them.

use std::sync::Arc;

use dashmap::DashMap;
use serde::Serialize;
use tokio::sync::mpsc;

use super::{ResolveRequest, now_millis};
use crate::batch::log::{Action, BatchId, Intent};
use crate::batch::step::{Decision, Hazard};

/// Every batch with a durable INTENT and no durable end.
#[derive(Default)]
pub struct OpenBatches(DashMap<BatchId, Open>);

struct Open {
    shown: OpenBatch,
    resolver: mpsc::Sender<ResolveRequest>,
}

/// One of them.
#[derive(Clone, Debug, Serialize)]
pub struct OpenBatch {
    /// Its name, the `transaction_id` of its answer.
    pub id: String,
    /// `undecided`, `committed`, `undoing`, `hazard`, `watching` or `stranded`.
    pub state: &'static str,
    /// Since it was begun or taken over, in milliseconds since the epoch.
    pub since_millis: u64,
    /// Its changes.
    pub entries: Vec<OpenEntry>,
}

/// One change of it.
#[derive(Clone, Debug, Serialize)]
pub struct OpenEntry {
    /// The backend's name.
    pub backend: Arc<str>,
    /// The catalog's own identifier, its names joined by `$`.
    pub table: String,
    /// The branch, if not the main one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub branch: Option<String>,
    /// `create_version`, `declare`, `register`, `deregister` or `delete_versions`.
    pub action: &'static str,
    /// The version that is created.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<u64>,
    /// Why it could not be deleted, if a person must look.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hazard: Option<&'static str>,
}

impl OpenBatches {
    /// All of them, the oldest first.
    pub fn list(&self) -> Vec<OpenBatch> {
        let mut open: Vec<OpenBatch> = self.0.iter().map(|open| open.shown.clone()).collect();
        open.sort_by(|one, other| one.id.cmp(&other.id));
        open
    }

    /// How many there are.
    pub(in crate::batch) fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether this is one of them.
    pub(in crate::batch) fn has(&self, id: BatchId) -> bool {
        self.0.contains_key(&id)
    }

    /// The way to a batch's task, if it is open.
    pub(super) fn resolver(&self, id: BatchId) -> Option<mpsc::Sender<ResolveRequest>> {
        self.0.get(&id).map(|open| open.resolver.clone())
    }

    pub(super) fn insert(
        &self,
        id: BatchId,
        intent: &Intent,
        resolver: mpsc::Sender<ResolveRequest>,
    ) {
        let entries = intent.entries.iter().map(|entry| OpenEntry {
            backend: Arc::clone(&entry.backend),
            table: entry.table.to_string(),
            branch: entry.branch.clone(),
            action: name(&entry.action),
            version: match entry.action {
                Action::CreateVersion { version, .. } => Some(version),
                _ => None,
            },
            hazard: None,
        });
        let shown = OpenBatch {
            id: id.to_string(),
            state: "undecided",
            since_millis: now_millis(),
            entries: entries.collect(),
        };
        self.0.insert(id, Open { shown, resolver });
    }

    pub(super) fn decided(&self, id: BatchId, decision: Decision) {
        let state = match decision {
            Decision::Commit => "committed",
            Decision::Abort => "undoing",
        };
        self.change(id, |batch| batch.state = state);
    }

    /// One of its backends is not configured any more.
    pub(super) fn stranded(&self, id: BatchId) {
        self.change(id, |batch| batch.state = "stranded");
    }

    /// Only creates that may still land are watched for.
    pub(super) fn watching(&self, id: BatchId) {
        self.change(id, |batch| batch.state = "watching");
    }

    /// An entry waits for a person, or not any more.
    pub(super) fn hazard(&self, id: BatchId, entry: usize, hazard: Option<Hazard>) {
        self.change(id, |batch| {
            batch.entries[entry].hazard = hazard.map(|hazard| match hazard {
                Hazard::BuiltOn => "a later version was built on it",
                Hazard::Unproven => "it may be somebody else's",
            });
            let hazards = batch.entries.iter().any(|entry| entry.hazard.is_some());
            batch.state = if hazards { "hazard" } else { "undoing" };
        });
    }

    /// It has ended.
    pub fn remove(&self, id: BatchId) {
        self.0.remove(&id);
    }

    fn change(&self, id: BatchId, change: impl FnOnce(&mut OpenBatch)) {
        if let Some(mut open) = self.0.get_mut(&id) {
            change(&mut open.shown);
        }
    }
}

fn name(action: &Action) -> &'static str {
    match action {
        Action::CreateVersion { .. } => "create_version",
        Action::Declare { .. } => "declare",
        Action::Register { .. } => "register",
        Action::Deregister => "deregister",
        Action::DeleteVersions { .. } => "delete_versions",
    }
}
