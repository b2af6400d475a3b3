//! The changes that go on after their clients have left. The end of the process waits for them.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::batch::Batches;

/// The number of changes that go on after their clients have left.
#[derive(Default)]
pub(super) struct DetachedChanges(Arc<AtomicUsize>);

/// The mark of a change that goes on after its client has left. To be dropped after the change and its record.
pub struct DetachedChange(Arc<AtomicUsize>);

impl Batches {
    /// Counts a change that goes on after its client has left, until the returned value is dropped.
    pub fn detach(&self) -> DetachedChange {
        let count = Arc::clone(&self.detached.0);
        count.fetch_add(1, Ordering::Relaxed);
        DetachedChange(count)
    }

    /// The number of changes that go on after their clients have left.
    pub fn detached(&self) -> usize {
        // Pairs with the drop: a change that is not counted any more has left its lines in the logs.
        self.detached.0.load(Ordering::Acquire)
    }
}

impl Drop for DetachedChange {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Release);
    }
}
