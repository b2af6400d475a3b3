//! The counters of one backend by operation and status, and of its bytes.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, OnceLock};

use http::StatusCode;
use prometheus::{IntCounter, IntCounterVec};

use super::families::Families;
use super::operations::{OPERATIONS, name, names, number};
use super::shards::{Count, Shards, lock};
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
    /// The requests that were sent to the catalog.
    sent: IntCounter,
    tallies: Shards<BackendTally>,
    /// The counted operations and statuses that have no place in an array; `None` once the backend is removed.
    unusual: Mutex<Option<BTreeSet<(&'static str, u16)>>>,
}

/// The counts of one thread.
#[derive(Default)]
struct BackendTally {
    /// The counts by operation and status, allocated with the first one.
    requests: OnceLock<Box<[[Count; USUAL.len()]]>>,
    request_bytes: Count,
    response_bytes: Count,
    sent: Count,
}

impl BackendCounters {
    pub(super) fn new(backend: Arc<str>, families: &Families) -> Self {
        Self {
            request_bytes: families.request_bytes.with_label_values(&[&backend]),
            response_bytes: families.response_bytes.with_label_values(&[&backend]),
            sent: families.upstream_requests.with_label_values(&[&backend]),
            backend,
            requests: families.requests.clone(),
            tallies: Shards::default(),
            unusual: Mutex::new(Some(BTreeSet::new())),
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
            let operation = name(operation);
            // Locked until it is counted, so that a removal comes before or after it.
            if let Some(unusual) = &mut *lock(&self.unusual) {
                unusual.insert((operation, status));
                self.counter(operation, status).inc();
            }
            return;
        };
        let none = || (0..OPERATIONS).map(|_| Default::default()).collect();
        let requests = tally.requests.get_or_init(none);
        requests[number(operation)][place].add(1, writer);
    }

    /// Counts a request that was sent to the catalog.
    pub(super) fn count_sent(&self) {
        let (tally, writer) = self.tallies.own();
        tally.sent.add(1, writer);
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
            self.sent.inc_by(tally.sent.unread());
            self.request_bytes.inc_by(tally.request_bytes.unread());
            self.response_bytes.inc_by(tally.response_bytes.unread());
        }
    }

    /// Removes the series. [`BackendCounters::gather`] must not be called after it.
    pub(super) fn remove(&self, families: &Families) {
        let unusual = lock(&self.unusual).take().unwrap_or_default();
        let usual = self.tallies.all().flat_map(|tally| {
            let rows = tally.requests.get().into_iter().flatten().zip(names());
            rows.flat_map(|(row, name)| {
                let counted = row.iter().zip(USUAL).filter(|(count, _)| count.all() > 0);
                counted.map(move |(_, status)| (name, status))
            })
        });
        // A removal fails if there is no such series, and then there is nothing to remove.
        for (operation, status) in unusual.into_iter().chain(usual) {
            let labels = [operation, &*self.backend, &status.to_string()];
            let _ = self.requests.remove_label_values(&labels);
        }
        let by_backend = [
            &families.request_bytes,
            &families.response_bytes,
            &families.upstream_requests,
        ];
        for family in by_backend {
            let _ = family.remove_label_values(&[&self.backend]);
        }
    }
}
