//! Whether a batch has come to be: one word, shared by all that waits for it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether a batch is committed; shared by all that is hidden of it.
#[derive(Clone, Debug, Default)]
pub struct CommitFlag(Arc<AtomicBool>);

impl CommitFlag {
    /// Makes every version with this fate visible.
    pub fn reveal(&self) {
        self.0.store(true, Ordering::Release);
    }

    pub(in crate::batch) fn is_revealed(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }

    /// Whether it is the very same fate.
    pub(in crate::batch) fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}
