//! The counters of one backend as the gateway uses it: up, open breakers, retries, time.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use prometheus::{IntCounter, IntCounterVec, IntGauge, IntGaugeVec};

use super::families::Families;
use super::share::BackendCounters;
use super::upstream::Upstream;
use crate::protocol::operation::Operation;

/// The decisions of breakers that are counted.
const BREAKER_DECISIONS: [&str; 3] = ["refused", "let_through", "spared"];

/// The wait for a catalog from which a request that reads or writes no rows is slow.
pub const SLOW: Duration = Duration::from_secs(2);

/// The counters of one backend.
pub struct Backend {
    name: Arc<str>,
    up: IntGauge,
    breaker_open: IntGauge,
    addresses_down: IntGaugeVec,
    is_removed: AtomicBool,
    retries: IntCounter,
    /// The slow requests that no scrape has seen yet.
    slow: AtomicU64,
    slow_requests: IntCounterVec,
    breaker_refused: IntCounter,
    breaker_let_through: IntCounter,
    breaker_spared: IntCounter,
    upstream: Upstream,
    pub(super) share: BackendCounters,
}

impl Backend {
    pub(super) fn new(name: Arc<str>, families: &Families, upstream: &Upstream) -> Self {
        let label = [&*name];
        let decided = |decision| {
            families
                .breaker_decisions
                .with_label_values(&[&*name, decision])
        };
        Self {
            up: families.backend_up.with_label_values(&label),
            breaker_open: families.breaker_open.with_label_values(&label),
            addresses_down: families.addresses_down.clone(),
            is_removed: AtomicBool::new(false),
            retries: families.backend_retries.with_label_values(&label),
            slow: AtomicU64::new(0),
            slow_requests: families.backend_slow.clone(),
            breaker_refused: decided(BREAKER_DECISIONS[0]),
            breaker_let_through: decided(BREAKER_DECISIONS[1]),
            breaker_spared: decided(BREAKER_DECISIONS[2]),
            upstream: upstream.of_backend(),
            share: BackendCounters::new(Arc::clone(&name), families),
            name,
        }
    }

    /// Returns the backend's name in the configuration.
    pub fn name(&self) -> &Arc<str> {
        &self.name
    }

    /// Sets whether at least one address of the backend serves, how many breakers are open, and how many addresses do
    /// not serve, if it has several. Must be called before the metrics are rendered, for the backend that is in use:
    /// others with the same name may still be at work.
    pub fn stands(&self, up: bool, breakers_open: usize, addresses_down: Option<usize>) {
        self.up.set(up.into());
        let whole = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
        self.breaker_open.set(whole(breakers_open));
        if self.is_removed.load(Ordering::Relaxed) {
            // The series may be those of a new backend of the same name.
            return;
        }
        let label = &[&*self.name];
        match addresses_down {
            Some(down) => {
                let gauge = self.addresses_down.with_label_values(label);
                gauge.set(whole(down));
            }
            // It is there only if the catalog had several addresses before.
            None => drop(self.addresses_down.remove_label_values(label)),
        }
    }

    /// Counts a retry.
    pub fn retried(&self) {
        self.retries.inc();
    }

    /// Counts a request that was refused because the breaker of every address is open.
    pub fn breaker_refused(&self) {
        self.breaker_refused.inc();
    }

    /// Counts a request that was let through although the breaker of every address is open.
    pub fn breaker_let_through(&self) {
        self.breaker_let_through.inc();
    }

    /// Counts a failure that did not open the breaker of the last address, because one caller or one table may have
    /// caused the whole row.
    pub fn breaker_spared(&self) {
        self.breaker_spared.inc();
    }

    /// Records the time from sending a request to the response's headers, or to the failure.
    pub fn asked(&self, operation: Operation, took: Duration) {
        self.share.count_sent();
        if took >= SLOW && !operation.is_data() {
            self.slow.fetch_add(1, Ordering::Relaxed);
        }
        self.upstream.add(operation, &self.name, took.as_secs_f64());
    }

    /// Adds up the counts of all threads.
    pub(super) fn gather(&self) {
        if self.upstream.is_own() {
            self.upstream.gather();
        }
        self.share.gather();
        let slow = self.slow.swap(0, Ordering::Relaxed);
        // Most catalogs are never slow, and a thousand of them have as many series less.
        if slow > 0 {
            let counter = self.slow_requests.with_label_values(&[&self.name]);
            counter.inc_by(slow);
        }
    }

    /// Removes all series of the backend. Requests that it still serves are not counted.
    pub(super) fn remove(&self, families: &Families) {
        let label = [&*self.name];
        self.is_removed.store(true, Ordering::Relaxed);
        // A removal fails if there is no such series, and then there is nothing to remove.
        let _ = families.backend_up.remove_label_values(&label);
        let _ = families.breaker_open.remove_label_values(&label);
        let _ = families.addresses_down.remove_label_values(&label);
        let _ = families.backend_retries.remove_label_values(&label);
        let _ = families.backend_slow.remove_label_values(&label);
        for decision in BREAKER_DECISIONS {
            let _ = families
                .breaker_decisions
                .remove_label_values(&[&*self.name, decision]);
        }
        self.upstream.remove(&self.name);
        self.share.remove(families);
    }
}
