//! What a person sees of one batch: where each entry stands, what was expected and found, what its catalog last said.
//!
//! It is put together when somebody looks; a batch that nobody looks at pays nothing for it.

use serde::Serialize;

use super::BatchRun;
use crate::batch::log::{Action, Intent, IntentEntry, Proof, Resolution};
use crate::batch::plan::Entry;
use crate::batch::step::{Decision, Event, Refusal, State, step};

/// Letters of a catalog's error that are kept.
const MAX_WORDS: usize = 300;

/// One batch, looked at.
#[derive(Clone, Debug, Default)]
pub struct BatchInspection {
    /// By entry; empty if the batch had no time to answer.
    pub entries: Vec<EntryInspection>,
    /// What people have decided about it.
    pub resolved: Vec<Resolution>,
    /// The decisions that it would take now.
    pub takes: Vec<Decision>,
}

/// One entry of it.
#[derive(Clone, Debug, Serialize)]
pub struct EntryInspection {
    /// Where it stands, in a word.
    pub state: &'static str,
    /// The catalog has answered that it created it.
    pub created: bool,
    /// What the create was answered with, or else what the client staged.
    pub expected: Proof,
    /// What the catalog had when it was last asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub found: Option<Proof>,
    /// What the catalog last said instead of doing what it was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

impl BatchInspection {
    /// A batch that nothing can be found out about.
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

    /// A catalog did not do, or not say, what it was asked for.
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
        // It is asked again and again, and told once.
        if self.trouble[entry].as_ref() != Some(&words) {
            tracing::warn!(
                batch = %self.id, %backend, table = %line.table.table, cause = words,
                "batch step failed at the catalog; retrying"
            );
            self.coordinator.open.trouble(self.id, Some(words.clone()));
            self.trouble[entry] = Some(words);
        }
    }

    /// It has done it since.
    pub(super) fn untroubled(&mut self, entry: usize) {
        if self.trouble[entry].take().is_some() {
            let left = self.trouble.iter().flatten().next().cloned();
            self.coordinator.open.trouble(self.id, left);
        }
    }
}

/// Whether something in the batch waits for this decision: it would do something. What is being deleted is not kept.
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
