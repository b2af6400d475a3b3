//! An operator's view of one batch: the state of each entry, the expected and the found version, and the last error of
//! its catalog.
//!
//! The view is built on request, so that other batches pay nothing for it.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use super::BatchRun;
use super::entry::EntryRun;
use crate::batch::log::{Action, Intent, IntentEntry, Proof, Resolution};
use crate::batch::plan::Entry;
use crate::batch::step::{Decision, Event, Refusal, State, step};

/// The largest number of characters of a catalog's error that are kept.
const MAX_WORDS: usize = 300;

/// The details of one batch.
#[derive(Clone, Debug, Default)]
pub struct BatchInspection {
    /// The entries in request order; empty if the batch did not answer in time.
    pub entries: Vec<EntryInspection>,
    /// The decisions of operators about it so far.
    pub resolved: Vec<Resolution>,
    /// The decisions that the batch would take now.
    pub takes: Vec<Decision>,
}

/// The details of one entry.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct EntryInspection {
    /// The state of the entry, in a word or two.
    pub state: Cow<'static, str>,
    /// True if the catalog answered that it created the version or name.
    pub created: bool,
    /// The answer to the create; before there is one, what the client staged.
    pub expected: Proof,
    /// The version or name that the catalog last reported; `None` if it has reported none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub found: Option<Proof>,
    /// The last error of the catalog, if a request about the entry has not succeeded since.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

impl BatchInspection {
    /// The details of a batch with a backend that is not configured, about which nothing can be found out.
    pub(super) fn stranded(intent: &Intent) -> Self {
        let entries = intent.entries.iter().map(|entry| EntryInspection {
            state: "stranded".into(),
            created: false,
            expected: staged(entry),
            found: None,
            error: None,
        });
        Self {
            entries: entries.collect(),
            resolved: Vec::new(),
            takes: vec![Decision::Commit],
        }
    }
}

impl BatchRun {
    pub(super) fn look(&self, state: &State) -> BatchInspection {
        let entries = self.intent.entries.iter().enumerate();
        let entries = entries.map(|(entry, intent)| EntryInspection {
            state: state.stands(entry).into(),
            created: self.entries[entry].proof.is_some(),
            expected: self.entries[entry]
                .proof
                .clone()
                .unwrap_or_else(|| staged(intent)),
            found: self.entries[entry]
                .described
                .as_ref()
                .map(|described| described.proof.clone()),
            error: self.entries[entry].error.clone(),
        });
        BatchInspection {
            entries: entries.collect(),
            resolved: self.resolved.clone(),
            takes: [Decision::Commit, Decision::Abort]
                .into_iter()
                .filter(|decision| takes(state, *decision))
                .collect(),
        }
    }

    /// Records a catalog's error about an entry. It is logged and shown to operators.
    pub(super) fn record_error(&mut self, entry: usize, refusal: Refusal) {
        let Entry { backend, line, .. } = &self.plan.entries[entry];
        let mut words = refusal.message;
        let way_back = self.coordinator.way_back(backend);
        let backend = backend.name();
        if !words.contains(&**backend) {
            words = format!("backend `{backend}` answered {}: {words}", refusal.status);
        }
        if let Some((end, _)) = words.char_indices().nth(MAX_WORDS) {
            words.truncate(end);
        }
        words.extend(way_back);
        // The request is retried many times; log the same error only once.
        if self.entries[entry].error.as_ref() != Some(&words) {
            tracing::warn!(
                batch = %self.id, %backend, table = %line.table.table, cause = words,
                "batch step failed at the catalog; retrying"
            );
            self.coordinator.open.trouble(self.id, Some(words.clone()));
            self.entries[entry].error = Some(words);
        }
    }

    /// Adds the first entry that has an error, and the error, to the refusal of a batch whose time is up.
    pub(super) fn add_trouble(&self, refusal: &mut Refusal) {
        for (entry, EntryRun { error, .. }) in self.entries.iter().enumerate() {
            if let Some(error) = error {
                refusal.message = format!("{}: {error}", refusal.message);
                refusal.entry = Some(entry);
                return;
            }
        }
    }

    /// Removes the error of an entry after its request has succeeded.
    pub(super) fn untroubled(&mut self, entry: usize) {
        if self.entries[entry].error.take().is_some() {
            let left = self.entries.iter().find_map(|entry| entry.error.clone());
            self.coordinator.open.trouble(self.id, left);
        }
    }
}

/// True if something in the batch waits for this decision, so that the decision would have an effect. A version that is
/// being deleted cannot be kept.
pub(super) fn takes(state: &State, decision: Decision) -> bool {
    if decision == Decision::Commit && state.is_deleting() {
        return false;
    }
    let (after, effects) = step(state.clone(), Event::Resolved(decision));
    after != *state || !effects.is_empty()
}

fn staged(entry: &IntentEntry) -> Proof {
    let mut proof = Proof::default();
    match &entry.action {
        Action::CreateVersion {
            manifest_size,
            e_tag,
            ..
        } => {
            proof.manifest_size = *manifest_size;
            proof.e_tag.clone_from(e_tag);
        }
        Action::Declare { location } => proof.location.clone_from(location),
        Action::Register { location } => proof.location = Some(location.clone()),
        Action::Deregister | Action::DeleteVersions { .. } => {}
    }
    proof
}
