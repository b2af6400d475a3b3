//! The flag that tells whether a batch is committed.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A flag that is set when a batch is committed; shared by all hidden versions and names of the batch.
#[derive(Clone, Debug, Default)]
pub struct CommitFlag(Arc<AtomicBool>);

impl CommitFlag {
    /// Sets the flag: makes the versions of its batch visible.
    pub fn reveal(&self) {
        self.0.store(true, Ordering::Release);
    }

    pub(in crate::batch) fn is_revealed(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }

    /// True if both are the flag of the same batch.
    pub(in crate::batch) fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}
