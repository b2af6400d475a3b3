//! What is counted for every request.

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use http::StatusCode;
use prometheus::{HistogramVec, IntCounter, IntCounterVec, IntGauge};

use super::backend::Backend;
use super::families::Families;
use super::shards::{Count, Shards};
use super::timings::Timings;
use crate::protocol::operation::{Kind, Operation};

/// The listed operations, the unlisted ones, and requests that are no operation.
pub(super) const OPERATIONS: usize = Operation::LISTED.len() + 2;
/// The statuses that are counted without their text, the most frequent first.
const USUAL: [u16; 20] = [
    200, 201, 202, 204, 400, 401, 403, 404, 405, 406, 409, 413, 422, 429, 500, 501, 502, 503, 504,
    431,
];
/// The label of an answer that no catalog had a part in.
const NO_BACKEND: &str = "none";
const NO_OPERATION: &str = "unrecognized";

/// The counters of requests.
pub struct Requests {
    tallies: Shards<Tally>,
    in_flight: IntGauge,
    durations: HistogramVec,
    alone: Share,
}

/// What one thread counts.
#[derive(Default)]
struct Tally {
    /// Those that began here, wherever they ended.
    begun: Count,
    /// Those that ended here.
    ended: Count,
    durations: Mutex<Timings>,
}

/// One request, once it is over.
#[derive(Clone, Copy)]
pub struct Counted<'a> {
    /// What was asked; `None` if it was no operation.
    pub operation: Option<Operation>,
    /// Who answered; `None`: the gateway alone.
    pub backend: Option<&'a Backend>,
    /// The answer's status; `None` if the client went away before there was one.
    pub status: Option<StatusCode>,
    /// From its headers to the end of the response.
    pub took: Duration,
    /// The length of its body, as far as it was read.
    pub request_bytes: u64,
    /// The length of the response's body, as far as it was sent.
    pub response_bytes: u64,
}

impl Requests {
    pub(super) fn new(families: &Families) -> Self {
        Self {
            tallies: Shards::default(),
            in_flight: families.in_flight.clone(),
            durations: families.request_duration.clone(),
            alone: Share::new(NO_BACKEND.into(), families),
        }
    }

    /// A request came in. [`Requests::ended`] takes it off again.
    pub fn began(&self) {
        let (tally, writer) = self.tallies.own();
        tally.begun.add(1, writer);
    }

    /// It is over.
    pub fn ended(&self, request: Counted<'_>) {
        let (tally, writer) = self.tallies.own();
        tally.ended.add(1, writer);
        let took = request.took.as_secs_f64();
        lock(&tally.durations).add(request.operation, took, &self.durations, &[]);
        let share = request
            .backend
            .map_or(&self.alone, |backend| &backend.share);
        share.count(&request);
    }

    /// Puts together what the threads have counted.
    pub(super) fn gather(&self) {
        let sum = |count: fn(&Tally) -> &Count| {
            let parts = self.tallies.all().map(|tally| count(tally).all());
            parts.sum::<u64>()
        };
        // The ends first: what ends meanwhile would not be one of those that began.
        let ended = sum(|tally| &tally.ended);
        let begun = sum(|tally| &tally.begun);
        self.in_flight
            .set(i64::try_from(begun.saturating_sub(ended)).unwrap_or(i64::MAX));
        for tally in self.tallies.all() {
            lock(&tally.durations).flush();
        }
        self.alone.gather();
    }
}

/// One backend's share of the requests.
pub(super) struct Share {
    backend: Arc<str>,
    requests: IntCounterVec,
    request_bytes: IntCounter,
    response_bytes: IntCounter,
    tallies: Shards<ShareTally>,
}

/// What one thread counts of it.
#[derive(Default)]
struct ShareTally {
    /// By operation and status, once there is one.
    requests: OnceLock<Box<[[Count; USUAL.len()]]>>,
    request_bytes: Count,
    response_bytes: Count,
}

impl Share {
    pub(super) fn new(backend: Arc<str>, families: &Families) -> Self {
        Self {
            request_bytes: families.request_bytes.with_label_values(&[&backend]),
            response_bytes: families.response_bytes.with_label_values(&[&backend]),
            backend,
            requests: families.requests.clone(),
            tallies: Shards::default(),
        }
    }

    fn count(&self, request: &Counted<'_>) {
        let (tally, writer) = self.tallies.own();
        tally.request_bytes.add(request.request_bytes, writer);
        tally.response_bytes.add(request.response_bytes, writer);
        // 499 is what proxies write where the client left before there was an answer.
        let status = request.status.map_or(499, |status| status.as_u16());
        let Some(place) = USUAL.iter().position(|&usual| usual == status) else {
            self.counter(name(request.operation), status).inc();
            return;
        };
        let none = || (0..OPERATIONS).map(|_| Default::default()).collect();
        let requests = tally.requests.get_or_init(none);
        requests[number(request.operation)][place].add(1, writer);
    }

    fn counter(&self, operation: &str, status: u16) -> IntCounter {
        let code = status.to_string();
        self.requests
            .with_label_values(&[operation, &*self.backend, &code])
    }

    /// Puts together what the threads have counted.
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

/// What was counted for a backend that is not configured any more.
impl Drop for Share {
    fn drop(&mut self) {
        self.gather();
    }
}

pub(super) fn lock<T>(part: &Mutex<T>) -> MutexGuard<'_, T> {
    part.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The place of an operation among all that are told apart.
pub(super) fn number(operation: Option<Operation>) -> usize {
    operation.map_or(OPERATIONS - 1, Operation::number)
}

/// By their number.
fn names() -> impl Iterator<Item = &'static str> {
    let listed = Operation::LISTED.iter().map(|operation| operation.name());
    listed.chain([Operation::Unlisted(Kind::Table).name(), NO_OPERATION])
}

pub(super) fn name(operation: Option<Operation>) -> &'static str {
    operation.map_or(NO_OPERATION, Operation::name)
}
