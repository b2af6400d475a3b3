//! What is counted for one backend.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use prometheus::{Histogram, HistogramVec, IntCounter, IntGauge};

use super::families::Families;
use super::request::{OPERATIONS, Share};
use crate::protocol::operation::Operation;

/// The counters of one backend.
pub struct Backend {
    name: Arc<str>,
    up: IntGauge,
    breaker_open: IntGauge,
    retries: IntCounter,
    upstream: [OnceLock<Histogram>; OPERATIONS],
    upstream_family: HistogramVec,
    pub(super) share: Share,
}

impl Backend {
    pub(super) fn new(name: Arc<str>, families: &Families) -> Self {
        let label = [&*name];
        Self {
            up: families.backend_up.with_label_values(&label),
            breaker_open: families.breaker_open.with_label_values(&label),
            retries: families.backend_retries.with_label_values(&label),
            upstream: [const { OnceLock::new() }; OPERATIONS],
            upstream_family: families.upstream_duration.clone(),
            share: Share::new(Arc::clone(&name), families),
            name,
        }
    }

    /// Its name in the configuration.
    pub fn name(&self) -> &Arc<str> {
        &self.name
    }

    /// Whether at least one of its addresses serves.
    pub fn up(&self, up: bool) {
        self.up.set(up.into());
    }

    /// One more of its addresses is not asked because it failed.
    pub fn breaker_opened(&self) {
        self.breaker_open.inc();
    }

    /// One fewer.
    pub fn breaker_closed(&self) {
        self.breaker_open.dec();
    }

    /// A request was sent once more.
    pub fn retried(&self) {
        self.retries.inc();
    }

    /// A request was sent, and this is how long the response's headers took (or their absence showed).
    pub fn asked(&self, operation: Operation, took: Duration) {
        let histogram = self.upstream[operation.number()].get_or_init(|| {
            self.upstream_family
                .with_label_values(&[operation.name(), &self.name])
        });
        histogram.observe(took.as_secs_f64());
    }
}
