//! Sends one request to a catalog until its answer's headers arrive: to which address, over which connection, how
//! often.
//!
//! Decides what may be sent again, as below. Two other places send again: `transport/http2.rs`, if the catalog says that it
//! has not looked at the request (any request, three times in all), and `rest/unauthorized.rs`, with a new token after a 401
//! (reads, once).
//!
//! - A request of which nothing was written goes to the next address, whatever the request is.
//! - A read whose body is in memory is retried after a reset, or after an answer that another address may better:
//!   `attempts` in all, and each retry is paid from the budget. (One is free: over a pooled connection that the catalog
//!   may have closed at that very moment.) An answer with `retry-after` is passed on, because the catalog said when to
//!   retry.
//! - A write of which anything was written is never sent twice, nor is a body that streams, nor a request whose answer has
//!   begun to reach the caller.
//!
//! All attempts together have the time limit of one.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use http::{Extensions, Request, Response};
use tokio::time::{Instant, sleep};

use super::attempt::{AnswerSource, AttemptOutcome, AttemptTerms, attempt};
use super::headers;
use crate::backend::Failure;
use crate::backend::endpoints::endpoint::InFlightRequest;
use crate::backend::endpoints::failure_row::FailureSource;
use crate::backend::endpoints::retry_budget;
use crate::backend::endpoints::retry_budget::RetryBudget;
use crate::backend::endpoints::verdict::{AnswerVerdict, is_known, may_better};
use crate::backend::endpoints::{Endpoints, Selection};
use crate::backend::rest::injected::InjectedHeaders;
use crate::backend::rest::spans::AttemptSpans;
use crate::backend::transport::coarse_clock;
use crate::backend::transport::connection::ReceivedBody;
use crate::body::Body;
use crate::config;
use crate::error::BoxError;
use crate::metrics;
use crate::request::context::RequestContext;

/// The addresses of a catalog, and the limits of retries.
pub(in crate::backend) struct Dispatcher {
    pub(in crate::backend) endpoints: Endpoints,
    attempts: u32,
    budget: RetryBudget,
    metrics: Arc<metrics::Backend>,
}

/// The properties of a request that matter for its delivery.
#[derive(Clone, Copy, Debug)]
pub(in crate::backend) struct RequestClass {
    /// True if it changes nothing.
    pub(in crate::backend) read: bool,
    /// True if the time it takes does not grow with the data.
    pub(in crate::backend) quick: bool,
    /// True if it is the gateway's own.
    pub(in crate::backend) own: bool,
}

/// The attempts of one request.
struct Attempts<'a> {
    dispatcher: &'a Dispatcher,
    context: &'a RequestContext,
    /// True if the request may be sent again: a read whose body is in memory.
    repeatable: bool,
    /// True if the body is in memory. A body that streams may fail because of the client.
    whole: bool,
    /// The addresses that the request was sent to, a bit each.
    tried: u64,
    /// The addresses among them whose answer another one may better.
    doubted: u64,
    tries: u32,
    /// True if the next attempt repeats a request that was already sent.
    again: bool,
    /// True if pooled connections are no longer trusted.
    fresh_connection: bool,
    /// The wait before the next attempt; `None` if there is none.
    wait: Option<Duration>,
    /// The outcome if no later attempt does better. Boxed, because it is rare.
    so_far: Option<Box<Result<Response<Body>, Failure>>>,
}

/// The final outcome, or the decision to send the request once more.
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

    /// Returns the recorder of a request's attempts; `None` if its trace is not recorded.
    pub(in crate::backend) fn asked(&self, extensions: &Extensions) -> Option<Box<AttemptSpans>> {
        AttemptSpans::of(extensions, self.metrics.name()).map(Box::new)
    }

    /// Makes attempts until there is an answer worth passing on, or nothing more to try. The request's content must not
    /// be used afterwards.
    pub(in crate::backend) async fn deliver(
        &self,
        deadline: Instant,
        request: &mut Request<Body>,
        class: RequestClass,
        context: &RequestContext,
        added: InjectedHeaders<'_>,
        asked: Option<Box<AttemptSpans>>,
    ) -> Result<Response<Body>, Failure> {
        let mut path = None;
        let mut attempts = Attempts::new(self, request, class, context);
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
                now: Instant::now(),
                deadline,
                retains_request,
                fresh_connection: attempts.fresh_connection,
            };
            let one = asked.as_ref();
            let one = one.map(|asked| asked.begin(request, &pool.host, attempts.tries));
            let outcome = attempt(pool, request, terms).await;
            let now = Instant::now();
            if let Some(mut one) = one {
                one.end(&outcome);
            }
            attempts.tried |= 1 << index;
            attempts.tries += 1;
            let next = match outcome {
                AttemptOutcome::Answered(response) => {
                    attempts.answered(index, flight, retains_request, response, now)
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
                if now + wait >= deadline {
                    return attempts.last();
                }
                Box::pin(sleep(wait)).await;
            }
        }
    }
}

impl<'a> Attempts<'a> {
    fn new(
        dispatcher: &'a Dispatcher,
        request: &Request<Body>,
        class: RequestClass,
        context: &'a RequestContext,
    ) -> Self {
        let whole = request.body().is_whole();
        Self {
            dispatcher,
            context,
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

    /// True if the request may be needed once more.
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
        let status = response.status();
        let verdict = flight.answered(status, self.context);
        let endpoints = &self.dispatcher.endpoints;
        if verdict == AnswerVerdict::Well {
            endpoints.record_verdict(self.doubted & !(1 << index));
        }
        let may_better = may_better(&response, || endpoints.has_other(self.tried));
        let outcome = if is_known(status) {
            Ok(received(response, flight, now))
        } else {
            // Its body is not read, so its connection serves no other request.
            Err(Failure::Strange(status))
        };
        if retains_request && may_better && self.withdraw_retry() {
            self.doubted |= u64::from(verdict == AnswerVerdict::Doubtful) << index;
            return self.again(outcome);
        }
        ControlFlow::Break(match outcome {
            Ok(response) => Ok(response),
            Err(strange) => self.end(strange),
        })
    }

    fn unsent(&mut self, mut flight: InFlightRequest, cause: BoxError) -> AttemptResult {
        let failure = Failure::NotSent(cause);
        flight.failed(FailureSource::Address, &failure);
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
        let failure = if pooled {
            Failure::Lost(cause)
        } else {
            Failure::after_sending(cause)
        };
        if self.whole {
            flight.failed(FailureSource::sent(self.context), &failure);
        }
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
        let failure = if sent {
            Failure::TimedOut
        } else {
            Failure::NotSent("no connection in time".into())
        };
        if !sent {
            flight.failed(FailureSource::Address, &failure);
        } else if self.whole {
            flight.failed(FailureSource::sent(self.context), &failure);
        }
        self.end(failure)
    }

    /// Continues at another address if one serves, else at the same ones after a wait.
    fn again(&mut self, so_far: Result<Response<Body>, Failure>) -> AttemptResult {
        self.remember(so_far);
        if !self.dispatcher.endpoints.has_other(self.tried) {
            self.tried = 0;
            self.wait = Some(retry_budget::wait(self.tries));
        }
        self.again = true;
        ControlFlow::Continue(())
    }

    fn has_tries(&self) -> bool {
        self.tries + 1 < self.dispatcher.attempts
    }

    /// Takes a retry out of the budget. Returns false if no attempt or no budget is left.
    fn withdraw_retry(&self) -> bool {
        let Dispatcher {
            attempts,
            budget,
            endpoints,
            ..
        } = self.dispatcher;
        self.tries < *attempts && budget.take(endpoints.answers(), coarse_clock::now())
    }

    /// Keeps the better outcome. An answer is better than none. A request that may have been sent is not made unsent by
    /// a later attempt.
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

    /// Returns the final outcome if `failure` is the last one.
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
    // An answer that arrived whole has been parsed without these headers.
    if !matches!(
        response.body(),
        AnswerSource::Alone(ReceivedBody::Whole(_), _)
    ) {
        headers::strip(response.headers_mut(), &[], |name| {
            !headers::is_for_clients(name)
        });
    }
    response.map(|answer| answer.into_body(flight, now))
}
