//! The notes about a request that only the audit log needs.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use http::StatusCode;

use super::RequestRecord;
use super::change::TableChange;
use crate::error::denied_by::DeniedBy;

impl RequestRecord {
    /// Notes the tables that it changes; those of a batch in the order of its entries.
    pub fn changes(&self, changes: impl IntoIterator<Item = TableChange>) {
        if self.is_observed() {
            let _ = self.changes.set(changes.into_iter().collect());
        }
    }

    /// Notes the rule that denied it.
    pub fn denied_by(&self, rule: &DeniedBy) {
        if self.is_observed() {
            let _ = self.rule.set(Box::new(rule.clone()));
        }
    }

    /// Notes that the words of the refusal are a catalog's, not the gateway's.
    pub fn refused_by_catalog(&self) {
        self.refused_by_catalog.store(true, Ordering::Relaxed);
    }

    /// True if the words of the refusal are a catalog's.
    pub fn is_refused_by_catalog(&self) -> bool {
        self.refused_by_catalog.load(Ordering::Relaxed)
    }

    /// Notes the status of the catalog's answer to a change. Its client may be gone.
    pub fn settled(&self, status: StatusCode) {
        self.settled.store(status.as_u16(), Ordering::Relaxed);
    }

    /// Notes that it has joined a batch that an earlier request began.
    pub fn repeats(&self) {
        self.repeats.store(true, Ordering::Relaxed);
    }

    /// Notes that the audit log has its line. Returns false if that was noted before.
    pub fn audited(&self) -> bool {
        !self.audited.swap(true, Ordering::Relaxed)
    }

    /// The tables that it changes, if more is known of them than the name in the path; those of a batch in the order of
    /// its entries.
    pub fn changed(&self) -> &[TableChange] {
        self.changes.get().map_or(&[], |changes| changes)
    }

    /// Returns [`changed`](Self::changed) in a form that can be kept; `None` if nothing was noted.
    pub fn shared_changes(&self) -> Option<&Arc<[TableChange]>> {
        self.changes.get()
    }

    /// The rule that denied it; `None` if none did.
    pub fn rule(&self) -> Option<&DeniedBy> {
        self.rule.get().map(|rule| &**rule)
    }

    /// The status of the catalog's answer to a change; `None` if there was none.
    pub fn settled_with(&self) -> Option<u16> {
        Some(self.settled.load(Ordering::Relaxed)).filter(|status| *status != 0)
    }

    /// True if it has joined a batch that an earlier request began.
    pub fn is_repeat(&self) -> bool {
        self.repeats.load(Ordering::Relaxed)
    }
}
