//! Tells answers of catalogs that came before something was shown from those after it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::Line;
use crate::batch::place::place;

/// How often something of a line stopped being hidden in a way that answers from before do not fit; lines share
/// counters.
#[derive(Clone)]
pub(super) struct Shown(Arc<[AtomicU64]>);

/// What was shown of a line up to a moment.
#[derive(Clone, Copy, Debug)]
pub struct Moment {
    counter: usize,
    count: u64,
}

impl Shown {
    pub(super) fn moment(&self, line: &Line) -> Moment {
        let counter = self.counter(line);
        let count = self.0[counter].load(Ordering::Acquire);
        Moment { counter, count }
    }

    pub(super) fn has_passed(&self, Moment { counter, count }: Moment) -> bool {
        self.0[counter].load(Ordering::Acquire) != count
    }

    pub(super) fn overtake(&self, line: &Line) {
        self.0[self.counter(line)].fetch_add(1, Ordering::AcqRel);
    }

    /// The place of a line's counter: the same in every process, for a simulation must repeat itself.
    pub(super) fn counter(&self, line: &Line) -> usize {
        place(line, self.0.len())
    }
}

impl Default for Shown {
    fn default() -> Self {
        Self((0..1024).map(|_| AtomicU64::new(0)).collect())
    }
}
