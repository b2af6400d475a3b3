//! The batches that are not over, for whoever looks after them.

use std::sync::Arc;

use dashmap::DashMap;
use serde::Serialize;

use super::now_millis;
use crate::batch::log::{BatchId, Intent};
use crate::batch::step::{Decision, Hazard};

/// Every batch with a durable INTENT and no durable end.
#[derive(Default)]
pub struct OpenBatches(DashMap<BatchId, OpenBatch>);

/// One of them.
#[derive(Clone, Debug, Serialize)]
pub struct OpenBatch {
    /// Its name, the `transaction_id` of its answer.
    pub id: String,
    /// `undecided`, `committed`, `undoing` or `hazard`.
    pub state: &'static str,
    /// Since it was begun or taken over, in milliseconds since the epoch.
    pub since_millis: u64,
    /// Its versions.
    pub entries: Vec<OpenEntry>,
}

/// One version of it.
#[derive(Clone, Debug, Serialize)]
pub struct OpenEntry {
    /// The backend's name.
    pub backend: Arc<str>,
    /// The catalog's own identifier, its names joined by `$`.
    pub table: String,
    /// The branch, if not the main one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub branch: Option<String>,
    /// The version.
    pub version: u64,
    /// Why it could not be deleted, if a person must look.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hazard: Option<&'static str>,
}

impl OpenBatches {
    /// All of them, the oldest first.
    pub fn list(&self) -> Vec<OpenBatch> {
        let mut open: Vec<OpenBatch> = self.0.iter().map(|batch| batch.clone()).collect();
        open.sort_by(|one, other| one.id.cmp(&other.id));
        open
    }

    pub(super) fn insert(&self, id: BatchId, intent: &Intent) {
        let entries = intent.entries.iter().map(|entry| OpenEntry {
            backend: Arc::clone(&entry.backend),
            table: entry.table.to_string(),
            branch: entry.branch.clone(),
            version: entry.version,
            hazard: None,
        });
        let batch = OpenBatch {
            id: id.to_string(),
            state: "undecided",
            since_millis: now_millis(),
            entries: entries.collect(),
        };
        self.0.insert(id, batch);
    }

    pub(super) fn decided(&self, id: BatchId, decision: Decision) {
        if let Some(mut batch) = self.0.get_mut(&id) {
            batch.state = match decision {
                Decision::Commit => "committed",
                Decision::Abort => "undoing",
            };
        }
    }

    pub(super) fn hazard(&self, id: BatchId, entry: usize, hazard: Hazard) {
        if let Some(mut batch) = self.0.get_mut(&id) {
            batch.state = "hazard";
            batch.entries[entry].hazard = Some(match hazard {
                Hazard::BuiltOn => "a later version was built on it",
                Hazard::Unproven => "it may be somebody else's",
            });
        }
    }

    pub(super) fn remove(&self, id: BatchId) {
        self.0.remove(&id);
    }
}
