//! The only place where an error becomes a response.
//!
//! The caller gets the contract's format; the log gets the cause. A panic further in is an error like any
//! other: the client gets a 500, and other requests on its connection go on. A panic inside of a body that
//! already streams ends its connection.

use std::any::Any;
use std::borrow::BorrowMut;
use std::convert::Infallible;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use http::header::{CONTENT_TYPE, RETRY_AFTER};
use http::uri::PathAndQuery;
use http::{HeaderValue, Request, Response};
use pin_project_lite::pin_project;
use serde::Serialize;
use tower::{Layer, Service};

use crate::body::Body;
use crate::error::Error;
use crate::error::cause::{chain, joined};
use crate::error::facts::ErrorFacts;
use crate::error::origin::ErrorOrigin;
use crate::metrics::{Limit, RecentFailures};
use crate::request::RequestRecord;

/// The longest path in `instance`, in bytes; a longer one is cut.
const MAX_INSTANCE: usize = 1024;

/// The words of the log in the place of a catalog's.
const UNTOLD: &str = "the catalog's text is not logged: `telemetry.log_names` is false";

/// Makes [`Rescue`].
#[derive(Clone, Copy, Debug)]
pub struct RescueLayer {
    has_names: bool,
}

impl RescueLayer {
    /// Creates the layer; with `has_names`, the log has the words of catalogs, which may name tables.
    pub fn new(has_names: bool) -> Self {
        Self { has_names }
    }
}

/// The service. It never fails.
#[derive(Clone)]
pub struct Rescue<S> {
    inner: S,
    has_names: bool,
}

pin_project! {
    /// The future of a response; it never fails.
    pub struct RescueFuture<F> {
        #[pin]
        inner: Call<F>,
        // The part of the URI from which an error shows the path.
        path: Option<PathAndQuery>,
        exchange: Arc<RequestRecord>,
        has_names: bool,
    }
}

pin_project! {
    /// A call of the inner service.
    #[project = CallProjection]
    enum Call<F> {
        /// The inner service is running.
        Future { #[pin] future: F },
        /// The inner service panicked before there was a future.
        Panicked { error: Option<Error> },
    }
}

/// The contract's error body.
#[derive(Serialize)]
struct ErrorBody<'a> {
    error: &'a str,
    code: u8,
    /// The second sentence; empty if `error` says it all.
    detail: &'a str,
    instance: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    transaction_id: Option<&'a str>,
    #[serde(flatten)]
    facts: Option<&'a ErrorFacts>,
}

impl<S> Layer<S> for RescueLayer {
    type Service = Rescue<S>;

    fn layer(&self, inner: S) -> Rescue<S> {
        Rescue {
            inner,
            has_names: self.has_names,
        }
    }
}

impl<S, R> Service<R> for Rescue<S>
where
    R: BorrowMut<Request<Body>>,
    S: Service<R, Response = Response<Body>, Error = Error>,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = RescueFuture<S::Future>;

    /// Always ready, because the stack refuses instead of waiting.
    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, mut request: R) -> Self::Future {
        let asked = request.borrow_mut();
        let path = asked.uri().path_and_query().cloned();
        let exchange = Arc::clone(RequestRecord::of(asked));
        let inner = match catch_unwind(AssertUnwindSafe(|| self.inner.call(request))) {
            Ok(future) => Call::Future { future },
            Err(panic) => Call::Panicked {
                error: Some(panicked(panic.as_ref())),
            },
        };
        RescueFuture {
            inner,
            path,
            exchange,
            has_names: self.has_names,
        }
    }
}

impl<F> Future for RescueFuture<F>
where
    F: Future<Output = Result<Response<Body>, Error>>,
{
    type Output = Result<Response<Body>, Infallible>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        // State that a panic leaves half done is never used again, because the inner future is not polled any
        // more. A response is large, so it is written to its place instead of being returned from the closure.
        let mut answer = None;
        match this.inner.project() {
            CallProjection::Panicked { error } => answer = error.take().map(Err),
            CallProjection::Future { future } => {
                let outcome = catch_unwind(AssertUnwindSafe(|| {
                    if let Poll::Ready(result) = future.poll(cx) {
                        answer = Some(result);
                    }
                }));
                if let Err(panic) = outcome {
                    answer = Some(Err(panicked(panic.as_ref())));
                }
            }
        }
        let error = match answer {
            None => return Poll::Pending,
            Some(Ok(response)) => return Poll::Ready(Ok(response)),
            Some(Err(error)) => error,
        };
        this.exchange.failed(error.code(), error.reason());
        if let Some(rule) = error.rule() {
            this.exchange.denied_by(rule);
        }
        if let Some(transaction) = error.transaction() {
            this.exchange.began(transaction);
        }
        if RecentFailures::takes(error.status().as_u16()) {
            let more = joined(chain(&error).skip(1));
            let colon = if more.is_empty() { "" } else { ": " };
            let cause = format!("{}{colon}{more}", error.message());
            this.exchange.explained(cause);
        }
        if error.is_of_catalog() {
            this.exchange.refused_by_catalog();
        }
        report(&error, this.exchange, *this.has_names);
        let path = this.path.as_ref().map_or("", PathAndQuery::path);
        let mut response = respond(&error, path);
        // Extensions cost two allocations, and most errors are the gateway's own.
        if error.origin() != ErrorOrigin::Gateway {
            response.extensions_mut().insert(error.origin());
        }
        Poll::Ready(Ok(response))
    }
}

/// Makes the response that an error becomes.
fn respond(error: &Error, path: &str) -> Response<Body> {
    let shape = ErrorBody {
        error: error.message(),
        code: error.code().number(),
        detail: error.detail().unwrap_or(""),
        instance: &path[..path.floor_char_boundary(MAX_INSTANCE)],
        transaction_id: error.transaction(),
        facts: error.facts(),
    };
    let body = serde_json::to_vec(&shape).expect("strings and a number are always JSON");
    let mut response = Response::new(Body::full(body));
    *response.status_mut() = error.status();
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    if let Some(wait) = error.retry_after() {
        headers.insert(RETRY_AFTER, wait.into());
    }
    for (name, value) in error.headers() {
        headers.append(name, value.clone());
    }
    response
}

fn panicked(panic: &(dyn Any + Send)) -> Error {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    let cause = format!("panic: {}", text.unwrap_or("without a message"));
    Error::internal("the gateway failed on this request", cause)
}

/// Logs an error, with the cause that the caller is not told. One that the log has already is shown at level debug, as
/// are refusals because of a limit: there can be thousands in a second. The access log has each, and the status page's
/// findings, which the log has, too, say who fills the limit.
fn report(error: &Error, exchange: &RequestRecord, has_names: bool) {
    let id = exchange.id();
    let operation = exchange
        .operation()
        .map_or("", |operation| operation.name());
    let status = error.status().as_u16();
    let is_told = has_names || !error.is_of_catalog();
    let message = if is_told { error.message() } else { UNTOLD };
    let is_limit = || error.reason().and_then(Limit::named).is_some();
    if error.status().is_server_error() && !error.is_logged() && !is_limit() {
        let cause = joined(chain(error).skip(1).filter(|_| is_told));
        tracing::warn!(id, operation, status, cause, "{message}");
    } else {
        tracing::debug!(id, operation, status, "{message}");
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test says what it expects")]
    use http::StatusCode;
    use tower::{ServiceExt as _, service_fn};

    use super::*;
    use crate::error::code::Code;
    use crate::error::retry_after::RetryAfter;

    async fn rescued(path: &str, fail: fn() -> Error) -> (Response<()>, String) {
        let inner =
            service_fn(move |_: Request<Body>| async move { Err::<Response<Body>, _>(fail()) });
        let request = Request::builder().uri(path).body(Body::empty()).unwrap();
        let Ok(response) = RescueLayer::new(true).layer(inner).oneshot(request).await;
        let (parts, body) = response.into_parts();
        let body = body.collect_up_to(1 << 20).await.unwrap();
        let text = String::from_utf8(body.to_vec()).unwrap();
        (Response::from_parts(parts, ()), text)
    }

    #[tokio::test]
    async fn an_error_becomes_the_shape_of_the_contract() {
        type Case = (fn() -> Error, u16, &'static str);
        let cases: [Case; 4] = [
            (
                || Error::new(Code::TableNotFound, "table a$b is not served here"),
                404,
                r#"{"error":"table a$b is not served here","code":4,"detail":"","instance":"/v1/table/a%24b/describe"}"#,
            ),
            (
                || {
                    Error::invalid("no")
                        .with_detail("because")
                        .with_status(StatusCode::PAYLOAD_TOO_LARGE)
                },
                413,
                r#"{"error":"no","code":13,"detail":"because","instance":"/v1/table/a%24b/describe"}"#,
            ),
            (
                || {
                    Error::unavailable("later")
                        .with_transaction("7")
                        .with_retry_after(RetryAfter::KEYS)
                },
                503,
                r#"{"error":"later","code":17,"detail":"","instance":"/v1/table/a%24b/describe","transaction_id":"7"}"#,
            ),
            (
                || Error::internal("it failed", "password=hunter2 at 10.0.0.1"),
                500,
                r#"{"error":"it failed","code":18,"detail":"","instance":"/v1/table/a%24b/describe"}"#,
            ),
        ];
        for (fail, status, expected) in cases {
            let (response, body) = rescued("/v1/table/a%24b/describe?delimiter=%24", fail).await;
            assert_eq!(response.status(), status);
            assert_eq!(body, expected);
            assert_eq!(response.headers()[CONTENT_TYPE], "application/json");
        }
        let later = || Error::unavailable("later").with_retry_after(RetryAfter::KEYS);
        let (response, _) = rescued("/x", later).await;
        assert_eq!(response.headers()[RETRY_AFTER], "5");
    }

    #[tokio::test]
    async fn a_long_path_is_cut() {
        let path = format!("/{}", "x".repeat(5000));
        let (_, body) = rescued(&path, || Error::invalid("no")).await;
        assert!(body.len() < MAX_INSTANCE + 100);
    }

    #[tokio::test]
    async fn a_panic_becomes_an_answer_that_does_not_tell_of_it() {
        let (response, body) = rescued("/x", || panic!("secret")).await;
        assert_eq!(response.status(), 500);
        assert!(
            body.contains("\"code\":18") && !body.contains("secret"),
            "{body}"
        );
    }

    /// A service that fails before there is a future to poll.
    struct Hasty;

    impl Service<Request<Body>> for Hasty {
        type Response = Response<Body>;
        type Error = Error;
        type Future = std::future::Ready<Result<Response<Body>, Error>>;

        fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Error>> {
            Poll::Ready(Ok(()))
        }

        fn call(&mut self, _: Request<Body>) -> Self::Future {
            panic!("secret")
        }
    }

    #[tokio::test]
    async fn a_panic_before_there_is_a_future_becomes_an_answer_too() {
        let request = Request::builder().uri("/x").body(Body::empty()).unwrap();
        let Ok(response) = RescueLayer::new(true).layer(Hasty).oneshot(request).await;
        assert_eq!(response.status(), 500);
        let body = response.into_body().collect_up_to(1 << 20).await.unwrap();
        let body = String::from_utf8(body.to_vec()).unwrap();
        assert!(
            body.contains("\"code\":18") && !body.contains("secret"),
            "{body}"
        );
    }
}
