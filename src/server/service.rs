//! Connects HTTP with the stack: converts bodies, and notes when a request begins and ends.

use std::cell::RefCell;
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use http::header::{CONNECTION, HOST, TRANSFER_ENCODING};
use http::{HeaderValue, Request, Response, Version};
use hyper::body::Incoming;
use pin_project_lite::pin_project;
use tokio::time::{Sleep, sleep};
use tower::Service;

use crate::backend::Peer;
use crate::body::{Body, KeepAliveBody};
use crate::request::context::RequestContext;
use crate::server::connection::rest::Leftover;
use crate::server::connection_state::{ConnectionState, Serving};

/// The time that the rest of a small body may take once the answer is there.
const REST: Duration = Duration::from_secs(5);

/// The stack as one connection sees it. Requests enter one after the other, so it is not cloned for each of them.
pub(in crate::server) struct ConnectionService<S> {
    stack: RefCell<S>,
    peer: Peer,
    state: Arc<ConnectionState>,
}

pin_project! {
    /// The future of a response.
    pub(in crate::server) struct ResponseFuture<F> {
        #[pin]
        inner: F,
        serving: Option<Serving>,
        http1: bool,
        // The unread rest of the request's body.
        rest: Option<Leftover>,
        // The response, while that rest is read, and how long that may take.
        answer: Option<Box<Response<Body>>>,
        patience: Option<Pin<Box<Sleep>>>,
    }
}

/// The body of a response. The request counts as being served until this is dropped.
pub(in crate::server) type ResponseBody = KeepAliveBody<Body, Option<Serving>>;

impl<S> ConnectionService<S> {
    pub(in crate::server) fn new(stack: S, peer: Peer, state: Arc<ConnectionState>) -> Self {
        Self {
            stack: RefCell::new(stack),
            peer,
            state,
        }
    }

    /// The state of the connection.
    pub(in crate::server) fn pulse(&self) -> &Arc<ConnectionState> {
        &self.state
    }

    /// Passes a request to the stack. It counts as being served until the returned [`Serving`] is dropped.
    pub(in crate::server) fn enter(&self, mut request: Request<Body>) -> (S::Future, Serving)
    where
        S: Service<Request<Body>>,
    {
        let serving = self.state.began();
        RequestContext::more(request.extensions_mut()).peer = Some(self.peer.clone());
        (self.stack.borrow_mut().call(request), serving)
    }
}

impl<S> hyper::service::Service<Request<Incoming>> for ConnectionService<S>
where
    S: Service<Request<Body>, Response = Response<Body>, Error = Infallible>,
{
    type Response = Response<ResponseBody>;
    type Error = Infallible;
    type Future = ResponseFuture<S::Future>;

    fn call(&self, request: Request<Incoming>) -> Self::Future {
        let http1 = request.version() < Version::HTTP_2;
        let malformed = malformed(&request);
        let (mut request, rest) = Leftover::of(request, malformed.is_some());
        if malformed.is_some() {
            RequestContext::more(request.extensions_mut()).malformed = malformed;
        }
        let (inner, serving) = self.enter(request);
        ResponseFuture {
            inner,
            serving: Some(serving),
            http1,
            rest,
            answer: None,
            patience: None,
        }
    }
}

/// Returns the reason why servers could disagree about the host of a request, or about where it ends (RFC 9112,
/// sections 3.2 and 6.1); `None` if they cannot.
fn malformed<B>(request: &Request<B>) -> Option<&'static str> {
    let headers = request.headers();
    // As a rule no name comes twice, so the values are not counted.
    let repeats = headers.len() > headers.keys_len();
    if repeats && headers.get_all(HOST).iter().nth(1).is_some() {
        return Some("the request has more than one `Host`: send one");
    }
    let is_named = headers.contains_key(HOST) || request.uri().authority().is_some();
    if !is_named && request.version() != Version::HTTP_10 {
        return Some("the request has no `Host`, or `:authority` in HTTP/2: send one");
    }
    if !headers.contains_key(TRANSFER_ENCODING) {
        return None;
    }
    let codings = headers.get_all(TRANSFER_ENCODING).iter();
    let codings = codings.flat_map(|value| value.as_bytes().split(|byte| *byte == b','));
    let is_chunked = |coding: &&[u8]| coding.trim_ascii().eq_ignore_ascii_case(b"chunked");
    (codings.filter(is_chunked).count() > 1)
        .then_some("`transfer-encoding` says `chunked` more than once: say it once")
}

impl<F> Future for ResponseFuture<F>
where
    F: Future<Output = Result<Response<Body>, Infallible>>,
{
    type Output = Result<Response<ResponseBody>, Infallible>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let mut response = match this.answer.take() {
            Some(response) => *response,
            None => {
                let Ok(response) = ready!(this.inner.poll(cx));
                response
            }
        };
        let is_read = match this.rest.as_ref().map(|rest| rest.poll_over(cx)) {
            None => true,
            Some(Poll::Ready(is_read)) => is_read,
            Some(Poll::Pending) => {
                // The request is over for all but its client: it must not keep its place for a body that nobody needs.
                if this.patience.is_none()
                    && let Some(whole) = response.body_mut().take_whole()
                {
                    *response.body_mut() = Body::full(whole);
                }
                let patience = this.patience.get_or_insert_with(|| Box::pin(sleep(REST)));
                if patience.as_mut().poll(cx).is_pending() {
                    *this.answer = Some(Box::new(response));
                    return Poll::Pending;
                }
                false
            }
        };
        let serving = this.serving.take();
        let mut closes = serving.as_ref().is_some_and(Serving::is_last);
        if !is_read && let Some(serving) = &serving {
            serving.pulse().leave_unread();
            closes = true;
        }
        if *this.http1 && closes {
            let close = HeaderValue::from_static("close");
            response.headers_mut().insert(CONNECTION, close);
        }
        Poll::Ready(Ok(response.map(|body| ResponseBody::new(body, serving))))
    }
}
