//! One try at one address: over a pooled connection, or a new one; where HTTP/2 is spoken, as a stream of one.

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

/// How a try ended.
pub(in crate::backend) enum AttemptOutcome {
    /// With headers.
    Answered(Response<AnswerSource>),
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
pub(in crate::backend) enum AnswerSource {
    /// A connection.
    Alone(ReceivedBody, Box<Connection>),
    /// A stream of an HTTP/2 connection.
    Stream(Box<RecvBody>),
}

impl AnswerSource {
    /// The body, which keeps `home` until it ends. It is `now`.
    pub(in crate::backend) fn into_body<H: PoolHandle>(self, home: H, now: Instant) -> Body {
        match self {
            Self::Alone(body, connection) => connection::body(body, connection, home, now),
            Self::Stream(body) => Body::stream(KeepAliveBody::new(*body, home)),
        }
    }
}

/// How a try is made.
#[derive(Clone, Copy)]
pub(in crate::backend) struct AttemptTerms<'a> {
    /// Headers that go with the request.
    pub(in crate::backend) added: InjectedHeaders<'a>,
    /// When it begins.
    pub(in crate::backend) now: Instant,
    /// So long it waits for the answer's headers.
    pub(in crate::backend) deadline: Instant,
    /// The request may be sent again afterwards, if its body is in memory. Otherwise nothing that matters is left of
    /// it, unless nothing of it was written.
    pub(in crate::backend) retains_request: bool,
    /// Not over a pooled connection.
    pub(in crate::backend) fresh_connection: bool,
}

/// Sends `request` and waits for the answer's headers.
///
/// An idle connection may be closed by the catalog at the very moment it is used. If nothing was written, the
/// request comes back and goes over the next one.
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
    // Boxed since it would make the future of every request large.
    let outcome = Box::pin(http2::attempt(pool, lines, request, terms)).await;
    if let Some(spare) = spare {
        spare.restore(request);
    }
    outcome
}

/// The same over a connection of its own.
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
    // Boxed since it is rare and large: it would make the future of every request large.
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

/// Nobody asked for another protocol, so a catalog that changes to one has not answered (RFC 9110, section 7.8).
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
