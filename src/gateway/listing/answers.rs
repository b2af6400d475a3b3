//! Answers of catalogs, and the response that is made of one.

use bytes::Bytes;
use http::header::{CONTENT_ENCODING, CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{HeaderName, HeaderValue, Response, StatusCode};

use crate::backend::InternalAnswer;
use crate::body::Body;
use crate::error::code::Code;

/// True if a catalog answers that it has no such namespace. Any other 404 has another meaning.
pub(super) fn lacks_namespace(answer: &InternalAnswer) -> bool {
    #[derive(serde::Deserialize)]
    struct Refusal {
        code: u64,
    }
    answer.status == StatusCode::NOT_FOUND
        && serde_json::from_slice(&answer.body)
            .is_ok_and(|Refusal { code }| Code::from_number(code) == Some(Code::NamespaceNotFound))
}

/// Returns a catalog's own answer as the response.
pub(super) fn pass(answer: InternalAnswer) -> Response<Body> {
    const PASSED: [HeaderName; 4] = [
        // Some catalogs compress although the request forbids it.
        CONTENT_ENCODING,
        CONTENT_TYPE,
        RETRY_AFTER,
        WWW_AUTHENTICATE,
    ];
    let mut response = Response::new(Body::full(answer.body));
    *response.status_mut() = answer.status;
    for name in PASSED {
        if let Some(value) = answer.headers.get(&name) {
            response.headers_mut().insert(name, value.clone());
        }
    }
    response
}

/// Returns a response of JSON.
pub(super) fn json(body: Bytes) -> Response<Body> {
    let mut response = Response::new(Body::full(body));
    let kind = HeaderValue::from_static("application/json");
    response.headers_mut().insert(CONTENT_TYPE, kind);
    response
}
