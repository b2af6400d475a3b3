//! Has each request line recognized (`protocol/operation/recognize.rs`), notes operation and identifier, or refuses the
//! request.
//!
//! The layer comes before authentication, so that a caller without a token learns only which routes
//! exist.

use std::borrow::Cow;

use http::Request;
use tower::Layer;

use super::guard::{Guard, GuardService};
use crate::body::Body;
use crate::error::Error;
use crate::protocol::identifier::Identifier;
use crate::protocol::operation::{Operation, recognize};
use crate::protocol::query::{DEFAULT_DELIMITER, Query, QueryError, read_delimiter};
use crate::request::context::RequestContext;

/// Makes [`Recognize`].
#[derive(Clone, Copy, Debug)]
pub struct RecognizeLayer;

/// The service. Notes the operation and, if the path names one, the [`Identifier`].
pub type Recognize<S> = GuardService<S, RecognizeLayer>;

impl<S> Layer<S> for RecognizeLayer {
    type Service = Recognize<S>;

    fn layer(&self, inner: S) -> Recognize<S> {
        GuardService::new(inner, *self)
    }
}

impl Guard for RecognizeLayer {
    fn admit(&self, request: &mut Request<Body>) -> Result<(), Error> {
        note(request)
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
    Ok(())
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
        let response = RecognizeLayer.layer(inner).oneshot(request).await?;
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
}
