//! One attempt at one address: over a pooled or a new connection, or as one stream if HTTP/2 is used.

use http::{Request, Response, StatusCode};
use tokio::time::{Instant, timeout_at};

use super::headers;
use crate::backend::rest::injected::InjectedHeaders;
use crate::backend::transport::connection;
use crate::backend::transport::connection::{Connection, ExchangeError, PoolHandle, ReceivedBody};
use crate::backend::transport::http2;
use crate::backend::transport::http2::RecvBody;
use crate::backend::transport::pool::Pool;
use crate::backend::transport::request_copy::RequestCopy;
use crate::body::{Body, KeepAliveBody};
use crate::error::BoxError;

/// The outcome of an attempt.
pub(in crate::backend) enum AttemptOutcome {
    /// The answer's headers arrived.
    Answered(Response<AnswerSource>),
    /// The catalog has not acted; the request is unchanged.
    Unsent(BoxError),
    /// The catalog has not acted, but parts of the request are gone.
    Refused(BoxError),
    /// The catalog may have acted, because some of the request may have been sent.
    Lost {
        /// The cause that the connection reported.
        cause: BoxError,
        /// True if the connection was used before: the catalog may have closed it at that very moment.
        pooled: bool,
    },
    /// No answer came in time. If `sent`, the catalog may have the request.
    TimedOut {
        /// True if there was a connection to send the request over.
        sent: bool,
    },
}

/// The source of an answer's body.
pub(in crate::backend) enum AnswerSource {
    /// A connection of its own.
    Alone(ReceivedBody, Box<Connection>),
    /// A stream of an HTTP/2 connection.
    Stream(Box<RecvBody>),
}

impl AnswerSource {
    /// Returns the body, which keeps `home` until it ends. `now` must be the current time.
    pub(in crate::backend) fn into_body<H: PoolHandle>(self, home: H, now: Instant) -> Body {
        match self {
            Self::Alone(body, connection) => connection::body(body, connection, home, now),
            Self::Stream(body) => Body::stream(KeepAliveBody::new(*body, home)),
        }
    }
}

/// The terms of one attempt.
#[derive(Clone, Copy)]
pub(in crate::backend) struct AttemptTerms<'a> {
    /// The headers that are added to the request.
    pub(in crate::backend) added: InjectedHeaders<'a>,
    /// The time when the attempt begins.
    pub(in crate::backend) now: Instant,
    /// The time until which the answer's headers must arrive.
    pub(in crate::backend) deadline: Instant,
    /// True if the request may be sent again afterwards, provided that its body is in memory. Otherwise its content
    /// must not be used afterwards, unless nothing of it was written.
    pub(in crate::backend) retains_request: bool,
    /// True if pooled connections must not be used.
    pub(in crate::backend) fresh_connection: bool,
}

/// Sends `request` and waits for the answer's headers.
///
/// The catalog may close an idle connection at the very moment it is used. If nothing was written, the request goes
/// over the next connection.
pub(in crate::backend) async fn attempt(
    pool: &Pool,
    request: &mut Request<Body>,
    terms: AttemptTerms<'_>,
) -> AttemptOutcome {
    let Some(lines) = pool.multiplexed() else {
        return in_http1(pool, request, terms).await;
    };
    headers::set_length(request);
    terms.added.insert_into(request.headers_mut());
    let spare = terms
        .retains_request
        .then(|| RequestCopy::of(request))
        .flatten();
    // Boxed, because it would make the future of every request large.
    let outcome = Box::pin(http2::attempt(pool, lines, request, terms)).await;
    if let Some(spare) = spare {
        spare.restore(request);
    }
    outcome
}

/// Makes the attempt over an HTTP/1.1 connection.
pub(in crate::backend) async fn in_http1(
    pool: &Pool,
    request: &mut Request<Body>,
    terms: AttemptTerms<'_>,
) -> AttemptOutcome {
    let AttemptTerms {
        added,
        now,
        deadline,
        retains_request,
        fresh_connection,
    } = terms;
    while !fresh_connection && let Some(mut connection) = pool.take_idle(now) {
        match connection
            .exchange(request, added, retains_request, deadline)
            .await
        {
            Ok(response) => return answered(response, connection, true),
            Err(ExchangeError::Unsent(_)) => {}
            Err(ExchangeError::Lost(cause)) => {
                return AttemptOutcome::Lost {
                    cause,
                    pooled: true,
                };
            }
            Err(ExchangeError::Late) => return AttemptOutcome::TimedOut { sent: true },
        }
    }
    // Boxed, because it is rare and large: it would make the future of every request large.
    Box::pin(attempt_anew(pool, request, terms)).await
}

async fn attempt_anew(
    pool: &Pool,
    request: &mut Request<Body>,
    terms: AttemptTerms<'_>,
) -> AttemptOutcome {
    let AttemptTerms {
        added,
        deadline,
        retains_request,
        ..
    } = terms;
    let mut connection = match timeout_at(deadline, pool.connect()).await {
        Ok(Ok(connection)) => connection,
        Ok(Err(cause)) => return AttemptOutcome::Unsent(cause),
        Err(_) => return AttemptOutcome::TimedOut { sent: false },
    };
    match connection
        .exchange(request, added, retains_request, deadline)
        .await
    {
        Ok(response) => answered(response, connection, false),
        Err(ExchangeError::Unsent(cause)) => AttemptOutcome::Unsent(cause),
        Err(ExchangeError::Lost(cause)) => AttemptOutcome::Lost {
            cause,
            pooled: false,
        },
        Err(ExchangeError::Late) => AttemptOutcome::TimedOut { sent: true },
    }
}

/// Converts an answer into the outcome. The gateway never requests another protocol, so a catalog that changes to
/// one has not answered (RFC 9110, section 7.8).
fn answered(
    response: Response<ReceivedBody>,
    connection: Box<Connection>,
    pooled: bool,
) -> AttemptOutcome {
    match response.status() {
        StatusCode::SWITCHING_PROTOCOLS => AttemptOutcome::Lost {
            cause: "it switched to another protocol".into(),
            pooled,
        },
        _ => AttemptOutcome::Answered(response.map(|body| AnswerSource::Alone(body, connection))),
    }
}
