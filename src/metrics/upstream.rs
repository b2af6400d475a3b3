//! The time that catalogs take, by the labels that `telemetry.histograms` names.

use std::sync::{Arc, Mutex};

use prometheus::HistogramVec;

use super::operations::names;
use super::shards::{Shards, lock};
use super::timings::Timings;
use crate::config::Histograms;
use crate::protocol::operation::Operation;

/// The histograms of one backend, or those that all backends share.
#[derive(Clone)]
pub(super) struct Upstream {
    family: HistogramVec,
    by: Histograms,
    timings: Arc<Shards<Mutex<Timings>>>,
}

/// Returns the names of the labels.
pub(super) fn labels(by: Histograms) -> &'static [&'static str] {
    match by {
        Histograms::Operation => &["operation"],
        Histograms::Backend => &["backend"],
        Histograms::Both => &["operation", "backend"],
    }
}

impl Upstream {
    pub(super) fn new(family: &HistogramVec, by: Histograms) -> Self {
        Self {
            family: family.clone(),
            by,
            timings: Arc::default(),
        }
    }

    /// Returns the histograms of one backend. They are shared where no label tells backends apart.
    pub(super) fn of_backend(&self) -> Self {
        let mut own = self.clone();
        if self.is_own() {
            own.timings = Arc::default();
        }
        own
    }

    /// Adds one duration in seconds.
    pub(super) fn add(&self, operation: Operation, backend: &str, seconds: f64) {
        let operation = (self.by != Histograms::Backend).then_some(operation);
        lock(self.timings.own().0).add(operation, seconds, |operation| match self.by {
            Histograms::Operation => self.family.with_label_values(&[operation]),
            Histograms::Backend => self.family.with_label_values(&[backend]),
            Histograms::Both => self.family.with_label_values(&[operation, backend]),
        });
    }

    /// True if the histograms are those of one backend.
    pub(super) fn is_own(&self) -> bool {
        self.by != Histograms::Operation
    }

    /// Adds up the durations of all threads.
    pub(super) fn gather(&self) {
        for timings in self.timings.all() {
            lock(timings).flush();
        }
    }

    /// Removes the series of a backend. What is added later is not counted.
    pub(super) fn remove(&self, backend: &str) {
        if !self.is_own() {
            return;
        }
        for timings in self.timings.all() {
            lock(timings).close();
        }
        // A removal fails if there is no such series, and then there is nothing to remove.
        if self.by == Histograms::Backend {
            let _ = self.family.remove_label_values(&[backend]);
            return;
        }
        for operation in names() {
            let _ = self.family.remove_label_values(&[operation, backend]);
        }
    }
}
