//! What is counted about batches.

use std::time::Duration;

use prometheus::{Gauge, Histogram, IntCounter, IntGauge};
use serde::Serialize;

use super::families::Families;

/// The counters of batches. Clones count together.
#[derive(Clone)]
pub struct Batch {
    committed: IntCounter,
    aborted: IntCounter,
    refused: IntCounter,
    unknown: IntCounter,
    phases: [Histogram; 6],
    entries: Histogram,
    hazards: IntGauge,
    undecided: IntGauge,
    oldest: Gauge,
    standing: [(IntGauge, Gauge); BatchState::ALL.len()],
    late_creates: IntCounter,
}

/// Where a batch stands that has a durable intent and no durable end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum BatchState {
    /// It has no decision.
    Undecided,
    /// COMMIT is durable; what it removes is being removed.
    Committed,
    /// ABORT is durable; what it made is being undone.
    Undoing,
    /// Something of it waits for a person.
    Hazard,
    /// It is undone; a create that got no answer may still land.
    Watching,
    /// It has entries in a backend that is not configured any more.
    Stranded,
}

/// The open batches, counted.
#[derive(Clone, Debug, Default)]
pub struct BatchCounts {
    /// How many, and since when the oldest.
    standing: [(u32, Duration); BatchState::ALL.len()],
    hazards: u32,
}

/// The phases that `nsgate_batch_duration_seconds` tells apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the steps of a batch, in their order")]
pub enum Phase {
    Lock,
    Validate,
    Prepare,
    Decide,
    Undo,
    /// From the request to its answer.
    Total,
}

const PHASES: [&str; 6] = ["lock", "validate", "prepare", "decide", "undo", "total"];

impl Phase {
    /// Its name in the label `phase`.
    pub fn as_str(self) -> &'static str {
        PHASES[self as usize]
    }
}

impl BatchState {
    /// All of them.
    pub const ALL: [Self; 6] = [
        Self::Undecided,
        Self::Committed,
        Self::Undoing,
        Self::Hazard,
        Self::Watching,
        Self::Stranded,
    ];

    /// Its name on `/batches` and in the label `state`.
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
    /// One more batch, which began `age` ago; `hazards`: changes of it that wait for a person.
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

    /// All versions of a batch became visible.
    pub fn committed(&self) {
        self.committed.inc();
    }

    /// A batch failed after its intent was durable, and is undone.
    pub fn aborted(&self) {
        self.aborted.inc();
    }

    /// A batch failed before anything was written anywhere.
    pub fn refused(&self) {
        self.refused.inc();
    }

    /// A batch whose answer could not say what became of it.
    pub fn unknown(&self) {
        self.unknown.inc();
    }

    /// A phase took so long.
    pub fn phase(&self, phase: Phase, took: Duration) {
        self.phases[phase as usize].observe(took.as_secs_f64());
    }

    /// A batch of so many entries was begun.
    pub fn entries(&self, count: usize) {
        self.entries.observe(count as f64);
    }

    /// A create landed after its batch was aborted.
    pub fn late_create(&self) {
        self.late_creates.inc();
    }

    /// How many batches are open now. To be told before the metrics are rendered.
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
