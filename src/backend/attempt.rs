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
    while !anew && let Some(mut connection) = pool.take_idle() {
        match connection.exchange(take(request), deadline).await {
            Ok(response) => return answered(response, connection, true),
            Err(Broken::Unsent(back, _)) => *request = back,
            Err(Broken::Lost(error)) => {
                return Outcome::Lost {
                    cause: error.into(),
                    pooled: true,
                };
            }
            Err(Broken::Late) => return Outcome::TimedOut { sent: true },
        }
    }
    // Boxed since it is rare and large: it would make the future of every request large.
    Box::pin(attempt_anew(deadline, pool, request)).await
}

async fn attempt_anew(deadline: Instant, pool: &Pool, request: &mut Request<Body>) -> Outcome {
    let mut connection = match timeout_at(deadline, pool.connect()).await {
        Ok(Ok(connection)) => connection,
        Ok(Err(cause)) => return Outcome::Unsent(cause),
        Err(_) => return Outcome::TimedOut { sent: false },
    };
    match connection.exchange(take(request), deadline).await {
        Ok(response) => answered(response, connection, false),
        Err(Broken::Unsent(back, error)) => {
            *request = back;
            Outcome::Unsent(error.into())
        }
        Err(Broken::Lost(error)) => Outcome::Lost {
            cause: error.into(),
            pooled: false,
        },
        Err(Broken::Late) => Outcome::TimedOut { sent: true },
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
