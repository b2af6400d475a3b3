//! What is counted for every request.

use std::sync::Mutex;
use std::time::Duration;

use http::StatusCode;
use prometheus::{HistogramVec, IntGauge};

use super::backend::Backend;
use super::families::Families;
use super::shards::{Count, Shards, lock};
use super::share::BackendCounters;
use super::timings::Timings;
use crate::protocol::operation::Operation;

/// The label of an answer that no catalog had a part in.
const NO_BACKEND: &str = "none";

/// The counters of requests.
pub struct Requests {
    tallies: Shards<Tally>,
    in_flight: IntGauge,
    durations: HistogramVec,
    alone: BackendCounters,
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
pub struct CompletedRequest<'a> {
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
            alone: BackendCounters::new(NO_BACKEND.into(), families),
        }
    }

    /// A request came in. [`Requests::ended`] takes it off again.
    pub fn began(&self) {
        let (tally, writer) = self.tallies.own();
        tally.begun.add(1, writer);
    }

    /// It is over.
    pub fn ended(&self, request: CompletedRequest<'_>) {
        let (tally, writer) = self.tallies.own();
        tally.ended.add(1, writer);
        let took = request.took.as_secs_f64();
        lock(&tally.durations).add(request.operation, took, &self.durations, &[]);
        let share = request
            .backend
            .map_or(&self.alone, |backend| &backend.share);
        let bytes = (request.request_bytes, request.response_bytes);
        share.count(request.operation, request.status, bytes);
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
