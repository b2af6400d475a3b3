//! HTTP/1.1 as nearly every request to a catalog speaks it: a request that is in memory, and an answer that comes in one
//! piece and says how long it is.
//!
//! What is anything else is left to hyper: requests are told by [`is_plain`], answers by [`read`]. See [`crate::plain`].

mod answer;
mod field;
mod sight;

use http::header::CONTENT_LENGTH;
use http::uri::PathAndQuery;
use http::{Method, Request};
use http_body::Body as _;

use crate::body::Body;
use crate::plain::{steers, write_number};
pub(super) use answer::{Whole, read};

/// The longest body of a request, in bytes: what the system takes at once.
const LONGEST: u64 = 16 << 10;

/// Whether `request` can be written by [`write`].
pub(super) fn is_plain(request: &Request<Body>) -> bool {
    let body = request.body();
    let length = body.size_hint().exact();
    body.is_whole()
        && length.is_some_and(|length| length <= LONGEST)
        && matches!(
            *request.method(),
            Method::GET | Method::POST | Method::PUT | Method::DELETE | Method::PATCH
        )
        && !request.headers().keys().any(steers)
}

/// Appends `request` with this `body` to `out`.
pub(super) fn write<B>(out: &mut Vec<u8>, request: &Request<B>, body: &[u8]) {
    let path = request.uri().path_and_query();
    let path = path.map_or("/", PathAndQuery::as_str);
    out.extend_from_slice(request.method().as_str().as_bytes());
    out.push(b' ');
    out.extend_from_slice(path.as_bytes());
    out.extend_from_slice(b" HTTP/1.1\r\n");
    for (name, value) in request.headers() {
        // What is sent is what counts, and it is said once.
        if *name == CONTENT_LENGTH {
            continue;
        }
        out.extend_from_slice(name.as_str().as_bytes());
        out.extend_from_slice(b": ");
        out.extend_from_slice(value.as_bytes());
        out.extend_from_slice(b"\r\n");
    }
    if !body.is_empty() || matches!(*request.method(), Method::POST | Method::PUT) {
        out.extend_from_slice(b"content-length: ");
        write_number(out, body.len());
        out.extend_from_slice(b"\r\n");
    }
    out.extend_from_slice(b"\r\n");
    out.extend_from_slice(body);
}

#[cfg(test)]
mod tests;
