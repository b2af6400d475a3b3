//! Counts a request when it is over, wherever its response was made.

use std::borrow::BorrowMut;
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, SystemTime};

use http::{Request, Response, StatusCode};
use pin_project_lite::pin_project;
use tower::{Layer, Service};

use crate::body::{Body, End};
use crate::metrics::{CompletedRequest, FailedRequest, Limit, RecentFailures, Requests, SLOW};
use crate::protocol::operation::Operation;
use crate::protocol::trace::SpanContext;
use crate::request::{CompletionObserver, RequestRecord};

/// The duration from which a request is long enough to be an exemplar, whether or not its trace is recorded.
const LONG: Duration = Duration::from_millis(250);

/// Makes [`Metrics`].
#[derive(Clone)]
pub struct MetricsLayer(Arc<RequestCounter>);

/// The service. The inner one has turned every error into a response.
#[derive(Clone)]
pub struct Metrics<S> {
    inner: S,
    ledger: Arc<RequestCounter>,
}

pin_project! {
    /// A response whose end will be counted.
    pub struct CountedFuture<F> {
        #[pin]
        inner: F,
        // `None` once there is a response.
        exchange: Option<Arc<RequestRecord>>,
    }
}

struct RequestCounter(Arc<Requests>);

impl MetricsLayer {
    /// Counts into `requests`.
    pub fn new(requests: Arc<Requests>) -> Self {
        Self(Arc::new(RequestCounter(requests)))
    }

    /// Returns the observer that counts each request at its end.
    pub fn watcher(&self) -> Arc<dyn CompletionObserver> {
        Arc::clone(&self.0) as Arc<dyn CompletionObserver>
    }
}

impl<S> Layer<S> for MetricsLayer {
    type Service = Metrics<S>;

    fn layer(&self, inner: S) -> Metrics<S> {
        Metrics {
            inner,
            ledger: Arc::clone(&self.0),
        }
    }
}

impl<S, R> Service<R> for Metrics<S>
where
    R: BorrowMut<Request<Body>>,
    S: Service<R, Response = Response<Body>, Error = Infallible>,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = CountedFuture<S::Future>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, mut request: R) -> Self::Future {
        let exchange = Arc::clone(RequestRecord::of(request.borrow_mut()));
        self.ledger.0.began();
        exchange.observe_request(request.borrow_mut().body_mut());
        CountedFuture {
            inner: self.inner.call(request),
            exchange: Some(exchange),
        }
    }
}

impl<F> Future for CountedFuture<F>
where
    F: Future<Output = Result<Response<Body>, Infallible>>,
{
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let this = self.project();
        // The response stays in place: it is large, and would be moved twice.
        let mut polled = this.inner.poll(cx);
        if polled.is_pending() {
            return Poll::Pending;
        }
        if let Poll::Ready(Ok(response)) = &mut polled
            && let Some(exchange) = this.exchange.take()
        {
            exchange.answered(response.status());
            if response.body().is_whole() {
                exchange.answered_whole();
            }
            exchange.observe_response(response.body_mut());
        }
        polled
    }
}

impl CompletionObserver for RequestCounter {
    fn over(&self, exchange: &RequestRecord, how: End) {
        let (status, took) = (exchange.status(), exchange.age());
        let number = status.map_or(0, |status| status.as_u16());
        if RecentFailures::takes(number) || how == End::Broken {
            self.0.failures().keep(failure(exchange, number, how));
        }
        if took >= SLOW
            && let Some(slow) = slow(exchange, number, took)
        {
            self.0.failures().keep_slow(slow);
        }
        let is_sampled = self.0.ended(CompletedRequest {
            operation: exchange.operation(),
            backend: exchange.backend(),
            status,
            took,
            added: exchange.added(took),
            limit: limit(exchange, status),
            trace: exemplar(exchange, status, took),
            request_bytes: exchange.request_bytes(),
            response_bytes: exchange.response_bytes(),
        });
        if is_sampled && let Some(caller) = exchange.caller() {
            self.0.callers().note(caller.subject(), caller.issuer());
        }
    }
}

/// Describes a request that waited long for a catalog; `None` if it did not, or if it read or wrote rows, which may take
/// long.
fn slow(exchange: &RequestRecord, status: u16, took: Duration) -> Option<FailedRequest> {
    let is_quick = exchange.backend().is_some() && !exchange.operation()?.is_data();
    let waited = match exchange.added(took) {
        Some(own) => took.saturating_sub(own),
        None => exchange.upstream(took),
    };
    (is_quick && waited >= SLOW).then(|| FailedRequest {
        cause: format!("waited {:.1} s for the catalog", waited.as_secs_f64()),
        ..failure(exchange, status, End::Complete)
    })
}

/// Describes a request that failed or was refused.
fn failure(exchange: &RequestRecord, status: u16, how: End) -> FailedRequest {
    let operation = exchange.operation();
    let caller = exchange.caller();
    let cause = match exchange.cause() {
        Some(cause) => cause.to_owned(),
        None if how == End::Broken => "the catalog broke the response off".to_owned(),
        None if exchange.passed_on_to().is_some() => {
            format!("the gateway with the batch log answered {status}: look at its log")
        }
        None => format!("the catalog answered {status}"),
    };
    FailedRequest {
        at: SystemTime::now(),
        id: exchange.id().to_owned(),
        status,
        operation: operation.map_or("unrecognized", Operation::name),
        name: exchange.name().map(ToString::to_string),
        catalog: exchange.backend().map(|backend| Arc::clone(backend.name())),
        cause,
        caller: caller.map(|caller| (Arc::clone(caller.subject()), Arc::clone(caller.issuer()))),
        client: exchange
            .head()
            .and_then(|head| Some(head.client()?.to_str().ok()?.to_owned())),
        count: 1,
    }
}

/// Returns the limit that refused a request.
fn limit(exchange: &RequestRecord, status: Option<StatusCode>) -> Option<Limit> {
    let refusals = [
        StatusCode::TOO_MANY_REQUESTS,
        StatusCode::SERVICE_UNAVAILABLE,
    ];
    let refused = status.filter(|status| refusals.contains(status));
    refused.and_then(|_| Limit::named(exchange.reason()?))
}

/// Returns the trace of a request that makes a good exemplar: somebody records its trace, or it was slow, or it failed.
/// Traces that the gateway alone began are in its log and in the catalog's only.
fn exemplar(exchange: &RequestRecord, status: Option<StatusCode>, took: Duration) -> Option<u128> {
    let head = exchange.head()?;
    let is_recorded = head.recorder.is_some() || head.parent.is_some_and(SpanContext::is_sampled);
    let failed = status.is_some_and(|status| status.is_server_error());
    (is_recorded || failed || took >= LONG).then(|| head.span.trace())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test says what it expects")]
    use http::{HeaderValue, Method, StatusCode, Version};
    use tower::{ServiceExt as _, service_fn};

    use super::*;
    use crate::error::code::Code;
    use crate::metrics::Metrics as All;
    use crate::request::RequestHead;
    use crate::request::context::RequestContext;

    fn head(parent: Option<SpanContext>) -> RequestHead {
        RequestHead {
            id: HeaderValue::from_static("id"),
            span: SpanContext::start(),
            parent,
            is_observed: false,
            peer: None,
            forwarded_for: None,
            method: Method::POST,
            version: Version::HTTP_11,
            recorder: None,
        }
    }

    #[test]
    fn a_request_that_is_traced_slow_or_failed_is_an_exemplar() {
        let quick = Duration::from_millis(1);
        let unsampled =
            HeaderValue::from_static("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00");
        let unsampled = SpanContext::parse(&unsampled);
        for (parent, status, took, expected) in [
            (None, 200, quick, false),
            (unsampled, 200, quick, false),
            (Some(SpanContext::start()), 200, quick, true),
            (None, 404, quick, false),
            (None, 503, quick, true),
            (None, 200, LONG, true),
        ] {
            let head = head(parent);
            let trace = head.span.trace();
            let exchange = RequestRecord::begin(Some(head), [].into_iter().collect());
            let status = StatusCode::from_u16(status).ok();
            let found = exemplar(&exchange, status, took);
            assert_eq!(found, expected.then_some(trace), "{parent:?} {status:?}");
        }
    }

    #[test]
    fn a_refusal_counts_for_its_limit_and_a_catalogs_answer_does_not() {
        let exchange = |reason| {
            let exchange = RequestRecord::begin(None, [].into_iter().collect());
            exchange.failed(Code::ServiceUnavailable, reason);
            exchange
        };
        let of =
            |exchange: &RequestRecord, status| limit(exchange, StatusCode::from_u16(status).ok());
        assert_eq!(of(&exchange(Some("share")), 503), Some(Limit::Share));
        assert_eq!(of(&exchange(Some("keys_unavailable")), 503), None);
        assert_eq!(of(&exchange(None), 429), None);
        assert_eq!(of(&exchange(Some("share")), 401), None);
    }

    #[test]
    fn the_gateways_own_time_is_what_the_catalog_did_not_take() {
        let ms = Duration::from_millis;
        let exchange = RequestRecord::begin(None, [].into_iter().collect());
        exchange.answered_whole();
        assert_eq!(exchange.added(ms(9)), None, "no catalog had it");
        exchange.forwarded(ms(3));
        exchange.forwarded(ms(4));
        assert_eq!(exchange.added(ms(9)), Some(ms(2)));
        let streams = RequestRecord::begin(None, [].into_iter().collect());
        streams.forwarded(ms(3));
        assert_eq!(streams.added(ms(9)), None, "its end is the catalog's");
    }

    fn answer(request: &Request<Body>, status: StatusCode) -> Response<Body> {
        let exchange = RequestContext::of(request.extensions()).exchange.as_ref();
        exchange.unwrap().recognized(Operation::QueryTable);
        let mut response = Response::new(Body::full("12345"));
        *response.status_mut() = status;
        response
    }

    #[tokio::test]
    async fn a_request_is_in_flight_until_its_response_has_ended_and_then_counted() {
        let all = All::new();
        let layer = MetricsLayer::new(Arc::clone(all.requests()));
        let inner = service_fn(async |request: Request<Body>| {
            Ok(answer(&request, StatusCode::SERVICE_UNAVAILABLE))
        });
        let mut request = Request::default();
        let watchers = [layer.watcher()].into_iter().collect();
        let exchange = RequestRecord::begin(None, watchers);
        RequestContext::more(request.extensions_mut()).exchange = Some(exchange);
        let response = layer.layer(inner).oneshot(request).await;
        let Ok(response) = response;
        let text = all.render().unwrap();
        assert!(text.contains("nsgate_requests_in_flight 1\n"), "{text}");
        response.into_body().collect_up_to(9).await.unwrap();
        let text = all.render().unwrap();
        assert!(text.contains("nsgate_requests_in_flight 0\n"));
        let counted =
            "nsgate_requests_total{backend=\"none\",code=\"503\",operation=\"query_table\"} 1\n";
        assert!(text.contains(counted), "{text}");
        assert!(text.contains("nsgate_response_bytes_total{backend=\"none\"} 5\n"));
        let failed = all.requests().failures().failed();
        assert_eq!((failed.len(), failed[0].status), (1, 503));
        assert_eq!(failed[0].operation, "query_table");
    }
}
