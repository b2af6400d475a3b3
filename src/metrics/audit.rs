//! The counters of the audit log.

use prometheus::{IntCounter, IntGauge};

use super::families::Families;

/// The handle for the audit log. Cheap to clone.
#[derive(Clone)]
pub struct Audit {
    lost: IntCounter,
    writable: IntGauge,
}

impl Audit {
    pub(super) fn new(families: &Families) -> Self {
        Self {
            lost: families.audit_lost.clone(),
            writable: families.audit_writable.clone(),
        }
    }

    /// Counts a line that was lost.
    pub fn lost(&self) {
        self.lost.inc();
    }

    /// Returns the number of lines that were lost.
    pub fn all_lost(&self) -> u64 {
        self.lost.get()
    }

    /// Sets whether lines can be written.
    pub fn is_writable(&self, is_writable: bool) {
        self.writable.set(is_writable.into());
    }
}
