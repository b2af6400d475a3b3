//! Tells whether a catalog's answer is from before or after a change of visibility.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::TableBranch;
use crate::util::stable_hash::place;

/// Counts for each branch the changes of visibility that make older answers outdated. Branches share counters.
#[derive(Clone)]
pub(super) struct ReadEpochs(Arc<Inner>);

struct Inner {
    /// The number of changes of all branches.
    times: AtomicU64,
    counters: Box<[Counter]>,
}

#[derive(Default)]
struct Counter {
    times: AtomicU64,
    /// The number, among all changes, of the last one of this counter.
    last: AtomicU64,
}

/// The number of changes of a branch at a moment.
#[derive(Clone, Copy, Debug)]
pub struct BranchEpoch {
    counter: usize,
    count: u64,
}

/// The number of changes of all branches at a moment: cheaper to take than a [`BranchEpoch`].
#[derive(Clone, Copy, Debug)]
pub struct Epoch(u64);

impl ReadEpochs {
    pub(super) fn moment(&self, line: &TableBranch) -> BranchEpoch {
        let counter = self.counter(line);
        let count = self.0.counters[counter].times.load(Ordering::Acquire);
        BranchEpoch { counter, count }
    }

    pub(super) fn has_passed(&self, BranchEpoch { counter, count }: BranchEpoch) -> bool {
        self.0.counters[counter].times.load(Ordering::Acquire) != count
    }

    pub(super) fn epoch(&self) -> Epoch {
        Epoch(self.0.times.load(Ordering::Acquire))
    }

    /// True if answers about the branch from before `since` are outdated.
    pub(super) fn has_shown(&self, since: Epoch, line: impl FnOnce() -> TableBranch) -> bool {
        let counter = || &self.0.counters[self.counter(&line())];
        self.epoch().0 != since.0 && counter().last.load(Ordering::Acquire) > since.0
    }

    pub(super) fn invalidate_reads(&self, line: &TableBranch) {
        if line.branch.is_some() {
            // A describe of the table is known by its name only.
            self.invalidate_reads(&TableBranch::new(line.table.clone(), None));
        }
        let counter = &self.0.counters[self.counter(line)];
        let number = self.0.times.fetch_add(1, Ordering::AcqRel) + 1;
        counter.last.fetch_max(number, Ordering::AcqRel);
        counter.times.fetch_add(1, Ordering::AcqRel);
    }

    /// The index of a branch's counter. It is the same in every process, because a simulation must be repeatable.
    pub(super) fn counter(&self, line: &TableBranch) -> usize {
        place(line, self.0.counters.len())
    }
}

impl Default for ReadEpochs {
    fn default() -> Self {
        Self(Arc::new(Inner {
            times: AtomicU64::default(),
            counters: (0..1024).map(|_| Counter::default()).collect(),
        }))
    }
}
