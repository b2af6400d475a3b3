//! Measures the wait for a catalog, whatever ends the wait.

use std::sync::Arc;

use tokio::time::Instant;

use crate::backend::{Backend, Failure};
use crate::protocol::operation::Operation;
use crate::request::RequestRecord;

/// The timer of a request that a catalog has not answered yet. Dropping it records the time, too: a caller that stops
/// waiting has waited this long.
pub(in crate::backend) struct UpstreamTimer<'a> {
    backend: &'a Backend,
    /// The operation; `None` if the time is not recorded, or was recorded.
    operation: Option<Operation>,
    /// The record of the client's request, if that is what was sent.
    exchange: Option<Arc<RequestRecord>>,
    began: Instant,
}

impl<'a> UpstreamTimer<'a> {
    /// Starts the timer of a request that `began` just now.
    pub(in crate::backend) fn begin(
        backend: &'a Backend,
        operation: Option<Operation>,
        exchange: Option<Arc<RequestRecord>>,
        began: Instant,
    ) -> Self {
        Self {
            backend,
            operation,
            exchange,
            began,
        }
    }

    /// Records an answer at the time `now`.
    pub(in crate::backend) fn answered(mut self, now: Instant) {
        self.count(now);
    }

    /// Records a failure. If no request was sent, records nothing, because that says nothing about the catalog.
    pub(in crate::backend) fn failed(mut self, failure: &Failure) {
        if !failure.was_tried() {
            self.operation = None;
        }
    }

    fn count(&mut self, now: Instant) {
        if let Some(operation) = self.operation.take() {
            let took = now - self.began;
            self.backend.metrics().asked(operation, took);
            if let Some(exchange) = &self.exchange {
                exchange.forwarded(took);
            }
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
