//! The durations of operations, as one thread counts them.

use prometheus::HistogramVec;
use prometheus::local::LocalHistogram;

use super::operations::{OPERATIONS, name, number};
use crate::protocol::operation::Operation;

/// One histogram for each operation that occurred. Unflushed values are flushed when it is dropped.
#[derive(Default)]
pub(super) struct Timings(Vec<Option<LocalHistogram>>);

impl Timings {
    /// Adds one duration in seconds; `labels` follow the operation's label.
    pub(super) fn add(
        &mut self,
        operation: Option<Operation>,
        seconds: f64,
        family: &HistogramVec,
        labels: &[&str],
    ) {
        if self.0.is_empty() {
            self.0.resize_with(OPERATIONS, || None);
        }
        let histogram = self.0[number(operation)].get_or_insert_with(|| {
            let labels = [&[name(operation)], labels].concat();
            family.with_label_values(&labels).local()
        });
        histogram.observe(seconds);
    }

    /// Adds the local values to the shared histograms.
    pub(super) fn flush(&self) {
        for histogram in self.0.iter().flatten() {
            histogram.flush();
        }
    }
}
