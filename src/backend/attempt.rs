//! One try at one address: over a pooled connection, or a new one.

use std::mem::take;

use http::{Request, Response, StatusCode};
use hyper::body::Incoming;
use tokio::time::{Instant, timeout_at};

use super::connection::{Broken, Connection};
use super::pool::Pool;
use crate::body::Body;
use crate::error::BoxError;

/// How a try ended.
pub(super) enum Outcome {
    /// With headers, over this connection.
    Answered(Response<Incoming>, Box<Connection>),
    /// Nothing was written; the request is where it was.
    Unsent(BoxError),
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

/// Sends `request` and waits for the answer's headers until `deadline`. `anew`: not over a pooled connection. Nothing is
/// left of the request, unless nothing of it was written.
///
/// An idle connection may be closed by the catalog at the very moment it is used. If nothing was written, the
/// request comes back and goes over the next one.
pub(super) async fn attempt(
    deadline: Instant,
    pool: &Pool,
    request: &mut Request<Body>,
    anew: bool,
) -> Outcome {
    let mut sent = false;
    timeout_at(deadline, exchange(pool, request, anew, &mut sent))
        .await
        .unwrap_or(Outcome::TimedOut { sent })
}

async fn exchange(
    pool: &Pool,
    request: &mut Request<Body>,
    anew: bool,
    sent: &mut bool,
) -> Outcome {
    while !anew && let Some(mut connection) = pool.take_idle() {
        *sent = true;
        match connection.exchange(take(request)).await {
            Ok(response) => return answered(response, connection, true),
            Err(Broken {
                unsent: Some(back), ..
            }) => {
                *request = back;
                *sent = false;
            }
            Err(Broken { error, .. }) => {
                return Outcome::Lost {
                    cause: error.into(),
                    pooled: true,
                };
            }
        }
    }
    // Boxed since it is rare and large: it would make the future of every request large.
    Box::pin(exchange_anew(pool, request, sent)).await
}

async fn exchange_anew(pool: &Pool, request: &mut Request<Body>, sent: &mut bool) -> Outcome {
    let mut connection = match pool.connect().await {
        Ok(connection) => connection,
        Err(cause) => return Outcome::Unsent(cause),
    };
    *sent = true;
    match connection.exchange(take(request)).await {
        Ok(response) => answered(response, connection, false),
        Err(Broken {
            unsent: Some(back),
            error,
        }) => {
            *request = back;
            Outcome::Unsent(error.into())
        }
        Err(Broken { error, .. }) => Outcome::Lost {
            cause: error.into(),
            pooled: false,
        },
    }
}

/// Nobody asked for another protocol, so a catalog that changes to one has not answered (RFC 9110, section 7.8).
fn answered(response: Response<Incoming>, connection: Box<Connection>, pooled: bool) -> Outcome {
    match response.status() {
        StatusCode::SWITCHING_PROTOCOLS => Outcome::Lost {
            cause: "it changed to another protocol".into(),
            pooled,
        },
        _ => Outcome::Answered(response, connection),
    }
}
