//! How long a catalog is waited for, counted whoever ends the wait.

use tokio::time::Instant;

use crate::backend::{Backend, Failure};
use crate::protocol::operation::Operation;

/// A request to a catalog that has not answered yet. Counted when it is dropped: a caller that does not wait any longer
/// has waited so long.
pub(in crate::backend) struct UpstreamTimer<'a> {
    backend: &'a Backend,
    /// `None`: it is not counted, or no more.
    operation: Option<Operation>,
    began: Instant,
}

impl<'a> UpstreamTimer<'a> {
    /// It `began` just now.
    pub(in crate::backend) fn begin(
        backend: &'a Backend,
        operation: Option<Operation>,
        began: Instant,
    ) -> Self {
        Self {
            backend,
            operation,
            began,
        }
    }

    /// There was an answer, at that moment.
    pub(in crate::backend) fn answered(mut self, now: Instant) {
        self.count(now);
    }

    /// There is none. Where nobody tried, that says nothing of how long the catalog takes.
    pub(in crate::backend) fn failed(mut self, failure: &Failure) {
        if !failure.was_tried() {
            self.operation = None;
        }
    }

    fn count(&mut self, now: Instant) {
        if let Some(operation) = self.operation.take() {
            self.backend.metrics.asked(operation, now - self.began);
        }
    }
}

impl Drop for UpstreamTimer<'_> {
    fn drop(&mut self) {
        if self.operation.is_some() {
            self.count(Instant::now());
        }
    }
}
