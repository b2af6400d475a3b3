//! The entrance for requests that other gateways pass on.

use std::convert::Infallible;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use aws_lc_rs::constant_time::verify_slices_are_equal;
use futures_util::TryFutureExt as _;
use futures_util::future::{Either, MapOk, Ready, ready};
use http::{HeaderValue, Request, Response, StatusCode};
use tokio::time::Instant;
use tower::Service;

use super::client::{AWAY, CLIENT, ClientOf, NO, NOT_OWNER, RECOVERING, TOKEN, UNDONE};
use crate::batch::fleet::{Fleet, Role};
use crate::body::Body;
use crate::error::origin::ErrorOrigin;
use crate::request::context::RequestContext;
use crate::request::peer::Peer;

/// The path of the pages about batches. No operation of the contract begins so.
const BATCHES: &str = "/batches";

/// Lets requests of other gateways into the stack, with the clients that they came from. Whoever has the token of this
/// process could read it in the log.
#[derive(Clone)]
pub struct Entrance<S, A> {
    stack: S,
    /// The pages about batches, for operators who came to another gateway.
    admin: A,
    fleet: Arc<Fleet>,
}

impl<S, A> Entrance<S, A> {
    /// Creates the entrance to `stack`, and to the pages of `admin` about batches.
    pub fn new(stack: S, admin: A, fleet: Arc<Fleet>) -> Self {
        Self {
            stack,
            admin,
            fleet,
        }
    }

    fn admit(&self, request: &mut Request<Body>) -> Result<(), Box<Response<Body>>> {
        let shown = request.headers_mut().remove(TOKEN);
        let shown = shown.as_ref().map_or(&[][..], HeaderValue::as_bytes);
        let token = self.fleet.token().as_bytes();
        if verify_slices_are_equal(shown, token).is_err() {
            let words = "this address is for the gateways that share the batch log";
            // A gateway that shows another token means the process that was here before, or one that is elsewhere.
            return Err(not_owner(StatusCode::FORBIDDEN, NO, words));
        }
        let client = request.headers_mut().remove(CLIENT);
        let client = client.and_then(|client| serde_json::from_slice(client.as_bytes()).ok());
        let Some(client) = client else {
            let words = "the client is not named";
            return Err(Box::new(refused(StatusCode::BAD_REQUEST, words)));
        };
        if !self.fleet.serves_as_owner() {
            let (mark, words) = match self.fleet.role() {
                Role::Recovering => (
                    RECOVERING,
                    "this gateway has the batch log, and recovers its batches",
                ),
                _ => (NO, "this gateway does not own the batch log"),
            };
            return Err(not_owner(StatusCode::MISDIRECTED_REQUEST, mark, words));
        }
        let ClientOf {
            address,
            secure,
            subject,
            waited_micros,
        } = client;
        let mut peer = Peer::new(address, secure);
        if let Some(subject) = subject {
            peer = peer.certified(&subject);
        }
        let learned = RequestContext::more(request.extensions_mut());
        learned.peer = Some(peer);
        learned.is_passed_on = true;
        learned.came = Instant::now().checked_sub(Duration::from_micros(waited_micros));
        Ok(())
    }
}

impl<S, A> Service<Request<Body>> for Entrance<S, A>
where
    S: Service<Request<Body>, Response = Response<Body>, Error = Infallible>,
    A: Service<Request<Body>, Response = Response<Body>, Error = Infallible>,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future =
        Either<Either<Marked<S::Future>, A::Future>, Ready<Result<Response<Body>, Infallible>>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.stack.poll_ready(cx)
    }

    fn call(&mut self, mut request: Request<Body>) -> Self::Future {
        match self.admit(&mut request) {
            Ok(()) if request.uri().path().starts_with(BATCHES) => {
                Either::Left(Either::Right(self.admin.call(request)))
            }
            Ok(()) => Either::Left(Either::Left(self.stack.call(request).map_ok(marked))),
            Err(response) => Either::Right(ready(Ok(*response))),
        }
    }
}

/// The answer of the stack, without the marks that a catalog may have given it. It is marked if this gateway cannot reach
/// the log, so that the next owner is asked, and if nothing stays of the batch.
type Marked<F> = MapOk<F, fn(Response<Body>) -> Response<Body>>;

fn marked(mut response: Response<Body>) -> Response<Body> {
    let origin = response.extensions().get().copied();
    let headers = response.headers_mut();
    for mark in [NOT_OWNER, UNDONE] {
        headers.remove(mark);
    }
    match origin {
        Some(ErrorOrigin::BatchLog) => {
            headers.insert(NOT_OWNER, HeaderValue::from_static(AWAY));
        }
        Some(ErrorOrigin::Takeover) => {
            headers.insert(UNDONE, HeaderValue::from_static("true"));
        }
        _ => {}
    }
    response
}

/// The answer of a gateway that has done nothing.
fn not_owner(status: StatusCode, mark: &'static str, words: &'static str) -> Box<Response<Body>> {
    let mut response = refused(status, words);
    let headers = response.headers_mut();
    headers.insert(NOT_OWNER, HeaderValue::from_static(mark));
    Box::new(response)
}

fn refused(status: StatusCode, words: &'static str) -> Response<Body> {
    let mut response = Response::new(Body::full(words));
    *response.status_mut() = status;
    response
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test says what it expects")]

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_request_that_has_waited_at_another_gateway_came_before_that() {
        let fleet = Fleet::with_role(Role::Owner);
        let token = fleet.token().to_owned();
        let entrance = Entrance::new((), (), fleet);
        let client = r#"{"address":"127.0.0.1:1","secure":false,"waited_micros":1500000}"#;
        let mut request = Request::new(Body::empty());
        let headers = request.headers_mut();
        headers.insert(TOKEN, token.parse().unwrap());
        headers.insert(CLIENT, HeaderValue::from_static(client));
        assert!(entrance.admit(&mut request).is_ok());
        let came = RequestContext::of(request.extensions()).came();
        assert_eq!(came.elapsed(), Duration::from_millis(1500));
    }

    #[tokio::test]
    async fn an_owner_that_recovers_its_batches_says_so() {
        let fleet = Fleet::with_role(Role::Recovering);
        let token = fleet.token().to_owned();
        let entrance = Entrance::new((), (), fleet);
        let client = r#"{"address":"127.0.0.1:1","secure":false}"#;
        let mut request = Request::new(Body::empty());
        let headers = request.headers_mut();
        headers.insert(TOKEN, token.parse().unwrap());
        headers.insert(CLIENT, HeaderValue::from_static(client));
        let refusal = entrance.admit(&mut request).unwrap_err();
        assert_eq!(refusal.headers()[NOT_OWNER], RECOVERING);
    }
}
