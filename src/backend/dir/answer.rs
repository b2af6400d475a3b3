//! Converts the engine's results into the contract's responses.

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderValue, Response, StatusCode};
use lance_core::Error;
use lance_namespace::{NamespaceError, models};
use serde::Serialize;

use crate::body::Body;
use crate::error::code::Code;

/// Returns a response with a JSON body.
pub(super) fn json<T: Serialize>(status: StatusCode, value: T) -> Response<Body> {
    match serde_json::to_vec(&value) {
        Ok(json) => of_type("application/json", status, json),
        Err(cause) => error(
            Code::Internal,
            format!("Failed to serialize response: {cause}"),
        ),
    }
}

/// Returns a response without a body.
pub(super) fn nothing(status: StatusCode, (): ()) -> Response<Body> {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = status;
    response
}

/// Returns a response with an Arrow IPC file.
pub(super) fn arrow(status: StatusCode, file: Bytes) -> Response<Body> {
    of_type("application/vnd.apache.arrow.file", status, file)
}

/// Returns the metadata alone, because the contract sends and returns the map itself.
pub(super) fn metadata(
    status: StatusCode,
    answer: models::UpdateTableSchemaMetadataResponse,
) -> Response<Body> {
    json(status, answer.metadata.unwrap_or_default())
}

/// Returns the engine's error with the contract's status and code; 500, code 18, if it has no code.
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

/// Returns an error with the contract's status for `code`.
pub(super) fn error(code: Code, message: impl Into<String>) -> Response<Body> {
    error_as(code.status(), code, message.into())
}

/// Returns 413, code 13.
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
