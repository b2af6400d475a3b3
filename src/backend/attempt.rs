//! One try at one address: over a pooled connection, or a new one; where HTTP/2 is spoken, as a stream of one.

use http::{Request, Response, StatusCode};
use tokio::time::{Instant, timeout_at};

use super::added::Added;
use super::connection::{self, Broken, Came, Connection, Home};
use super::headers;
use super::multiplexed::{self, Inflow};
use super::pool::Pool;
use super::spare::Spare;
use crate::body::{Body, Kept};
use crate::error::BoxError;

/// How a try ended.
pub(super) enum Outcome {
    /// With headers.
    Answered(Response<Answer>),
    /// The catalog has not acted; the request is where it was.
    Unsent(BoxError),
    /// The catalog has not acted, but some of the request is gone.
    Refused(BoxError),
    /// Some of it may have been.
    Lost {
        /// What the connection said.
        cause: BoxError,
        /// The connection was used before: the catalog may have closed it at that very moment.
        pooled: bool,
    },
    /// No answer in time; `sent`: the catalog may have the request.
    TimedOut {
        /// There was a connection to send it over.
        sent: bool,
    },
}

/// What the body of an answer comes over.
pub(super) enum Answer {
    /// A connection.
    Alone(Came, Box<Connection>),
    /// A stream of an HTTP/2 connection.
    Stream(Box<Inflow>),
}

impl Answer {
    /// The body, which keeps `home` until it ends. It is `now`.
    pub(super) fn into_body<H: Home>(self, home: H, now: Instant) -> Body {
        match self {
            Self::Alone(body, connection) => connection::body(body, connection, home, now),
            Self::Stream(body) => Body::stream(Kept::new(*body, home)),
        }
    }
}

/// How a try is made.
#[derive(Clone, Copy)]
pub(super) struct Terms<'a> {
    /// Headers that go with the request.
    pub(super) added: Added<'a>,
    /// When it begins.
    pub(super) now: Instant,
    /// So long it waits for the answer's headers.
    pub(super) deadline: Instant,
    /// The request may be sent again afterwards, if its body is in memory. Otherwise nothing that matters is left of
    /// it, unless nothing of it was written.
    pub(super) keeps: bool,
    /// Not over a pooled connection.
    pub(super) anew: bool,
}

/// Sends `request` and waits for the answer's headers.
///
/// An idle connection may be closed by the catalog at the very moment it is used. If nothing was written, the
/// request comes back and goes over the next one.
pub(super) async fn attempt(pool: &Pool, request: &mut Request<Body>, terms: Terms<'_>) -> Outcome {
    let Some(lines) = pool.multiplexed() else {
        return in_http1(pool, request, terms).await;
    };
    headers::set_length(request);
    terms.added.insert_into(request.headers_mut());
    let spare = terms.keeps.then(|| Spare::of(request)).flatten();
    // Boxed since it would make the future of every request large.
    let outcome = Box::pin(multiplexed::attempt(pool, lines, request, terms)).await;
    if let Some(spare) = spare {
        spare.restore(request);
    }
    outcome
}

/// The same over a connection of its own.
pub(super) async fn in_http1(
    pool: &Pool,
    request: &mut Request<Body>,
    terms: Terms<'_>,
) -> Outcome {
    let Terms {
        added,
        now,
        deadline,
        keeps,
        anew,
    } = terms;
    while !anew && let Some(mut connection) = pool.take_idle(now) {
        match connection.exchange(request, added, keeps, deadline).await {
            Ok(response) => return answered(response, connection, true),
            Err(Broken::Unsent(_)) => {}
            Err(Broken::Lost(cause)) => {
                return Outcome::Lost {
                    cause,
                    pooled: true,
                };
            }
            Err(Broken::Late) => return Outcome::TimedOut { sent: true },
        }
    }
    // Boxed since it is rare and large: it would make the future of every request large.
    Box::pin(attempt_anew(pool, request, terms)).await
}

async fn attempt_anew(pool: &Pool, request: &mut Request<Body>, terms: Terms<'_>) -> Outcome {
    let Terms {
        added,
        deadline,
        keeps,
        ..
    } = terms;
    let mut connection = match timeout_at(deadline, pool.connect()).await {
        Ok(Ok(connection)) => connection,
        Ok(Err(cause)) => return Outcome::Unsent(cause),
        Err(_) => return Outcome::TimedOut { sent: false },
    };
    match connection.exchange(request, added, keeps, deadline).await {
        Ok(response) => answered(response, connection, false),
        Err(Broken::Unsent(cause)) => Outcome::Unsent(cause),
        Err(Broken::Lost(cause)) => Outcome::Lost {
            cause,
            pooled: false,
        },
        Err(Broken::Late) => Outcome::TimedOut { sent: true },
    }
}

/// Nobody asked for another protocol, so a catalog that changes to one has not answered (RFC 9110, section 7.8).
fn answered(response: Response<Came>, connection: Box<Connection>, pooled: bool) -> Outcome {
    match response.status() {
        StatusCode::SWITCHING_PROTOCOLS => Outcome::Lost {
            cause: "it changed to another protocol".into(),
            pooled,
        },
        _ => Outcome::Answered(response.map(|body| Answer::Alone(body, connection))),
    }
}
