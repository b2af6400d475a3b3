//! Counts requests as they begin and end: in flight, by operation and backend, and how long they took.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Duration;

use http::StatusCode;
use prometheus::local::LocalHistogram;
use prometheus::{Histogram, HistogramVec, IntGauge};

use super::backend::Backend;
use super::callers::{BusiestCallers, SAMPLED};
use super::exemplars::{Buckets, Exemplars};
use super::failures::RecentFailures;
use super::families::Families;
use super::refusals::{Limit, LimitedRequests};
use super::shards::{Count, Shards, lock};
use super::share::BackendCounters;
use super::timings::Timings;
use crate::protocol::operation::Operation;

/// The label for answers to which no catalog contributed.
const NO_BACKEND: &str = "none";

/// The counters of requests.
pub struct Requests {
    tallies: Shards<Tally>,
    in_flight: IntGauge,
    durations: HistogramVec,
    added: Histogram,
    limited: LimitedRequests,
    alone: BackendCounters,
    failures: RecentFailures,
    callers: BusiestCallers,
}

/// The counts of one thread.
#[derive(Default)]
struct Tally {
    /// The requests that began on this thread, whichever thread they ended on.
    begun: Count,
    /// The requests that ended on this thread.
    ended: Count,
    durations: Mutex<Durations>,
}

/// The durations that one thread has noted.
#[derive(Default)]
struct Durations {
    whole: Timings,
    /// The gateway's own part of them; `None` before the first.
    added: Option<LocalHistogram>,
    exemplars: Exemplars,
}

/// One completed request.
#[derive(Clone, Copy)]
pub struct CompletedRequest<'a> {
    /// The operation; `None` if the request was no operation.
    pub operation: Option<Operation>,
    /// The backend that answered; `None` if the gateway answered alone.
    pub backend: Option<&'a Backend>,
    /// The status of the answer; `None` if the client disconnected before there was one.
    pub status: Option<StatusCode>,
    /// The time from the request's headers to the end of the response.
    pub took: Duration,
    /// The part of that time that the gateway itself took; `None` if it cannot be told from the catalog's.
    pub added: Option<Duration>,
    /// The limit that refused it; `None` if none did.
    pub limit: Option<Limit>,
    /// The id of its trace, if it makes a good exemplar.
    pub trace: Option<u128>,
    /// The length of the request's body in bytes, as far as it was read.
    pub request_bytes: u64,
    /// The length of the response's body in bytes, as far as it was sent.
    pub response_bytes: u64,
}

impl Requests {
    pub(super) fn new(families: &Families) -> Self {
        Self {
            tallies: Shards::default(),
            in_flight: families.in_flight.clone(),
            durations: families.request_duration.clone(),
            added: families.added_duration.clone(),
            limited: LimitedRequests::new(&families.limited),
            alone: BackendCounters::new(NO_BACKEND.into(), families),
            failures: RecentFailures::default(),
            callers: BusiestCallers::default(),
        }
    }

    /// The last requests that failed or were refused.
    pub fn failures(&self) -> &RecentFailures {
        &self.failures
    }

    /// The callers that send the most requests.
    pub fn callers(&self) -> &BusiestCallers {
        &self.callers
    }

    /// Counts a request that begins. [`Requests::ended`] counts its end.
    pub fn began(&self) {
        let (tally, writer) = self.tallies.own();
        tally.begun.add(1, writer);
    }

    /// Counts a completed request. Returns true for the few whose caller is to be noted.
    pub fn ended(&self, request: CompletedRequest<'_>) -> bool {
        let (tally, writer) = self.tallies.own();
        tally.ended.add(1, writer);
        let took = request.took.as_secs_f64();
        let mut durations = lock(&tally.durations);
        durations.whole.add(request.operation, took, |operation| {
            self.durations.with_label_values(&[operation])
        });
        if let Some(added) = request.added {
            let histogram = durations.added.get_or_insert_with(|| self.added.local());
            histogram.observe(added.as_secs_f64());
        }
        if let Some(trace) = request.trace {
            durations.exemplars.note(request.operation, took, trace);
        }
        drop(durations);
        if let Some(limit) = request.limit {
            self.limited.count(limit);
        }
        let share = request
            .backend
            .map_or(&self.alone, |backend| &backend.share);
        let bytes = (request.request_bytes, request.response_bytes);
        share.count(request.operation, request.status, bytes);
        tally.ended.all().is_multiple_of(SAMPLED)
    }

    /// Adds up the counts of all threads.
    pub(super) fn gather(&self) {
        let sum = |count: fn(&Tally) -> &Count| {
            let parts = self.tallies.all().map(|tally| count(tally).all());
            parts.sum::<u64>()
        };
        // Reads the ended requests first: otherwise one that ends during the sum could be counted
        // as ended but not as begun.
        let ended = sum(|tally| &tally.ended);
        let begun = sum(|tally| &tally.begun);
        self.in_flight
            .set(i64::try_from(begun.saturating_sub(ended)).unwrap_or(i64::MAX));
        for tally in self.tallies.all() {
            let durations = lock(&tally.durations);
            durations.whole.flush();
            durations.added.iter().for_each(LocalHistogram::flush);
        }
        self.alone.gather();
    }

    /// Returns the exemplars of all threads, by operation.
    pub(super) fn exemplars(&self) -> BTreeMap<&'static str, Buckets> {
        let mut all = BTreeMap::new();
        for tally in self.tallies.all() {
            lock(&tally.durations).exemplars.gather(&mut all);
        }
        all
    }
}
