//! Tells answers of catalogs that came before something was shown from those after it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::TableBranch;
use crate::util::stable_hash::place;

/// How often something of a line stopped being hidden in a way that answers from before do not fit; lines share
/// counters.
#[derive(Clone)]
pub(super) struct ReadEpochs(Arc<Inner>);

struct Inner {
    /// All of them.
    times: AtomicU64,
    counters: Box<[Counter]>,
}

#[derive(Default)]
struct Counter {
    times: AtomicU64,
    /// The last of them among all.
    last: AtomicU64,
}

/// What was shown of a line up to a moment.
#[derive(Clone, Copy, Debug)]
pub struct Moment {
    counter: usize,
    count: u64,
}

/// What was shown of all lines up to a moment: cheaper to take than a [`Moment`].
#[derive(Clone, Copy, Debug)]
pub struct Epoch(u64);

impl ReadEpochs {
    pub(super) fn moment(&self, line: &TableBranch) -> Moment {
        let counter = self.counter(line);
        let count = self.0.counters[counter].times.load(Ordering::Acquire);
        Moment { counter, count }
    }

    pub(super) fn has_passed(&self, Moment { counter, count }: Moment) -> bool {
        self.0.counters[counter].times.load(Ordering::Acquire) != count
    }

    pub(super) fn epoch(&self) -> Epoch {
        Epoch(self.0.times.load(Ordering::Acquire))
    }

    /// Whether anything of the line was shown since.
    pub(super) fn has_shown(&self, since: Epoch, line: impl FnOnce() -> TableBranch) -> bool {
        let counter = || &self.0.counters[self.counter(&line())];
        self.epoch().0 != since.0 && counter().last.load(Ordering::Acquire) > since.0
    }

    pub(super) fn invalidate_reads(&self, line: &TableBranch) {
        let counter = &self.0.counters[self.counter(line)];
        let number = self.0.times.fetch_add(1, Ordering::AcqRel) + 1;
        counter.last.fetch_max(number, Ordering::AcqRel);
        counter.times.fetch_add(1, Ordering::AcqRel);
    }

    /// The place of a line's counter: the same in every process, for a simulation must repeat itself.
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
