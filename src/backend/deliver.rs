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

use super::added::Added;
use super::asking::Asked;
use super::attempt::{Answer, Outcome, Terms, attempt};
use super::connection::Came;
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
    /// The next try is one more of what was sent already.
    again: bool,
    /// Pooled connections are not to be trusted any more.
    anew: bool,
    /// The wait before the next try.
    wait: Option<Duration>,
    /// What becomes of it if no try does better. Boxed since it is rare.
    so_far: Option<Box<Result<Response<Body>, Failure>>>,
}

/// Whether it is over, or is sent once more.
type Next = ControlFlow<Result<Response<Body>, Failure>>;

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
    pub(super) fn asked(&self, extensions: &Extensions) -> Option<Box<Asked>> {
        Asked::of(extensions, self.metrics.name()).map(Box::new)
    }

    /// Tries until there is an answer worth passing on, or nothing more to try. It is `now`, and later when it is over.
    /// Nothing that matters is left of the request.
    pub(super) async fn deliver(
        &self,
        now: &mut Instant,
        deadline: Instant,
        request: &mut Request<Body>,
        manner: Manner,
        added: Added<'_>,
        asked: Option<Box<Asked>>,
    ) -> Result<Response<Body>, Failure> {
        let mut path = None;
        let mut course = Course::new(self, request, manner);
        loop {
            let (index, pass) = match self.endpoints.choose(course.wish(manner)) {
                Ok(chosen) => chosen,
                Err(withheld) => return course.end(Failure::NotSent(withheld.into())),
            };
            let flight = Flight::begin(self.endpoints.get(index), pass, manner.quick);
            let pool = &flight.endpoint.pool;
            if let Err(error) = pool.address(request, &mut path) {
                return Err(Failure::NotSent(error.into()));
            }
            if std::mem::take(&mut course.again) {
                self.metrics.retried();
            }
            let keeps = course.keeps();
            let terms = Terms {
                added: added.at(&pool.host),
                now: *now,
                deadline,
                keeps,
                anew: course.anew,
            };
            let one = asked.as_ref();
            let one = one.map(|asked| asked.begin(request, &pool.host, course.tries));
            let outcome = attempt(pool, request, terms).await;
            *now = Instant::now();
            if let Some(mut one) = one {
                one.end(&outcome);
            }
            course.tried |= 1 << index;
            course.tries += 1;
            let next = match outcome {
                Outcome::Answered(response) => {
                    course.answered(index, flight, keeps, response, *now)
                }
                Outcome::Unsent(cause) => course.unsent(flight, cause),
                Outcome::Refused(cause) => ControlFlow::Break(course.end(Failure::NotSent(cause))),
                Outcome::Lost { cause, pooled } => course.lost(flight, keeps, cause, pooled),
                Outcome::TimedOut { sent } => ControlFlow::Break(course.timed_out(flight, sent)),
            };
            if let ControlFlow::Break(outcome) = next {
                return outcome;
            }
            if let Some(wait) = course.wait.take() {
                if *now + wait >= deadline {
                    return course.last();
                }
                Box::pin(sleep(wait)).await;
                *now = Instant::now();
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
            again: false,
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

    /// Whether the request may be needed once more.
    fn keeps(&self) -> bool {
        self.repeatable && (self.tries == 0 || self.has_tries())
    }

    fn answered(
        &mut self,
        index: usize,
        mut flight: Flight,
        keeps: bool,
        response: Response<Answer>,
        now: Instant,
    ) -> Next {
        let verdict = retry::judge(response.status());
        flight.answered(verdict);
        let endpoints = &self.delivery.endpoints;
        if verdict == Verdict::Well {
            endpoints.convict(self.doubted & !(1 << index));
        }
        let response = received(response, flight, now);
        // 500 may be the catalog's word for a request that it cannot do: asking the same address again tells nothing.
        let may_better = verdict != Verdict::Well
            && !response.headers().contains_key(RETRY_AFTER)
            && (response.status() != StatusCode::INTERNAL_SERVER_ERROR
                || endpoints.has_other(self.tried));
        if keeps && may_better && self.pays() {
            self.doubted |= u64::from(verdict == Verdict::Doubtful) << index;
            return self.again(Ok(response));
        }
        ControlFlow::Break(Ok(response))
    }

    fn unsent(&mut self, mut flight: Flight, cause: BoxError) -> Next {
        flight.failed();
        let failure = Failure::NotSent(cause);
        if self.delivery.endpoints.has_untried(self.tried) {
            self.remember(Err(failure));
            return ControlFlow::Continue(());
        }
        if self.repeatable && self.pays() {
            return self.again(Err(failure));
        }
        ControlFlow::Break(self.end(failure))
    }

    fn lost(&mut self, mut flight: Flight, keeps: bool, cause: BoxError, pooled: bool) -> Next {
        if self.whole {
            flight.failed();
        }
        let failure = match pooled {
            true => Failure::Lost(cause),
            false => Failure::after_sending(cause),
        };
        let free = pooled && self.tries == 1;
        if !(keeps && (free || self.pays())) {
            return ControlFlow::Break(self.end(failure));
        }
        self.anew |= pooled;
        let next = self.again(Err(failure));
        if free {
            self.wait = None;
        }
        next
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
    fn again(&mut self, so_far: Result<Response<Body>, Failure>) -> Next {
        self.remember(so_far);
        if !self.delivery.endpoints.has_other(self.tried) {
            self.tried = 0;
            self.wait = Some(retry::wait(self.tries));
        }
        self.again = true;
        ControlFlow::Continue(())
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
        let keeps = match (self.so_far.as_deref(), &outcome) {
            (Some(Ok(_)), Err(_)) => true,
            (Some(Err(before)), Err(now)) => before.may_have_acted() && !now.may_have_acted(),
            _ => false,
        };
        if !keeps {
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

fn received(mut response: Response<Answer>, flight: Flight, now: Instant) -> Response<Body> {
    // Where it was all there, they were never kept.
    if !matches!(response.body(), Answer::Alone(Came::Whole(_), _)) {
        headers::strip(response.headers_mut(), None);
    }
    response.map(|answer| answer.into_body(flight, now))
}
