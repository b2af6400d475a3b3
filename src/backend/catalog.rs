//! A catalog that the embedding program provides: in the same process, without a socket.

use tokio::time::Instant;

use futures_util::future::BoxFuture;
use http::{Request, Response};

use super::Failure;
use crate::body::Body;
use crate::protocol::data_scope::Selectors;

/// An in-process catalog that answers requests of the contract.
pub trait Catalog: Send + Sync + 'static {
    /// Answers one request, which has the method, path and query of the contract (`/v1/…`) and these extensions:
    /// [`Operation`](crate::protocol::operation::Operation); [`Identifier`](crate::protocol::identifier::Identifier),
    /// the catalog's, where the path names one; [`Authority`](super::Authority) (absent: the caller's, with the
    /// request's own `Authorization`); [`Context`](crate::protocol::context::Context); [`Peer`](super::Peer). A failure
    /// must say correctly whether the catalog can have acted. A call that takes too long is dropped.
    fn call(&self, request: Request<Body>) -> BoxFuture<'_, Result<Response<Body>, Failure>>;

    /// Returns the parts of requests that select its data besides the path.
    fn selectors(&self) -> Selectors {
        Selectors::none()
    }
}

pub(super) async fn send_within(
    catalog: &dyn Catalog,
    deadline: Instant,
    request: Request<Body>,
) -> Result<Response<Body>, Failure> {
    let answer = tokio::time::timeout_at(deadline, catalog.call(request)).await;
    answer.unwrap_or(Err(Failure::TimedOut))
}
