//! The counters of the audit log.

use std::sync::{Arc, OnceLock};

use prometheus::{IntCounter, IntGauge};

use super::families::Families;

/// The handle for the audit log. Cheap to clone.
#[derive(Clone)]
pub struct Audit {
    lost: IntCounter,
    writable: IntGauge,
    /// The question whether lines can be written; empty without an audit log.
    watched: Arc<OnceLock<Question>>,
}

type Question = Box<dyn Fn() -> bool + Send + Sync>;

impl Audit {
    pub(super) fn new(families: &Families) -> Self {
        Self {
            lost: families.audit_lost.clone(),
            writable: families.audit_writable.clone(),
            watched: Arc::default(),
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

    /// Has the gauge ask, whenever it is read, whether lines can be written. A write that does not return cannot say so.
    pub fn watch(&self, is_writable: impl Fn() -> bool + Send + Sync + 'static) {
        let _ = self.watched.set(Box::new(is_writable));
    }

    pub(super) fn gather(&self) {
        if let Some(is_writable) = self.watched.get() {
            self.writable.set(is_writable().into());
        }
    }
}
