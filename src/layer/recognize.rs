//! Has each request line recognized (`protocol/operation/recognize.rs`), notes operation and identifier, or refuses the
//! request.
//!
//! The layer comes before authentication, so that a caller without a token learns only which routes
//! exist.

use std::borrow::{BorrowMut, Cow};
use std::future::{Ready, ready};
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_util::future::Either;
use http::header::CACHE_CONTROL;
use http::{HeaderValue, Method, Request, Response, StatusCode};
use http_body::Body as _;
use tower::{Layer, Service};

use super::refused::RefusedFuture;
use crate::body::Body;
use crate::error::Error;
use crate::protocol::identifier::Identifier;
use crate::protocol::operation::{Operation, recognize};
use crate::protocol::query::{DEFAULT_DELIMITER, Query, QueryError, read_delimiter};
use crate::request::context::RequestContext;

/// Makes [`Recognize`].
#[derive(Clone, Default)]
pub struct RecognizeLayer {
    health: Option<HealthPath>,
}

/// The service. Notes the operation and, if the path names one, the [`Identifier`].
#[derive(Clone)]
pub struct Recognize<S> {
    inner: S,
    health: Option<HealthPath>,
}

/// A path that answers 200 if the gateway is ready, else 503, to everyone. It is no route of the contract, so it is
/// looked at only when a request has none.
#[derive(Clone)]
pub struct HealthPath(Arc<(Box<str>, IsReady)>);

/// Tells whether the gateway is ready to serve.
type IsReady = Box<dyn Fn() -> bool + Send + Sync>;

impl HealthPath {
    /// Returns the path. `is_ready` is called for each request to it.
    pub fn new(path: &str, is_ready: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        Self(Arc::new((path.into(), Box::new(is_ready))))
    }

    /// Returns the answer to a request; `None` if it has another path.
    fn answer(&self, request: &Request<Body>) -> Option<Response<Body>> {
        let (path, is_ready) = &*self.0;
        let reads = matches!(*request.method(), Method::GET | Method::HEAD);
        if !reads || request.uri().path() != &**path {
            return None;
        }
        let mut response = Response::new(Body::empty());
        if !is_ready() {
            *response.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
        }
        let no_store = HeaderValue::from_static("no-store");
        response.headers_mut().insert(CACHE_CONTROL, no_store);
        Some(response)
    }
}

impl RecognizeLayer {
    /// Recognizes the contract's routes and, if there is one, the path for load balancers.
    pub fn new(health: Option<HealthPath>) -> Self {
        Self { health }
    }
}

impl<S> Layer<S> for RecognizeLayer {
    type Service = Recognize<S>;

    fn layer(&self, inner: S) -> Recognize<S> {
        Recognize {
            inner,
            health: self.health.clone(),
        }
    }
}

impl<S, R> Service<R> for Recognize<S>
where
    R: BorrowMut<Request<Body>>,
    S: Service<R, Response = Response<Body>, Error = Error>,
{
    type Response = Response<Body>;
    type Error = Error;
    type Future = Either<S::Future, Either<RefusedFuture, Ready<Result<Response<Body>, Error>>>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, mut request: R) -> Self::Future {
        let Err(error) = note(request.borrow_mut()) else {
            return Either::Left(self.inner.call(request));
        };
        let health = self.health.as_ref();
        let answer = health.and_then(|health| health.answer(request.borrow()));
        Either::Right(match answer {
            Some(answer) => Either::Right(ready(Ok(answer))),
            None => Either::Left(RefusedFuture::with(error)),
        })
    }
}

fn note(request: &mut Request<Body>) -> Result<(), Error> {
    let target = recognize(request.method(), request.uri().path())?;
    let operation: Operation = target.operation;
    let query = Query::new(request.uri().query());
    let delimiter = read_delimiter(query.check()?);
    let has_default_delimiter = delimiter
        .as_ref()
        .is_ok_and(|delimiter| delimiter == DEFAULT_DELIMITER);
    let identifier = target.id.map(|segment| identifier(segment, delimiter));
    let learned = RequestContext::more(request.extensions_mut());
    if let Some(why) = learned.malformed {
        return Err(Error::invalid(why));
    }
    if let Some(exchange) = &learned.exchange {
        exchange.recognized(operation);
    }
    learned.operation = Some(operation);
    learned.identifier = identifier.transpose()?;
    if let (Some(exchange), Some(name)) = (&learned.exchange, &learned.identifier) {
        exchange.named(name);
    }
    learned.has_default_delimiter = Some(has_default_delimiter);
    check_body(request)
}

/// Refuses a body where no operation has one: a catalog that does not read it takes it for the next request of the
/// connection (RFC 9110, section 9.3.1). Over HTTP/2, a body without a length may still be empty, but that is known too
/// late.
fn check_body(request: &Request<Body>) -> Result<(), Error> {
    let may_have_one = matches!(
        *request.method(),
        Method::POST | Method::PUT | Method::PATCH
    );
    if may_have_one || request.body().size_hint().exact() == Some(0) {
        return Ok(());
    }
    Err(Error::invalid(format!(
        "a {} request has no body: send it without `transfer-encoding`, and without a `content-length` above 0",
        request.method()
    )))
}

fn identifier(
    segment: &str,
    delimiter: Result<Cow<'_, str>, QueryError>,
) -> Result<Identifier, Error> {
    Ok(Identifier::parse_segment(segment, &delimiter?)?)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test says what it expects")]
    use http::{Method, Response, StatusCode};
    use tower::{ServiceExt as _, service_fn};

    use super::*;

    async fn ask(method: Method, target: &str) -> Result<(Operation, Option<String>), Error> {
        let inner = service_fn(async |request: Request<Body>| {
            let mut response = Response::new(Body::empty());
            *response.extensions_mut() = request.extensions().clone();
            Ok::<_, Error>(response)
        });
        let request = Request::builder().method(method).uri(target);
        let request = request.body(Body::empty()).unwrap();
        let response = RecognizeLayer::default()
            .layer(inner)
            .oneshot(request)
            .await?;
        let learned = RequestContext::of(response.extensions());
        let identifier = learned.identifier.as_ref().map(ToString::to_string);
        Ok((learned.operation.unwrap(), identifier))
    }

    #[tokio::test]
    async fn what_is_asked_becomes_known_to_the_layers_inside() {
        let cases = [
            (
                Method::POST,
                "/v1/table/a%24b/describe",
                Operation::DescribeTable,
                Some("a$b"),
            ),
            (
                Method::POST,
                "/v1/table/a.b/describe?delimiter=.",
                Operation::DescribeTable,
                Some("a$b"),
            ),
            (
                Method::GET,
                "/v1/table?limit=1",
                Operation::ListAllTables,
                None,
            ),
        ];
        for (method, target, operation, identifier) in cases {
            let (seen, named) = ask(method, target).await.unwrap();
            assert_eq!(
                (seen, named.as_deref()),
                (operation, identifier),
                "{target}"
            );
        }
    }

    #[tokio::test]
    async fn what_is_no_operation_is_refused() {
        let cases = [
            (Method::GET, "/nothing", StatusCode::NOT_FOUND, 0),
            (
                Method::GET,
                "/v1/table/t/describe",
                StatusCode::METHOD_NOT_ALLOWED,
                0,
            ),
            (
                Method::POST,
                "/v1/table/a$$b/describe",
                StatusCode::BAD_REQUEST,
                13,
            ),
            (
                Method::POST,
                "/v1/table/t/describe?delimiter=",
                StatusCode::BAD_REQUEST,
                13,
            ),
        ];
        for (method, target, status, code) in cases {
            let error = ask(method, target).await.unwrap_err();
            assert_eq!((error.status(), error.code().number()), (status, code));
        }
    }

    #[tokio::test]
    async fn the_health_path_answers_by_readiness_and_nothing_else_changes() {
        for is_ready in [true, false] {
            let layer = RecognizeLayer::new(Some(HealthPath::new("/healthz", move || is_ready)));
            let ask = |method: Method, target: &str| {
                let inner = service_fn(async |_: Request<Body>| {
                    Ok::<_, Error>(Response::new(Body::full("served")))
                });
                let request = Request::builder().method(method).uri(target);
                let request = request.body(Body::empty()).unwrap();
                layer.layer(inner).oneshot(request)
            };
            for (method, target) in [
                (Method::GET, "/healthz"),
                (Method::HEAD, "/healthz"),
                (Method::GET, "/healthz?x=1"),
            ] {
                let status = ask(method, target).await.unwrap().status();
                let expected = if is_ready { 200 } else { 503 };
                assert_eq!(status.as_u16(), expected, "{target}");
            }
            for (method, target) in [
                (Method::POST, "/healthz"),
                (Method::GET, "/healthz/"),
                (Method::GET, "/healthz2"),
                (Method::GET, "//healthz"),
            ] {
                let refused = ask(method, target).await.err().unwrap();
                assert_eq!(refused.status(), StatusCode::NOT_FOUND, "{target}");
            }
            assert!(ask(Method::GET, "/v1/table").await.is_ok());
        }
    }
}
