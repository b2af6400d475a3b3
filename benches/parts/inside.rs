//! The service inside of a measured layer: it answers at once.

use std::future::{Ready, ready};
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use http::{Method, Request, Response};
use nsgate::body::Body;
use nsgate::error::Error;
use tower::{Layer, Service, ServiceBuilder, service_fn};

pub type Answer = Result<Response<Body>, Error>;
/// The innermost service.
pub type Inside = fn(Request<Body>) -> Ready<Answer>;

/// Returns the layer around this service.
pub fn only<L>(layer: L) -> L::Service
where
    L: Layer<tower::util::ServiceFn<Inside>>,
{
    let inside: Inside = |_| ready(Ok(Response::new(Body::empty())));
    ServiceBuilder::new()
        .layer(layer)
        .service(service_fn(inside))
}

/// Returns the answer, which must be ready after at most one yield.
pub fn ask<S>(service: &mut S, request: Request<Body>) -> Answer
where
    S: Service<Request<Body>, Response = Response<Body>, Error = Error>,
{
    let (mut answer, mut cx) = (
        pin!(service.call(request)),
        Context::from_waker(Waker::noop()),
    );
    for _ in 0..2 {
        if let Poll::Ready(answer) = answer.as_mut().poll(&mut cx) {
            return answer;
        }
    }
    panic!("it waits");
}

/// Begins a request with the headers that clients send.
pub fn request(target: &str) -> http::request::Builder {
    Request::builder()
        .method(Method::POST)
        .uri(target)
        .header("host", "gateway.test")
        .header("user-agent", "parts/1.0")
        .header("accept", "application/json")
        .header("content-type", "application/json")
}
