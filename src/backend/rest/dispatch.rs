//! Getting one request to a catalog and its answer's headers back: which address, over which connection, how often.
//!
//! What may be sent again is decided here and nowhere else:
//!
//! - Of which nothing was written goes to the next address, whatever it is.
//! - A read whose body is at hand goes on after a reset, or an answer that another address may better: `attempts` in
//!   all, each further one paid from the budget. (One is free: over a pooled connection that the catalog may have
//!   closed at that very moment.) An answer with `retry-after` is passed on: the catalog said when to come again.
//! - A write is never sent twice, nor is a body that streams, nor anything whose answer has begun to reach the caller.
//!
//! All tries together have the time of one.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use http::header::RETRY_AFTER;
use http::{Extensions, Request, Response, StatusCode};
use tokio::time::{Instant, sleep};

use super::attempt::{AnswerSource, AttemptOutcome, AttemptTerms, attempt};
use super::headers;
use crate::backend::Failure;
use crate::backend::endpoints::endpoint::InFlightRequest;
use crate::backend::endpoints::retry;
use crate::backend::endpoints::retry::{AnswerVerdict, RetryBudget};
use crate::backend::endpoints::{Endpoints, Selection};
use crate::backend::rest::injected::InjectedHeaders;
use crate::backend::rest::spans::AttemptSpans;
use crate::backend::transport::coarse_clock;
use crate::backend::transport::connection::ReceivedBody;
use crate::body::Body;
use crate::config;
use crate::error::BoxError;
use crate::metrics;

/// The addresses of a catalog and how often they may be asked.
pub(in crate::backend) struct Dispatcher {
    pub(in crate::backend) endpoints: Endpoints,
    attempts: u32,
    budget: RetryBudget,
    metrics: Arc<metrics::Backend>,
}

/// What a request is, as far as its delivery goes.
#[derive(Clone, Copy, Debug)]
pub(in crate::backend) struct RequestClass {
    /// It changes nothing.
    pub(in crate::backend) read: bool,
    /// The time it takes does not grow with the data.
    pub(in crate::backend) quick: bool,
    /// It is the gateway's own.
    pub(in crate::backend) own: bool,
}

/// One request on its way.
struct Attempts<'a> {
    dispatcher: &'a Dispatcher,
    /// Reads whose body is at hand may be sent again.
    repeatable: bool,
    /// The body does not come from the client as it goes, who might be to blame.
    whole: bool,
    /// The addresses it was at, a bit each.
    tried: u64,
    /// Those among them whose answer another one may better.
    doubted: u64,
    tries: u32,
    /// The next try is one more of what was sent already.
    again: bool,
    /// Pooled connections are not to be trusted any more.
    fresh_connection: bool,
    /// The wait before the next try.
    wait: Option<Duration>,
    /// What becomes of it if no try does better. Boxed since it is rare.
    so_far: Option<Box<Result<Response<Body>, Failure>>>,
}

/// Whether it is over, or is sent once more.
type AttemptResult = ControlFlow<Result<Response<Body>, Failure>>;

impl Dispatcher {
    pub(in crate::backend) fn new(
        endpoints: Endpoints,
        config: &config::Retry,
        metrics: Arc<metrics::Backend>,
    ) -> Self {
        Self {
            endpoints,
            attempts: config.attempts,
            budget: RetryBudget::new(config, coarse_clock::now()),
            metrics,
        }
    }

    /// Who records the tries of a request with these extensions.
    pub(in crate::backend) fn asked(&self, extensions: &Extensions) -> Option<Box<AttemptSpans>> {
        AttemptSpans::of(extensions, self.metrics.name()).map(Box::new)
    }

    /// Tries until there is an answer worth passing on, or nothing more to try. It is `now`, and later when it is over.
    /// Nothing that matters is left of the request.
    pub(in crate::backend) async fn deliver(
        &self,
        now: &mut Instant,
        deadline: Instant,
        request: &mut Request<Body>,
        class: RequestClass,
        added: InjectedHeaders<'_>,
        asked: Option<Box<AttemptSpans>>,
    ) -> Result<Response<Body>, Failure> {
        let mut path = None;
        let mut attempts = Attempts::new(self, request, class);
        loop {
            let (index, pass) = match self.endpoints.choose(attempts.wish(class)) {
                Ok(chosen) => chosen,
                Err(withheld) => return attempts.end(Failure::NotSent(withheld.into())),
            };
            let flight = InFlightRequest::begin(self.endpoints.get(index), pass, class.quick);
            let pool = &flight.endpoint.pool;
            if let Err(error) = pool.address(request, &mut path) {
                return Err(Failure::NotSent(error.into()));
            }
            if std::mem::take(&mut attempts.again) {
                self.metrics.retried();
            }
            let retains_request = attempts.retains_request();
            let terms = AttemptTerms {
                added: added.at(&pool.host),
                now: *now,
                deadline,
                retains_request,
                fresh_connection: attempts.fresh_connection,
            };
            let one = asked.as_ref();
            let one = one.map(|asked| asked.begin(request, &pool.host, attempts.tries));
            let outcome = attempt(pool, request, terms).await;
            *now = Instant::now();
            if let Some(mut one) = one {
                one.end(&outcome);
            }
            attempts.tried |= 1 << index;
            attempts.tries += 1;
            let next = match outcome {
                AttemptOutcome::Answered(response) => {
                    attempts.answered(index, flight, retains_request, response, *now)
                }
                AttemptOutcome::Unsent(cause) => attempts.unsent(flight, cause),
                AttemptOutcome::Refused(cause) => {
                    ControlFlow::Break(attempts.end(Failure::NotSent(cause)))
                }
                AttemptOutcome::Lost { cause, pooled } => {
                    attempts.lost(flight, retains_request, cause, pooled)
                }
                AttemptOutcome::TimedOut { sent } => {
                    ControlFlow::Break(attempts.timed_out(flight, sent))
                }
            };
            if let ControlFlow::Break(outcome) = next {
                return outcome;
            }
            if let Some(wait) = attempts.wait.take() {
                if *now + wait >= deadline {
                    return attempts.last();
                }
                Box::pin(sleep(wait)).await;
                *now = Instant::now();
            }
        }
    }
}

impl<'a> Attempts<'a> {
    fn new(dispatcher: &'a Dispatcher, request: &Request<Body>, class: RequestClass) -> Self {
        let whole = request.body().is_whole();
        Self {
            dispatcher,
            repeatable: class.read && whole,
            whole,
            tried: 0,
            doubted: 0,
            tries: 0,
            again: false,
            fresh_connection: false,
            wait: None,
            so_far: None,
        }
    }

    fn wish(&self, class: RequestClass) -> Selection {
        Selection {
            tried: self.tried,
            repeatable: self.repeatable,
            own: class.own,
        }
    }

    /// Whether the request may be needed once more.
    fn retains_request(&self) -> bool {
        self.repeatable && (self.tries == 0 || self.has_tries())
    }

    fn answered(
        &mut self,
        index: usize,
        mut flight: InFlightRequest,
        retains_request: bool,
        response: Response<AnswerSource>,
        now: Instant,
    ) -> AttemptResult {
        let verdict = retry::judge(response.status());
        flight.answered(verdict);
        let endpoints = &self.dispatcher.endpoints;
        if verdict == AnswerVerdict::Well {
            endpoints.record_verdict(self.doubted & !(1 << index));
        }
        let response = received(response, flight, now);
        // 500 may be the catalog's word for a request that it cannot do: asking the same address again tells nothing.
        let may_better = verdict != AnswerVerdict::Well
            && !response.headers().contains_key(RETRY_AFTER)
            && (response.status() != StatusCode::INTERNAL_SERVER_ERROR
                || endpoints.has_other(self.tried));
        if retains_request && may_better && self.withdraw_retry() {
            self.doubted |= u64::from(verdict == AnswerVerdict::Doubtful) << index;
            return self.again(Ok(response));
        }
        ControlFlow::Break(Ok(response))
    }

    fn unsent(&mut self, mut flight: InFlightRequest, cause: BoxError) -> AttemptResult {
        flight.failed();
        let failure = Failure::NotSent(cause);
        if self.dispatcher.endpoints.has_untried(self.tried) {
            self.remember(Err(failure));
            return ControlFlow::Continue(());
        }
        if self.repeatable && self.withdraw_retry() {
            return self.again(Err(failure));
        }
        ControlFlow::Break(self.end(failure))
    }

    fn lost(
        &mut self,
        mut flight: InFlightRequest,
        retains_request: bool,
        cause: BoxError,
        pooled: bool,
    ) -> AttemptResult {
        if self.whole {
            flight.failed();
        }
        let failure = if pooled {
            Failure::Lost(cause)
        } else {
            Failure::after_sending(cause)
        };
        let free = pooled && self.tries == 1;
        if !(retains_request && (free || self.withdraw_retry())) {
            return ControlFlow::Break(self.end(failure));
        }
        self.fresh_connection |= pooled;
        let next = self.again(Err(failure));
        if free {
            self.wait = None;
        }
        next
    }

    fn timed_out(
        &mut self,
        mut flight: InFlightRequest,
        sent: bool,
    ) -> Result<Response<Body>, Failure> {
        if self.whole || !sent {
            flight.failed();
        }
        self.end(if sent {
            Failure::TimedOut
        } else {
            Failure::NotSent("no connection in time".into())
        })
    }

    /// Another address if one serves, else the same ones after a moment.
    fn again(&mut self, so_far: Result<Response<Body>, Failure>) -> AttemptResult {
        self.remember(so_far);
        if !self.dispatcher.endpoints.has_other(self.tried) {
            self.tried = 0;
            self.wait = Some(retry::wait(self.tries));
        }
        self.again = true;
        ControlFlow::Continue(())
    }

    fn has_tries(&self) -> bool {
        self.tries + 1 < self.dispatcher.attempts
    }

    /// Whether there is one more try, and the budget has it.
    fn withdraw_retry(&self) -> bool {
        let Dispatcher {
            attempts,
            budget,
            endpoints,
            ..
        } = self.dispatcher;
        self.tries < *attempts && budget.take(endpoints.answers(), coarse_clock::now())
    }

    /// An answer is better than none, and what may have been sent was not unsent by a later try.
    fn remember(&mut self, outcome: Result<Response<Body>, Failure>) {
        let retains_request = match (self.so_far.as_deref(), &outcome) {
            (Some(Ok(_)), Err(_)) => true,
            (Some(Err(before)), Err(now)) => before.may_have_acted() && !now.may_have_acted(),
            _ => false,
        };
        if !retains_request {
            self.so_far = Some(Box::new(outcome));
        }
    }

    /// What the caller gets when `failure` is the last of it.
    fn end(&mut self, failure: Failure) -> Result<Response<Body>, Failure> {
        self.remember(Err(failure));
        self.last()
    }

    fn last(&mut self) -> Result<Response<Body>, Failure> {
        self.so_far
            .take()
            .map_or(Err(Failure::TimedOut), |so_far| *so_far)
    }
}

fn received(
    mut response: Response<AnswerSource>,
    flight: InFlightRequest,
    now: Instant,
) -> Response<Body> {
    // Where it was all there, they were never kept.
    if !matches!(
        response.body(),
        AnswerSource::Alone(ReceivedBody::Whole(_), _)
    ) {
        headers::strip(response.headers_mut(), None);
    }
    response.map(|answer| answer.into_body(flight, now))
}
