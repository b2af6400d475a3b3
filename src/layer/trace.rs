//! Opens the record of a request, gives it its id and its place in a trace, and writes the access log.
//!
//! The id is the caller's `x-request-id` if that is valid, otherwise the trace's; it goes to the catalog and back to
//! the caller. A W3C `traceparent` is continued or started. Tokens, paths and bodies are never logged.

pub mod access;
mod server;

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use http::{HeaderMap, HeaderName, HeaderValue, Request, Response};
use pin_project_lite::pin_project;
use tower::{Layer, Service};
use tracing::Span;

use crate::body::Body;
use crate::protocol::trace::{REQUEST_ID, SpanContext, TRACEPARENT, TRACESTATE};
use crate::request::context::RequestContext;
use crate::request::span::Recorder;
use crate::request::{CompletionObserver, CompletionObservers, RequestHead, RequestRecord};
use crate::telemetry::audit::Audit;
use access::AccessLog;
use server::ServerSpan;

/// The most characters of a caller's id, all of them visible ASCII.
const MAX_ID: usize = 64;

const FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");

/// Makes [`Trace`].
#[derive(Clone)]
pub struct TraceLayer {
    logs: bool,
    audits: bool,
    recorder: Option<Arc<dyn Recorder>>,
    watchers: CompletionObservers,
}

/// The service. The inner one has turned every error into a response.
#[derive(Clone)]
pub struct Trace<S> {
    inner: S,
    layer: TraceLayer,
}

pin_project! {
    /// A response that will carry the request's id.
    pub struct TraceFuture<F> {
        #[pin]
        inner: F,
        id: HeaderValue,
        span: Span,
        // `None` if the time of the response is not needed.
        timed: Option<Arc<RequestRecord>>,
    }
}

impl TraceLayer {
    /// Creates the layer. `access_log`, `audit` and `recorder` are `None` if there is no access log, no audit log and
    /// no recording of traces. `others` observe each request's end, too.
    pub fn new(
        access_log: Option<AccessLog>,
        audit: Option<Audit>,
        recorder: Option<Arc<dyn Recorder>>,
        others: impl IntoIterator<Item = Arc<dyn CompletionObserver>>,
    ) -> Self {
        let logs = access_log.is_some();
        let log = access_log.map(|log| Arc::new(log) as Arc<dyn CompletionObserver>);
        let audits = audit.is_some();
        let audit = audit.map(|audit| Arc::new(audit) as Arc<dyn CompletionObserver>);
        let span = recorder.as_ref().map(|_| Arc::new(ServerSpan) as _);
        Self {
            logs,
            audits,
            recorder,
            watchers: others
                .into_iter()
                .chain(span)
                .chain(audit)
                .chain(log)
                .collect(),
        }
    }
}

impl<S> Layer<S> for TraceLayer {
    type Service = Trace<S>;

    fn layer(&self, inner: S) -> Trace<S> {
        Trace {
            inner,
            layer: self.clone(),
        }
    }
}

impl<S> Service<Request<Body>> for Trace<S>
where
    S: Service<Box<Request<Body>>, Response = Response<Body>, Error = Infallible>,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = TraceFuture<S::Future>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        // A request is large: boxed, it stays where it is instead of being moved by each layer.
        let mut request = Box::new(request);
        let layer = &self.layer;
        let forwarded_for = layer.audits.then(|| forwarded_for(request.headers()));
        let is_noted = layer.logs || layer.audits;
        let mut head = head(&mut request, is_noted, layer.recorder.as_ref());
        head.forwarded_for = forwarded_for.flatten();
        let id = head.id.clone();
        let exchange = RequestRecord::begin(Some(head), layer.watchers.clone());
        let timed = layer.logs.then(|| Arc::clone(&exchange));
        RequestContext::more(request.extensions_mut()).exchange = Some(exchange);
        let span = tracing::debug_span!("request", id = id.to_str().unwrap_or(""));
        let in_span = span.enter();
        let inner = self.inner.call(request);
        drop(in_span);
        TraceFuture {
            inner,
            id,
            span,
            timed,
        }
    }
}

impl<F> Future for TraceFuture<F>
where
    F: Future<Output = Result<Response<Body>, Infallible>>,
{
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let this = self.project();
        let _in_span = this.span.enter();
        // The response stays in place: it is large, and would be moved twice.
        let mut polled = this.inner.poll(cx);
        if polled.is_pending() {
            return Poll::Pending;
        }
        if let Poll::Ready(Ok(response)) = &mut polled {
            let id = std::mem::replace(this.id, HeaderValue::from_static(""));
            response.headers_mut().insert(REQUEST_ID, id);
            if let Some(exchange) = this.timed {
                exchange.timed();
            }
        }
        polled
    }
}

/// Returns the clients for which a proxy says that it sends the request.
fn forwarded_for(headers: &HeaderMap) -> Option<HeaderValue> {
    headers.get(FORWARDED_FOR).cloned()
}

/// Reads the head of a request, and sets `x-request-id` and `traceparent` as the catalog is to see them.
fn head(
    request: &mut Request<Body>,
    logged: bool,
    recorder: Option<&Arc<dyn Recorder>>,
) -> RequestHead {
    let (method, version) = (request.method().clone(), request.version());
    let headers = request.headers_mut();
    let sent = Sent::among(headers);
    let parent = only(headers, sent.parent, &TRACEPARENT).and_then(SpanContext::parse);
    let span = parent.map_or_else(SpanContext::start, SpanContext::child);
    let id = only(headers, sent.id, &REQUEST_ID).filter(|id| is_sane(id));
    let traceparent = span.header();
    let id = id.cloned().unwrap_or_else(|| traceparent.trace_id());
    headers.insert(TRACEPARENT, traceparent.value());
    headers.insert(REQUEST_ID, id.clone());
    if sent.state && parent.is_none() {
        // The state belongs to a trace that ends here.
        headers.remove(TRACESTATE);
    }
    let recorder = recorder.filter(|_| span.is_sampled()).cloned();
    let is_observed = logged || recorder.is_some();
    let peer = is_observed.then(|| RequestContext::of(request.extensions()).peer.clone());
    RequestHead {
        is_observed,
        recorder,
        id,
        span,
        parent,
        peer: peer.flatten(),
        forwarded_for: None,
        method,
        version,
    }
}

/// The relevant headers that were sent. Few requests have any, so one pass over the names costs less than a lookup
/// of each.
#[derive(Default)]
struct Sent {
    parent: bool,
    state: bool,
    id: bool,
}

impl Sent {
    fn among(headers: &HeaderMap) -> Self {
        let mut sent = Self::default();
        // The comparison is by name: standard names, which the library knows by number, differ at once.
        for name in headers.keys() {
            sent.parent |= *name == TRACEPARENT;
            sent.state |= *name == TRACESTATE;
            sent.id |= *name == REQUEST_ID;
        }
        sent
    }
}

/// Returns the value of a header that was sent exactly once; `None` otherwise.
fn only<'a>(headers: &'a HeaderMap, sent: bool, name: &HeaderName) -> Option<&'a HeaderValue> {
    let mut values = headers.get_all(sent.then_some(name)?).iter();
    let first = values.next()?;
    values.next().is_none().then_some(first)
}

fn is_sane(id: &HeaderValue) -> bool {
    let bytes = id.as_bytes();
    (1..=MAX_ID).contains(&bytes.len()) && bytes.iter().all(u8::is_ascii_graphic)
}

#[cfg(test)]
mod tests;
