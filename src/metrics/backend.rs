//! The counters of one backend.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use prometheus::{HistogramVec, IntCounter, IntGauge};

use super::families::Families;
use super::shards::{Shards, lock};
use super::share::BackendCounters;
use super::timings::Timings;
use crate::protocol::operation::Operation;

/// The counters of one backend.
pub struct Backend {
    name: Arc<str>,
    up: IntGauge,
    breaker_open: IntGauge,
    retries: IntCounter,
    upstream: HistogramVec,
    timings: Shards<Mutex<Timings>>,
    pub(super) share: BackendCounters,
}

impl Backend {
    pub(super) fn new(name: Arc<str>, families: &Families) -> Self {
        let label = [&*name];
        Self {
            up: families.backend_up.with_label_values(&label),
            breaker_open: families.breaker_open.with_label_values(&label),
            retries: families.backend_retries.with_label_values(&label),
            upstream: families.upstream_duration.clone(),
            timings: Shards::default(),
            share: BackendCounters::new(Arc::clone(&name), families),
            name,
        }
    }

    /// Returns the backend's name in the configuration.
    pub fn name(&self) -> &Arc<str> {
        &self.name
    }

    /// Sets whether at least one address of the backend serves, and how many breakers are open. Must be called before
    /// the metrics are rendered, for the backend that is in use: others with the same name may still be at work.
    pub fn stands(&self, up: bool, breakers_open: usize) {
        self.up.set(up.into());
        let open = i64::try_from(breakers_open).unwrap_or(i64::MAX);
        self.breaker_open.set(open);
    }

    /// Counts a retry.
    pub fn retried(&self) {
        self.retries.inc();
    }

    /// Records the time from sending a request to the response's headers, or to the failure.
    pub fn asked(&self, operation: Operation, took: Duration) {
        let took = took.as_secs_f64();
        lock(self.timings.own().0).add(Some(operation), took, &self.upstream, &[&self.name]);
    }

    /// Adds up the counts of all threads.
    pub(super) fn gather(&self) {
        for timings in self.timings.all() {
            lock(timings).flush();
        }
        self.share.gather();
    }
}
