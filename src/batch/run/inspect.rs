//! Inspects one batch for operators: the state of each entry, what was expected and found, the last errors.
//!
//! An inspection is put together on request, so that a batch that is not inspected pays nothing for it.

use serde::Serialize;

use super::BatchRun;
use crate::batch::log::{Action, Intent, IntentEntry, Proof, Resolution};
use crate::batch::plan::Entry;
use crate::batch::step::{Decision, Event, Refusal, State, step};

/// The most characters of a catalog's error that are kept.
const MAX_WORDS: usize = 300;

/// The inspection of one batch.
#[derive(Clone, Debug, Default)]
pub struct BatchInspection {
    /// The inspection of each entry; empty if the batch did not answer in time.
    pub entries: Vec<EntryInspection>,
    /// The decisions of operators about the batch.
    pub resolved: Vec<Resolution>,
    /// The decisions that the batch would accept now.
    pub takes: Vec<Decision>,
}

/// The inspection of one entry.
#[derive(Clone, Debug, Serialize)]
pub struct EntryInspection {
    /// The state of the entry, in a few words.
    pub state: &'static str,
    /// True if the catalog answered that it created the entry.
    pub created: bool,
    /// The proof from the answer to the create or, without one, what the client staged.
    pub expected: Proof,
    /// The object that the catalog last described; `None` if there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub found: Option<Proof>,
    /// The last error of the catalog, until the entry is done; `None` if there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

impl BatchInspection {
    /// Returns the inspection of a batch whose backend is not configured, so that nothing can be found out.
    pub(super) fn stranded(intent: &Intent) -> Self {
        let entries = intent.entries.iter().map(|entry| EntryInspection {
            state: "stranded",
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
            state: state.stands(entry),
            created: self.proofs[entry].is_some(),
            expected: self.proofs[entry].clone().unwrap_or_else(|| staged(intent)),
            found: self.described[entry]
                .as_ref()
                .map(|described| described.proof.clone()),
            error: self.trouble[entry].clone(),
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

    /// Records that a catalog did not do what was requested, or did not say so.
    pub(super) fn record_error(&mut self, entry: usize, refusal: Refusal) {
        let Entry { backend, line, .. } = &self.plan.entries[entry];
        let mut words = refusal.message;
        let backend = backend.name();
        if !words.contains(&**backend) {
            words = format!("backend `{backend}` answered {}: {words}", refusal.status);
        }
        if let Some((end, _)) = words.char_indices().nth(MAX_WORDS) {
            words.truncate(end);
        }
        // The request is retried again and again, but the error is reported once.
        if self.trouble[entry].as_ref() != Some(&words) {
            tracing::warn!(
                batch = %self.id, %backend, table = %line.table.table, cause = words,
                "a catalog does not do what a batch needs; it is asked again"
            );
            self.coordinator.open.trouble(self.id, Some(words.clone()));
            self.trouble[entry] = Some(words);
        }
    }

    /// Clears the error of an entry that has been done since.
    pub(super) fn untroubled(&mut self, entry: usize) {
        if self.trouble[entry].take().is_some() {
            let left = self.trouble.iter().flatten().next().cloned();
            self.coordinator.open.trouble(self.id, left);
        }
    }
}

/// Returns true if something in the batch waits for this decision: the decision would have an effect. A batch whose
/// versions are being deleted does not accept COMMIT.
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
