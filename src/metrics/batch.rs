//! What is counted about batches.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use prometheus::{Gauge, Histogram, IntCounter, IntGauge};

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
    open: Arc<Mutex<Open>>,
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

/// A batch with a durable intent and no decision; counted until dropped.
pub struct Undecided {
    number: u64,
    gauge: IntGauge,
    open: Arc<Mutex<Open>>,
}

#[derive(Default)]
struct Open {
    next: u64,
    /// In the order of beginning, but for those that recovery took over.
    since: BTreeMap<u64, Instant>,
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
            phases: ["lock", "validate", "prepare", "decide", "undo", "total"].map(phase),
            entries: families.batch_entries.clone(),
            hazards: families.batch_hazards.clone(),
            undecided: families.batches_undecided.clone(),
            oldest: families.oldest_undecided.clone(),
            open: Arc::default(),
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

    /// A version waits for a person.
    pub fn hazard(&self) {
        self.hazards.inc();
    }

    /// A person has settled one.
    pub fn hazard_settled(&self) {
        self.hazards.dec();
    }

    /// A batch is undecided, for `age` already; keep the answer until it is decided.
    pub fn undecided(&self, age: Duration) -> Undecided {
        let now = Instant::now();
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let number = open.next;
        open.next += 1;
        open.since
            .insert(number, now.checked_sub(age).unwrap_or(now));
        self.undecided.inc();
        Undecided {
            number,
            gauge: self.undecided.clone(),
            open: Arc::clone(&self.open),
        }
    }

    /// Brings the age up to now.
    pub(super) fn refresh_ages(&self) {
        let open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let oldest = open.since.values().min();
        self.oldest
            .set(oldest.map_or(0.0, |since| since.elapsed().as_secs_f64()));
    }
}

impl Drop for Undecided {
    fn drop(&mut self) {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.since.remove(&self.number);
        self.gauge.dec();
    }
}
