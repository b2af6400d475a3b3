//! One address of a catalog: its connections, its load, and whether it serves.

use std::fmt::Display;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use http::{StatusCode, Uri};
use rustls::ClientConfig;
use tokio::time::Instant;

use super::balance::Load;
use super::breaker::{Breaker, BreakerPass, FailureEffect, State};
use super::failure_row::FailureSource;
use super::health::Health;
use super::verdict::{AnswerVerdict, judge};
use crate::backend::Failure;
use crate::backend::transport::coarse_clock;
use crate::backend::transport::coarse_clock::Moment;
use crate::backend::transport::connection::{Connection, PoolHandle};
use crate::backend::transport::pool::Pool;
use crate::config::RestConfig;
use crate::error::BoxError;
use crate::metrics;
use crate::request::context::RequestContext;

/// One address of a catalog.
pub(in crate::backend) struct Endpoint {
    pub(in crate::backend) pool: Pool,
    pub(in crate::backend) load: Load,
    pub(in crate::backend) breaker: Breaker,
    pub(in crate::backend) health: Health,
    /// The address for operators, without user information.
    address: String,
    /// True if there is no other address, so that nothing is measured.
    alone: bool,
    serves: Mutex<bool>,
    /// The last failure of a request or health check, in words for an operator.
    last_failure: Mutex<String>,
    board: Arc<EndpointHealth>,
}

/// The combined health of all addresses of one catalog.
pub(in crate::backend) struct EndpointHealth {
    serving: AtomicUsize,
    /// The requests that were refused since a breaker opened.
    refused: AtomicU64,
    metrics: Arc<metrics::Backend>,
}

/// The state of an address, for operators.
#[derive(Clone, Debug)]
pub struct EndpointStatus {
    /// The address without user information. Never shown to a client.
    pub address: String,
    /// True if it answered its last health check.
    pub up: bool,
    /// The reason why it did not; `None` if it did.
    pub error: Option<String>,
    /// `closed`, `open` or `half-open`.
    pub breaker: &'static str,
    /// The last failure, which opened the breaker; `None` while it is closed.
    pub failure: Option<String>,
    /// The number of requests whose answer has not ended.
    pub in_flight: u32,
}

impl EndpointHealth {
    /// Returns the health of a catalog without known failures.
    pub(in crate::backend) fn new(metrics: &Arc<metrics::Backend>) -> Arc<Self> {
        Arc::new(Self {
            serving: AtomicUsize::new(0),
            refused: AtomicU64::new(0),
            metrics: Arc::clone(metrics),
        })
    }

    /// Counts a request that was refused because the breaker of every address is open.
    pub(in crate::backend) fn refuse(&self) {
        self.refused.fetch_add(1, Ordering::Relaxed);
        self.metrics.breaker_refused();
    }

    /// Counts a request that was let through although the breaker of every address is open.
    pub(in crate::backend) fn let_through(&self) {
        self.metrics.breaker_let_through();
    }

    fn name(&self) -> &Arc<str> {
        self.metrics.name()
    }

    /// Returns the number of addresses that serve.
    pub(in crate::backend) fn serving(&self) -> usize {
        self.serving.load(Ordering::Relaxed)
    }

    /// True if at least one address serves.
    pub(in crate::backend) fn is_up(&self) -> bool {
        self.serving() > 0
    }
}

impl Endpoint {
    /// Builds the address `uri`. Contacts no server.
    pub(in crate::backend) fn new(
        uri: &Uri,
        tls: Option<&Arc<ClientConfig>>,
        config: &RestConfig,
        board: &Arc<EndpointHealth>,
    ) -> Result<Self, BoxError> {
        let pool = Pool::new(uri, tls, &config.pool, config.http2)?;
        board.serving.fetch_add(1, Ordering::Relaxed);
        Ok(Self {
            address: format!(
                "{}://{}{}",
                uri.scheme_str().unwrap_or("http"),
                pool.host.to_str().unwrap_or_default(),
                uri.path().trim_end_matches('/')
            ),
            pool,
            load: Load::default(),
            breaker: Breaker::new(&config.breaker),
            health: Health::default(),
            alone: config.endpoints.is_empty(),
            serves: Mutex::new(true),
            last_failure: Mutex::default(),
            board: Arc::clone(board),
        })
    }

    /// Returns the state.
    pub(in crate::backend) fn standing(&self) -> EndpointStatus {
        let breaker = match self.breaker.state(coarse_clock::now()) {
            State::Closed => "closed",
            State::Open(_) => "open",
            State::Due => "half-open",
        };
        let failure = || Some(self.last_failure()).filter(|why| !why.is_empty());
        EndpointStatus {
            address: self.address.clone(),
            up: self.health.is_up(),
            error: self.health.last_error(),
            failure: if breaker == "closed" { None } else { failure() },
            breaker,
            in_flight: self.load.in_flight(),
        }
    }

    /// Records the outcome of a health check. If the check got no answer while at least as many requests as open
    /// the breaker wait and none is answered, it opens the breaker: the requests would find the same, only later.
    pub(in crate::backend) fn note_health(&self, found: Result<(), String>, silent: bool) {
        if let Err(why) = &found {
            self.failed_with(&format_args!("health check: {why}"));
        }
        if silent
            && self.load.waiting() >= self.breaker.failures()
            && self.breaker.trip(coarse_clock::now())
        {
            self.opened();
        }
        if found.is_err() && self.breaker.found_ill(coarse_clock::now()) {
            self.opened();
        }
        let why = found.as_ref().err().cloned();
        let well = why.is_none() && self.breaker.found_well(coarse_clock::now());
        if self.health.note(found) {
            let (backend, address) = (self.board.name(), &self.address);
            match why {
                Some(why) => {
                    tracing::warn!(%backend, address, cause = why, "an address of a backend failed its health check")
                }
                None => {
                    tracing::info!(%backend, address, "an address of a backend passes its health check again")
                }
            }
        }
        if well {
            self.closed();
        }
        self.tell();
    }

    /// Counts a failure, because another address answered the same request well.
    pub(in crate::backend) fn found_guilty(&self) {
        self.failed_with(&"answered 500 or 503 to a request that another address answered well");
        self.record_failure(BreakerPass::Free, FailureSource::Address);
    }

    fn last_failure(&self) -> String {
        let last = self.last_failure.lock();
        last.unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn failed_with(&self, why: &dyn Display) {
        let mut last = self
            .last_failure
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        *last = why.to_string();
    }

    fn record_failure(&self, pass: BreakerPass, source: FailureSource) {
        // A health check that fails, too, clears the caller and the table.
        let last = self.health.is_up() && !self.has_serving_peer();
        match self.breaker.failed(pass, source, last, coarse_clock::now()) {
            FailureEffect::Counted => {}
            FailureEffect::Spared(is_first) => {
                self.board.metrics.breaker_spared();
                if is_first {
                    let (backend, address) = (self.board.name(), &self.address);
                    tracing::warn!(%backend, address, "requests failed one after the other, all of one caller or for one table: the circuit breaker of the last address stays closed. The access log has their caller and table");
                }
            }
            FailureEffect::Opened => self.opened(),
        }
    }

    /// True if another address of the catalog serves.
    fn has_serving_peer(&self) -> bool {
        if self.alone {
            return false;
        }
        let own = self.serves.lock().unwrap_or_else(PoisonError::into_inner);
        self.board.serving.load(Ordering::Relaxed) > usize::from(*own)
    }

    fn opened(&self) {
        let (backend, address) = (self.board.name(), &self.address);
        let cause = self.last_failure();
        tracing::warn!(%backend, address, cause, "circuit breaker opened: requests to this address failed one after the other. Requests that it refuses are counted until it closes, not logged one by one");
        self.tell();
    }

    fn closed(&self) {
        let (backend, address) = (self.board.name(), &self.address);
        let refused = self.board.refused.swap(0, Ordering::Relaxed);
        tracing::info!(%backend, address, refused, "circuit breaker closed: `refused` requests got 503 while it was open");
        self.tell();
    }

    /// Updates the count of addresses that serve.
    fn tell(&self) {
        let mut serves = self.serves.lock().unwrap_or_else(PoisonError::into_inner);
        let now = self.health.is_up() && self.breaker.is_closed();
        if now != *serves {
            *serves = now;
            if now {
                self.board.serving.fetch_add(1, Ordering::Relaxed)
            } else {
                self.board.serving.fetch_sub(1, Ordering::Relaxed)
            };
        }
    }
}

/// One request at an address, from the choice of the address to the end of the answer.
pub(in crate::backend) struct InFlightRequest {
    pub(in crate::backend) endpoint: Arc<Endpoint>,
    pass: BreakerPass,
    /// The time when it began; 0 if nothing is measured.
    began: Moment,
    waiting: bool,
    /// True for a small request, whose time says something about the address.
    quick: bool,
}

impl InFlightRequest {
    /// Begins a request.
    pub(in crate::backend) fn begin(
        endpoint: &Arc<Endpoint>,
        pass: BreakerPass,
        quick: bool,
    ) -> Self {
        let began = if endpoint.alone {
            0
        } else {
            coarse_clock::now()
        };
        match began {
            0 => endpoint.load.begin(),
            now => endpoint.load.begin_at(now),
        }
        Self {
            endpoint: Arc::clone(endpoint),
            pass,
            began,
            waiting: true,
            quick,
        }
    }

    /// Records that the answer's headers arrived.
    pub(in crate::backend) fn answered(
        &mut self,
        status: StatusCode,
        context: &RequestContext,
    ) -> AnswerVerdict {
        let verdict = judge(status);
        self.stop_waiting();
        let endpoint = &*self.endpoint;
        endpoint.load.answered();
        if self.began != 0 {
            let now = coarse_clock::now();
            endpoint.load.hear(now);
            match verdict {
                AnswerVerdict::Well if self.quick => {
                    let took = Duration::from_micros(now - self.began);
                    endpoint.load.took(took, now);
                }
                AnswerVerdict::Well => {}
                AnswerVerdict::Doubtful | AnswerVerdict::Broken => endpoint.load.failed(now),
            }
        }
        match verdict {
            // Without another address, it is not known whose fault it is, so an answer counts as a success.
            AnswerVerdict::Doubtful if !endpoint.alone => {
                if self.pass == BreakerPass::Share {
                    endpoint.breaker.abandoned(self.pass, 0);
                }
            }
            AnswerVerdict::Broken => {
                endpoint.failed_with(&format_args!("answered {status}"));
                endpoint.record_failure(self.pass, FailureSource::sent(context));
            }
            AnswerVerdict::Well | AnswerVerdict::Doubtful => {
                if endpoint.breaker.succeeded(self.pass) {
                    endpoint.load.reset();
                    endpoint.closed();
                }
            }
        }
        verdict
    }

    /// Records that there was no answer, and why.
    pub(in crate::backend) fn failed(&mut self, source: FailureSource, why: &Failure) {
        self.stop_waiting();
        if self.began != 0 {
            self.endpoint.load.failed(coarse_clock::now());
        }
        self.endpoint.failed_with(why);
        self.endpoint.record_failure(self.pass, source);
    }

    fn stop_waiting(&mut self) {
        if std::mem::take(&mut self.waiting) {
            self.endpoint.load.stop_waiting();
        }
    }
}

impl Drop for InFlightRequest {
    fn drop(&mut self) {
        if self.waiting {
            self.stop_waiting();
            self.endpoint
                .breaker
                .abandoned(self.pass, coarse_clock::now());
        }
        self.endpoint.load.end();
    }
}

impl PoolHandle for InFlightRequest {
    fn give_back(&self, connection: Box<Connection>, now: Instant) {
        self.endpoint.give_back(connection, now);
    }
}

impl PoolHandle for Arc<Endpoint> {
    fn give_back(&self, connection: Box<Connection>, now: Instant) {
        self.pool.give_back(connection, now);
    }
}
