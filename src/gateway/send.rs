//! Sends a request to its catalog.

use http::{Request, Response};

use crate::backend::Backend;
use crate::body::Body;
use crate::error::Error;
use crate::request::CatalogWait;
use crate::request::context::RequestContext;

/// Sends a request that is in its final form, and records the backend that serves it. `request` is
/// empty afterwards.
pub(super) async fn send(
    backend: &Backend,
    request: &mut Request<Body>,
) -> Result<Response<Body>, Error> {
    let waiting = waiting(backend, request);
    let outcome = backend.pass(request).await;
    drop(waiting);
    outcome.map_err(|failure| failure.into_error(backend.name()))
}

/// Records the backend that serves the request, and that the request waits for it until the returned
/// value is dropped.
pub(super) fn waiting(backend: &Backend, request: &Request<Body>) -> Option<CatalogWait> {
    let exchange = RequestContext::of(request.extensions()).exchange.as_ref()?;
    exchange.served_by(backend.metrics());
    exchange.waiting()
}
