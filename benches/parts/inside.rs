//! What stands inside of a layer that is measured: it answers at once.

use std::future::{Ready, ready};

use futures_util::FutureExt as _;
use http::{Method, Request, Response};
use nsgate::body::Body;
use nsgate::error::Error;
use tower::{Layer, Service, ServiceBuilder, service_fn};

pub type Answer = Result<Response<Body>, Error>;
/// The innermost service.
pub type Inside = fn(Request<Body>) -> Ready<Answer>;

/// The layer around nothing.
pub fn only<L>(layer: L) -> L::Service
where
    L: Layer<tower::util::ServiceFn<Inside>>,
{
    let inside: Inside = |_| ready(Ok(Response::new(Body::empty())));
    ServiceBuilder::new()
        .layer(layer)
        .service(service_fn(inside))
}

/// The answer, which must not have to be waited for.
pub fn ask<S>(service: &mut S, request: Request<Body>) -> Answer
where
    S: Service<Request<Body>, Response = Response<Body>, Error = Error>,
{
    service
        .call(request)
        .now_or_never()
        .expect("it does not wait")
}

/// As clients ask.
pub fn request(target: &str) -> http::request::Builder {
    Request::builder()
        .method(Method::POST)
        .uri(target)
        .header("host", "gateway.test")
        .header("user-agent", "parts/1.0")
        .header("accept", "application/json")
        .header("content-type", "application/json")
}
