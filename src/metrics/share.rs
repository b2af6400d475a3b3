//! The counters of the requests that one backend has answered, or the gateway alone.

use std::sync::{Arc, OnceLock};

use http::StatusCode;
use prometheus::{IntCounter, IntCounterVec};

use super::families::Families;
use super::operations::{OPERATIONS, name, names, number};
use super::shards::{Count, Shards};
use crate::protocol::operation::Operation;

/// The statuses with an array place instead of a label look-up, the most frequent first.
const USUAL: [u16; 20] = [
    200, 201, 202, 204, 400, 401, 403, 404, 405, 406, 409, 413, 422, 429, 500, 501, 502, 503, 504,
    431,
];

/// The request counters of one backend.
pub(super) struct BackendCounters {
    backend: Arc<str>,
    requests: IntCounterVec,
    request_bytes: IntCounter,
    response_bytes: IntCounter,
    tallies: Shards<BackendTally>,
}

/// The counts of one thread.
#[derive(Default)]
struct BackendTally {
    /// The counts by operation and status, allocated with the first one.
    requests: OnceLock<Box<[[Count; USUAL.len()]]>>,
    request_bytes: Count,
    response_bytes: Count,
}

impl BackendCounters {
    pub(super) fn new(backend: Arc<str>, families: &Families) -> Self {
        Self {
            request_bytes: families.request_bytes.with_label_values(&[&backend]),
            response_bytes: families.response_bytes.with_label_values(&[&backend]),
            backend,
            requests: families.requests.clone(),
            tallies: Shards::default(),
        }
    }

    /// Counts a completed request: the status of its answer, and the bytes of the request's and the
    /// answer's body.
    pub(super) fn count(
        &self,
        operation: Option<Operation>,
        status: Option<StatusCode>,
        (request_bytes, response_bytes): (u64, u64),
    ) {
        let (tally, writer) = self.tallies.own();
        tally.request_bytes.add(request_bytes, writer);
        tally.response_bytes.add(response_bytes, writer);
        // 499 is the status that proxies log if the client disconnected before there was an answer.
        let status = status.map_or(499, |status| status.as_u16());
        let Some(place) = USUAL.iter().position(|&usual| usual == status) else {
            self.counter(name(operation), status).inc();
            return;
        };
        let none = || (0..OPERATIONS).map(|_| Default::default()).collect();
        let requests = tally.requests.get_or_init(none);
        requests[number(operation)][place].add(1, writer);
    }

    fn counter(&self, operation: &str, status: u16) -> IntCounter {
        let code = status.to_string();
        self.requests
            .with_label_values(&[operation, &*self.backend, &code])
    }

    /// Adds up the counts of all threads.
    pub(super) fn gather(&self) {
        for tally in self.tallies.all() {
            for (row, name) in tally.requests.get().into_iter().flatten().zip(names()) {
                for (count, status) in row.iter().zip(USUAL) {
                    let unread = count.unread();
                    if unread > 0 {
                        self.counter(name, status).inc_by(unread);
                    }
                }
            }
            self.request_bytes.inc_by(tally.request_bytes.unread());
            self.response_bytes.inc_by(tally.response_bytes.unread());
        }
    }
}

/// Keeps the counts of a backend that is no longer configured.
impl Drop for BackendCounters {
    fn drop(&mut self) {
        self.gather();
    }
}
