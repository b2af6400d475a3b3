//! The counters of batches.

use std::time::Duration;

use prometheus::{Gauge, Histogram, IntCounter, IntGauge};
use serde::{Deserialize, Serialize};

use super::families::Families;

/// The counters of batches. Clones share them.
#[derive(Clone)]
pub struct Batch {
    committed: IntCounter,
    aborted: IntCounter,
    refused: IntCounter,
    conflicted: IntCounter,
    unknown: IntCounter,
    phases: [Histogram; 6],
    entries: Histogram,
    hazards: IntGauge,
    undecided: IntGauge,
    oldest: Gauge,
    standing: [(IntGauge, Gauge); BatchState::ALL.len()],
    late_creates: IntCounter,
}

/// The state of a batch that has a durable intent and no durable end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum BatchState {
    /// The batch has no decision.
    Undecided,
    /// COMMIT is durable; entries that the batch removes are being removed.
    Committed,
    /// ABORT is durable; versions and names that the batch created are being undone.
    Undoing,
    /// A change of the batch waits for an operator.
    Hazard,
    /// The batch is settled and its tables are unlocked; a request of it that got no clear answer may still arrive.
    Watching,
    /// The batch has entries in a backend that is no longer configured.
    Stranded,
}

/// The open batches, counted by state.
#[derive(Clone, Debug, Default)]
pub struct BatchCounts {
    /// The number of batches in each state, and the age of the oldest.
    standing: [(u32, Duration); BatchState::ALL.len()],
    hazards: u32,
}

/// The phases that `nsgate_batch_duration_seconds` distinguishes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the steps of a batch, in their order")]
pub enum Phase {
    Lock,
    Validate,
    Prepare,
    Decide,
    Undo,
    /// The whole time from the request to its answer.
    Total,
}

const PHASES: [&str; 6] = ["lock", "validate", "prepare", "decide", "undo", "total"];

impl Phase {
    /// Returns the phase's name in the label `phase`.
    pub fn as_str(self) -> &'static str {
        PHASES[self as usize]
    }
}

impl BatchState {
    /// True if it goes on only after a person's decision.
    pub fn needs_person(self) -> bool {
        matches!(self, Self::Hazard | Self::Stranded)
    }

    /// All states.
    pub const ALL: [Self; 6] = [
        Self::Undecided,
        Self::Committed,
        Self::Undoing,
        Self::Hazard,
        Self::Watching,
        Self::Stranded,
    ];

    /// Returns the state's name on `/batches` and in the label `state`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Undecided => "undecided",
            Self::Committed => "committed",
            Self::Undoing => "undoing",
            Self::Hazard => "hazard",
            Self::Watching => "watching",
            Self::Stranded => "stranded",
        }
    }
}

impl BatchCounts {
    /// Adds one batch that began `age` ago, with `hazards` changes that wait for an operator.
    pub fn add(&mut self, standing: BatchState, age: Duration, hazards: usize) {
        let (batches, oldest) = &mut self.standing[standing as usize];
        *batches += 1;
        *oldest = age.max(*oldest);
        self.hazards += u32::try_from(hazards).unwrap_or(u32::MAX);
    }
}

impl Batch {
    pub(super) fn new(families: &Families) -> Self {
        let outcome = |outcome| families.batches.with_label_values(&[outcome]);
        let phase = |phase| families.batch_duration.with_label_values(&[phase]);
        Self {
            committed: outcome("committed"),
            aborted: outcome("aborted"),
            refused: outcome("refused"),
            conflicted: outcome("conflict"),
            unknown: outcome("unknown"),
            phases: PHASES.map(phase),
            entries: families.batch_entries.clone(),
            hazards: families.batch_hazards.clone(),
            undecided: families.batches_undecided.clone(),
            oldest: families.oldest_undecided.clone(),
            standing: BatchState::ALL.map(|standing| {
                let state = [standing.as_str()];
                (
                    families.batches_open.with_label_values(&state),
                    families.batch_oldest.with_label_values(&state),
                )
            }),
            late_creates: families.late_creates.clone(),
        }
    }

    /// Counts a batch whose versions all became visible.
    pub fn committed(&self) {
        self.committed.inc();
    }

    /// Counts a batch that failed because of another writer, whether it was refused or aborted.
    pub fn conflicted(&self) {
        self.conflicted.inc();
    }

    /// Counts a batch that failed after its intent was durable, and is undone.
    pub fn aborted(&self) {
        self.aborted.inc();
    }

    /// Counts a batch that failed before anything was written anywhere.
    pub fn refused(&self) {
        self.refused.inc();
    }

    /// Counts a batch whose answer could not say whether it was committed.
    pub fn unknown(&self) {
        self.unknown.inc();
    }

    /// Records the duration of a phase.
    pub fn phase(&self, phase: Phase, took: Duration) {
        self.phases[phase as usize].observe(took.as_secs_f64());
    }

    /// Records the number of entries of a batch that begins.
    pub fn entries(&self, count: usize) {
        self.entries.observe(count as f64);
    }

    /// Counts a create that arrived after its batch was aborted.
    pub fn late_create(&self) {
        self.late_creates.inc();
    }

    /// Sets the numbers of open batches. Must be called before the metrics are rendered.
    pub fn open(&self, census: &BatchCounts) {
        for ((batches, oldest), (number, age)) in self.standing.iter().zip(&census.standing) {
            batches.set((*number).into());
            oldest.set(age.as_secs_f64());
        }
        let (undecided, oldest) = census.standing[BatchState::Undecided as usize];
        self.undecided.set(undecided.into());
        self.oldest.set(oldest.as_secs_f64());
        self.hazards.set(census.hazards.into());
    }
}
