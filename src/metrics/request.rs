//! What is counted for every request.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use http::StatusCode;
use prometheus::{Histogram, HistogramVec, IntCounter, IntCounterVec, IntGauge};

use super::backend::Backend;
use super::families::Families;
use crate::protocol::operation::Operation;

/// The listed operations, the unlisted ones, and requests that are no operation.
pub(super) const OPERATIONS: usize = Operation::LISTED.len() + 2;
/// The statuses that are not looked up by their text.
const USUAL: [u16; 20] = [
    200, 201, 202, 204, 400, 401, 403, 404, 405, 406, 409, 413, 422, 429, 500, 501, 502, 503, 504,
    431,
];
/// The label of an answer that no catalog had a part in.
const NO_BACKEND: &str = "none";
const NO_OPERATION: &str = "unrecognized";

/// The counters of requests.
pub struct Requests {
    in_flight: IntGauge,
    durations: [OnceLock<Histogram>; OPERATIONS],
    duration_family: HistogramVec,
    alone: Share,
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
            in_flight: families.in_flight.clone(),
            durations: [const { OnceLock::new() }; OPERATIONS],
            duration_family: families.request_duration.clone(),
            alone: Share::new(NO_BACKEND.into(), families),
        }
    }

    /// A request came in. [`Requests::ended`] takes it off again.
    pub fn began(&self) {
        self.in_flight.inc();
    }

    /// It is over.
    pub fn ended(&self, request: Counted<'_>) {
        self.in_flight.dec();
        let number = number(request.operation);
        let duration = self.durations[number].get_or_init(|| {
            self.duration_family
                .with_label_values(&[name(request.operation)])
        });
        duration.observe(request.took.as_secs_f64());
        let share = request
            .backend
            .map_or(&self.alone, |backend| &backend.share);
        // 499 is what proxies write where the client left before there was an answer.
        let status = request.status.map_or(499, |status| status.as_u16());
        share.count(request.operation, status);
        share.request_bytes.inc_by(request.request_bytes);
        share.response_bytes.inc_by(request.response_bytes);
    }
}

/// One backend's share of the requests. `nsgate_requests_total` is resolved when first needed.
pub(super) struct Share {
    backend: Arc<str>,
    family: IntCounterVec,
    usual: Vec<[OnceLock<IntCounter>; USUAL.len()]>,
    request_bytes: IntCounter,
    response_bytes: IntCounter,
}

impl Share {
    pub(super) fn new(backend: Arc<str>, families: &Families) -> Self {
        let unresolved = || [const { OnceLock::new() }; USUAL.len()];
        Self {
            request_bytes: families.request_bytes.with_label_values(&[&backend]),
            response_bytes: families.response_bytes.with_label_values(&[&backend]),
            backend,
            family: families.requests.clone(),
            usual: std::iter::repeat_with(unresolved)
                .take(OPERATIONS)
                .collect(),
        }
    }

    fn count(&self, operation: Option<Operation>, status: u16) {
        let resolve = || {
            let code = status.to_string();
            self.family
                .with_label_values(&[name(operation), &*self.backend, &code])
        };
        match USUAL.iter().position(|&usual| usual == status) {
            Some(place) => self.usual[number(operation)][place]
                .get_or_init(resolve)
                .inc(),
            None => resolve().inc(),
        }
    }
}

fn number(operation: Option<Operation>) -> usize {
    operation.map_or(OPERATIONS - 1, Operation::number)
}

fn name(operation: Option<Operation>) -> &'static str {
    operation.map_or(NO_OPERATION, Operation::name)
}
