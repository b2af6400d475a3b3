//! How long operations took, as one thread counts it.

use prometheus::HistogramVec;
use prometheus::local::LocalHistogram;

use super::operations::{OPERATIONS, name, number};
use crate::protocol::operation::Operation;

/// A histogram for each operation that there was. What is left when it is dropped is not lost.
#[derive(Default)]
pub(super) struct Timings(Vec<Option<LocalHistogram>>);

impl Timings {
    /// One took so many seconds; `labels` come after the operation's.
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

    /// Hands over what was counted.
    pub(super) fn flush(&self) {
        for histogram in self.0.iter().flatten() {
            histogram.flush();
        }
    }
}
