//! The durations of operations, as one thread counts them.

use prometheus::Histogram;
use prometheus::local::LocalHistogram;

use super::operations::{OPERATIONS, name, number};
use crate::protocol::operation::Operation;

/// One histogram for each operation that occurred. Unflushed values are flushed when it is dropped.
#[derive(Default)]
pub(super) struct Timings {
    histograms: Vec<Option<LocalHistogram>>,
    /// True if nothing more is counted.
    is_closed: bool,
}

impl Timings {
    /// Adds one duration in seconds. `shared` returns the histogram of the operation with this name.
    pub(super) fn add(
        &mut self,
        operation: Option<Operation>,
        seconds: f64,
        shared: impl FnOnce(&'static str) -> Histogram,
    ) {
        if self.is_closed {
            return;
        }
        if self.histograms.is_empty() {
            self.histograms.resize_with(OPERATIONS, || None);
        }
        let histogram = self.histograms[number(operation)]
            .get_or_insert_with(|| shared(name(operation)).local());
        histogram.observe(seconds);
    }

    /// Discards the local values, and those that are added later.
    pub(super) fn close(&mut self) {
        self.is_closed = true;
        self.histograms = Vec::new();
    }

    /// Adds the local values to the shared histograms.
    pub(super) fn flush(&self) {
        for histogram in self.histograms.iter().flatten() {
            histogram.flush();
        }
    }
}
