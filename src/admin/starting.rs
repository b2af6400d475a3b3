//! The admin address before the batch log is open: a log in PostgreSQL may be waited for, and no probe may take that for a
//! process that hangs.

use std::convert::Infallible;
use std::future::{Ready, ready};
use std::task::{Context, Poll};

use http::{Request, Response, StatusCode};
use serde_json::json;
use tower::Service;

use super::Page;
use super::problem::Problem;
use crate::body::Body;
use crate::error::code::Code;

/// The reason why a gateway without its batch log is not ready.
const LOG: &str = "the batch log is not open yet; the log of this gateway says what it waits for";

/// The service of the admin address until there is something to show: it answers the probes.
#[derive(Clone)]
pub struct Starting;

impl Service<Request<Body>> for Starting {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Ready<Result<Response<Body>, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let page = match request.uri().path() {
            "/live" => Page::live(),
            "/ready" => {
                let page = json!({ "ready": false, "missing": [LOG] });
                Page::json(StatusCode::SERVICE_UNAVAILABLE, &page)
            }
            path => Problem::new(Code::ServiceUnavailable, LOG).at(path),
        };
        ready(Ok(page.into_response()))
    }
}
