//! The times of a request: its age, its waits for catalogs, and the time that the gateway itself took.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use http::StatusCode;

use super::RequestRecord;

/// A wait for a catalog, which lasts until this is dropped.
pub struct CatalogWait(Arc<RequestRecord>);

impl RequestRecord {
    /// Begins a wait for a catalog, which lasts until the returned value is dropped; `None` if waits are not recorded.
    #[must_use]
    pub fn waiting(self: &Arc<Self>) -> Option<CatalogWait> {
        if !self.is_observed() {
            return None;
        }
        self.waits.began(self.age());
        Some(CatalogWait(Arc::clone(self)))
    }

    /// Notes that a catalog had the request itself for this long. A request goes to one catalog at a time.
    pub fn forwarded(&self, took: Duration) {
        let before = self.forwarded.load(Ordering::Relaxed);
        let took = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        let after = before.saturating_add(took.max(1));
        self.forwarded.store(after, Ordering::Relaxed);
    }

    /// Notes that the response begins now, for an observer that needs the time.
    pub fn timed(&self) {
        let _ = self.answered.set(self.age());
    }

    /// The time since its headers came in.
    pub fn age(&self) -> Duration {
        self.began.elapsed()
    }

    /// The age at which its response began; `None` if that was not noted.
    pub fn timed_at(&self) -> Option<Duration> {
        self.answered.get().copied()
    }

    /// The time spent waiting for catalogs until `age`; waits side by side count once. Zero if waits are not recorded.
    pub fn upstream(&self, age: Duration) -> Duration {
        self.waits.total(age)
    }

    /// The part of `age` that the gateway itself took; `None` if no catalog had the request itself, or if the response
    /// was not whole when it began.
    pub fn added(&self, age: Duration) -> Option<Duration> {
        let forwarded = self.forwarded.load(Ordering::Relaxed);
        let is_told_apart = forwarded > 0 && self.is_whole.load(Ordering::Relaxed);
        is_told_apart.then(|| age.saturating_sub(Duration::from_nanos(forwarded)))
    }
}

impl CatalogWait {
    /// Notes the status of the catalog's answer to a change.
    pub fn settled(&self, status: StatusCode) {
        self.0.settled(status);
    }
}

impl Drop for CatalogWait {
    fn drop(&mut self) {
        self.0.waits.ended(self.0.age());
    }
}
