//! What the engine returned, as the contract's response.

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderValue, Response, StatusCode};
use lance_core::Error;
use lance_namespace::{NamespaceError, models};
use serde::Serialize;

use crate::body::Body;
use crate::error::code::Code;

/// A JSON value.
pub(super) fn json<T: Serialize>(status: StatusCode, value: T) -> Response<Body> {
    match serde_json::to_vec(&value) {
        Ok(json) => of_type("application/json", status, json),
        Err(cause) => error(
            Code::Internal,
            format!("Failed to serialize response: {cause}"),
        ),
    }
}

/// Nothing at all.
pub(super) fn nothing(status: StatusCode, (): ()) -> Response<Body> {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = status;
    response
}

/// An Arrow IPC file.
pub(super) fn arrow(status: StatusCode, file: Bytes) -> Response<Body> {
    of_type("application/vnd.apache.arrow.file", status, file)
}

/// The metadata alone: the contract sends and returns the map itself.
pub(super) fn metadata(
    status: StatusCode,
    answer: models::UpdateTableSchemaMetadataResponse,
) -> Response<Body> {
    json(status, answer.metadata.unwrap_or_default())
}

/// The engine's error with the contract's status and code; what has no code is 500, code 18.
pub(super) fn refusal(refusal: &Error) -> Response<Body> {
    let Error::Namespace { source, .. } = refusal else {
        return error(Code::Internal, refusal.to_string());
    };
    match source.downcast_ref::<NamespaceError>() {
        Some(known) => {
            let code = Code::from_number(known.code().as_u32().into()).unwrap_or(Code::Internal);
            error(code, known.message())
        }
        None => error(Code::Internal, source.to_string()),
    }
}

/// An error with the contract's status for `code`.
pub(super) fn error(code: Code, message: impl Into<String>) -> Response<Body> {
    error_as(code.status(), code, message.into())
}

/// 413, code 13.
pub(super) fn too_large(limit: usize) -> Response<Body> {
    let message =
        format!("the request body is larger than the {limit} bytes that this catalog takes");
    error_as(StatusCode::PAYLOAD_TOO_LARGE, Code::InvalidInput, message)
}

fn error_as(status: StatusCode, code: Code, message: String) -> Response<Body> {
    let mut body = models::ErrorResponse::new(code.number().into());
    body.error = Some(message);
    json(status, body)
}

fn of_type(media: &'static str, status: StatusCode, body: impl Into<Bytes>) -> Response<Body> {
    let mut response = Response::new(Body::full(body));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(media));
    response
}
