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
use http::uri::PathAndQuery;
use http::{Extensions, Request, Response, StatusCode};
use hyper::body::Incoming;
use tokio::time::{Instant, sleep};

use super::asking::Asked;
use super::attempt::{Outcome, attempt};
use super::connection::{Connection, Streamed};
use super::endpoint::Flight;
use super::endpoints::{Endpoints, Wish};
use super::retry::{self, Budget, Verdict};
use super::{Failure, headers, moment};
use crate::body::Body;
use crate::config;
use crate::error::BoxError;
use crate::metrics;

/// The addresses of a catalog and how often they may be asked.
pub(super) struct Delivery {
    pub(super) endpoints: Endpoints,
    attempts: u32,
    budget: Budget,
    metrics: Arc<metrics::Backend>,
}

/// What a request is, as far as its delivery goes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Manner {
    /// It changes nothing.
    pub(super) read: bool,
    /// The time it takes does not grow with the data.
    pub(super) quick: bool,
    /// It is the gateway's own.
    pub(super) own: bool,
}

/// One request on its way.
struct Course<'a> {
    delivery: &'a Delivery,
    /// Reads whose body is at hand may be sent again.
    repeatable: bool,
    /// The body does not come from the client as it goes, who might be to blame.
    whole: bool,
    /// The addresses it was at, a bit each.
    tried: u64,
    /// Those among them whose answer another one may better.
    doubted: u64,
    tries: u32,
    /// Pooled connections are not to be trusted any more.
    anew: bool,
    /// The wait before the next try.
    wait: Option<Duration>,
    /// What becomes of it if no try does better.
    so_far: Option<Result<Response<Body>, Failure>>,
}

/// Whether it is over, or what is sent next.
type Next = ControlFlow<Result<Response<Body>, Failure>, Request<Body>>;

impl Delivery {
    pub(super) fn new(
        endpoints: Endpoints,
        config: &config::Retry,
        metrics: Arc<metrics::Backend>,
    ) -> Self {
        Self {
            endpoints,
            attempts: config.attempts,
            budget: Budget::new(config, moment::now()),
            metrics,
        }
    }

    /// Who records the tries of a request with these extensions.
    pub(super) fn asked(&self, extensions: &Extensions) -> Option<Asked> {
        Asked::of(extensions, self.metrics.name())
    }

    /// Tries until there is an answer worth passing on, or nothing more to try. `limit` is for all of it.
    pub(super) async fn deliver(
        &self,
        limit: Duration,
        mut request: Request<Body>,
        manner: Manner,
        asked: Option<Asked>,
    ) -> Result<Response<Body>, Failure> {
        let deadline = Instant::now() + limit;
        let path = request.uri().path_and_query().cloned();
        let path = path.unwrap_or(PathAndQuery::from_static("/"));
        let mut course = Course::new(self, &request, manner);
        loop {
            let (index, pass) = match self.endpoints.choose(course.wish(manner)) {
                Ok(chosen) => chosen,
                Err(withheld) => return course.end(Failure::NotSent(withheld.into())),
            };
            let flight = Flight::begin(self.endpoints.get(index), pass, manner.quick);
            let pool = &flight.endpoint.pool;
            if let Err(error) = pool.address(&mut request, &path) {
                return Err(Failure::NotSent(error.into()));
            }
            let spare = course.spare(&request);
            let one = asked.as_ref();
            let one = one.map(|asked| asked.begin(&mut request, course.tries));
            let outcome = attempt(deadline, pool, request, course.anew).await;
            if let Some(mut one) = one {
                one.end(&outcome);
            }
            course.tried |= 1 << index;
            course.tries += 1;
            let next = match outcome {
                Outcome::Answered(response, connection) => {
                    course.answered(index, flight, spare, response, connection)
                }
                Outcome::Unsent(request, cause) => course.unsent(flight, *request, cause),
                Outcome::Lost { cause, pooled } => course.lost(flight, spare, cause, pooled),
                Outcome::TimedOut { sent } => ControlFlow::Break(course.timed_out(flight, sent)),
            };
            request = match next {
                ControlFlow::Continue(request) => request,
                ControlFlow::Break(outcome) => return outcome,
            };
            if let Some(wait) = course.wait.take() {
                if Instant::now() + wait >= deadline {
                    return course.last();
                }
                sleep(wait).await;
            }
        }
    }
}

impl<'a> Course<'a> {
    fn new(delivery: &'a Delivery, request: &Request<Body>, manner: Manner) -> Self {
        let whole = request.body().is_whole();
        Self {
            delivery,
            repeatable: manner.read && whole,
            whole,
            tried: 0,
            doubted: 0,
            tries: 0,
            anew: false,
            wait: None,
            so_far: None,
        }
    }

    fn wish(&self, manner: Manner) -> Wish {
        Wish {
            tried: self.tried,
            repeatable: self.repeatable,
            own: manner.own,
        }
    }

    /// A second request like this one, as long as it may be needed: hyper gives none back once any of it was written.
    fn spare(&self, request: &Request<Body>) -> Option<Request<Body>> {
        let needed = self.repeatable && (self.tries == 0 || self.has_tries());
        needed.then(|| copy(request)).flatten()
    }

    fn answered(
        &mut self,
        index: usize,
        mut flight: Flight,
        spare: Option<Request<Body>>,
        response: Response<Incoming>,
        connection: Box<Connection>,
    ) -> Next {
        let verdict = retry::judge(response.status());
        flight.answered(verdict);
        let endpoints = &self.delivery.endpoints;
        if verdict == Verdict::Well {
            endpoints.convict(self.doubted & !(1 << index));
        }
        let response = received(response, connection, flight);
        // 500 may be the catalog's word for a request that it cannot do: asking the same address again tells nothing.
        let may_better = verdict != Verdict::Well
            && !response.headers().contains_key(RETRY_AFTER)
            && (response.status() != StatusCode::INTERNAL_SERVER_ERROR
                || endpoints.has_other(self.tried));
        match spare {
            Some(spare) if may_better && self.pays() => {
                self.doubted |= u64::from(verdict == Verdict::Doubtful) << index;
                self.again(spare, Ok(response))
            }
            _ => ControlFlow::Break(Ok(response)),
        }
    }

    fn unsent(&mut self, mut flight: Flight, request: Request<Body>, cause: BoxError) -> Next {
        flight.failed();
        let failure = Failure::NotSent(cause);
        if self.delivery.endpoints.has_untried(self.tried) {
            self.remember(Err(failure));
            return ControlFlow::Continue(request);
        }
        if self.repeatable && self.pays() {
            return self.again(request, Err(failure));
        }
        ControlFlow::Break(self.end(failure))
    }

    fn lost(
        &mut self,
        mut flight: Flight,
        spare: Option<Request<Body>>,
        cause: BoxError,
        pooled: bool,
    ) -> Next {
        if self.whole {
            flight.failed();
        }
        let failure = match pooled {
            true => Failure::Lost(cause),
            false => Failure::after_sending(cause),
        };
        let free = pooled && self.tries == 1;
        match spare {
            Some(spare) if free || self.pays() => {
                self.anew |= pooled;
                let next = self.again(spare, Err(failure));
                if free {
                    self.wait = None;
                }
                next
            }
            _ => ControlFlow::Break(self.end(failure)),
        }
    }

    fn timed_out(&mut self, mut flight: Flight, sent: bool) -> Result<Response<Body>, Failure> {
        if self.whole || !sent {
            flight.failed();
        }
        self.end(match sent {
            true => Failure::TimedOut,
            false => Failure::NotSent("no connection in time".into()),
        })
    }

    /// Another address if one serves, else the same ones after a moment.
    fn again(&mut self, request: Request<Body>, so_far: Result<Response<Body>, Failure>) -> Next {
        self.remember(so_far);
        if !self.delivery.endpoints.has_other(self.tried) {
            self.tried = 0;
            self.wait = Some(retry::wait(self.tries));
        }
        self.delivery.metrics.retried();
        ControlFlow::Continue(request)
    }

    fn has_tries(&self) -> bool {
        self.tries + 1 < self.delivery.attempts
    }

    /// Whether there is one more try, and the budget has it.
    fn pays(&self) -> bool {
        let Delivery {
            attempts,
            budget,
            endpoints,
            ..
        } = self.delivery;
        self.tries < *attempts && budget.take(endpoints.answers(), moment::now())
    }

    /// An answer is better than none, and what may have been sent was not unsent by a later try.
    fn remember(&mut self, outcome: Result<Response<Body>, Failure>) {
        let keeps = match (&self.so_far, &outcome) {
            (Some(Ok(_)), Err(_)) => true,
            (Some(Err(before)), Err(now)) => before.may_have_acted() && !now.may_have_acted(),
            _ => false,
        };
        if !keeps {
            self.so_far = Some(outcome);
        }
    }

    /// What the caller gets when `failure` is the last of it.
    fn end(&mut self, failure: Failure) -> Result<Response<Body>, Failure> {
        self.remember(Err(failure));
        self.last()
    }

    fn last(&mut self) -> Result<Response<Body>, Failure> {
        self.so_far.take().unwrap_or(Err(Failure::TimedOut))
    }
}

fn received(
    response: Response<Incoming>,
    connection: Box<Connection>,
    flight: Flight,
) -> Response<Body> {
    let mut response = response.map(|body| Body::stream(Streamed::new(body, connection, flight)));
    headers::strip(response.headers_mut(), "");
    response
}

/// A second request like this one, when its body is in memory.
pub(super) fn copy(request: &Request<Body>) -> Option<Request<Body>> {
    let mut copy = Request::new(request.body().copy()?);
    *copy.method_mut() = request.method().clone();
    *copy.uri_mut() = request.uri().clone();
    *copy.headers_mut() = request.headers().clone();
    Some(copy)
}
