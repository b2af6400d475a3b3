//! HTTP/1.1 as nearly every request to a catalog speaks it: a request that is in memory, and an answer that comes in one
//! piece and says how long it is.
//!
//! What is anything else is left to hyper: requests are told by [`is_plain`], answers by [`read`]. See [`crate::plain`].

use std::mem::MaybeUninit;

use bytes::Bytes;
use http::header::{CONNECTION, CONTENT_LENGTH, CONTENT_TYPE, HeaderName};
use http::uri::PathAndQuery;
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode};
use http_body::Body as _;
use httparse::{ParserConfig, Status};

use crate::body::Body;
use crate::plain::{goes_on, has_body, number, steers, write_number};

/// The longest body of a request, in bytes: what the system takes at once.
const LONGEST: u64 = 16 << 10;
/// Headers of an answer at most.
const FIELDS: usize = 48;
/// Room for so many headers at least: the map goes on to the client's connection, which reads its next request into it,
/// and the gateway adds some to that.
const ROOM: usize = 24;

const JSON: HeaderValue = HeaderValue::from_static("application/json");

/// An answer, all of it.
pub(super) struct Whole {
    pub(super) response: Response<Bytes>,
    /// The catalog goes on listening, and has said nothing else.
    pub(super) stays: bool,
}

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

/// The answer that `bytes` are, from its first to its last. `None`: it is another kind, or there is more of it to come.
pub(super) fn read(bytes: &Bytes) -> Option<Whole> {
    let mut fields = [const { MaybeUninit::uninit() }; FIELDS];
    let mut head = httparse::Response::new(&mut []);
    let parsed =
        ParserConfig::default().parse_response_with_uninit_headers(&mut head, bytes, &mut fields);
    let Ok(Status::Complete(begin)) = parsed else {
        return None;
    };
    let status = StatusCode::from_u16(head.code?).ok()?;
    if head.version != Some(1) || head.reason != status.canonical_reason() || !has_body(status) {
        return None;
    }
    let mut headers = HeaderMap::with_capacity(head.headers.len().max(ROOM));
    let (mut length, mut stays) = (None, true);
    for field in &*head.headers {
        if field.name.eq_ignore_ascii_case(CONNECTION.as_str()) {
            stays &= goes_on(field.value)?;
            continue;
        }
        let name = HeaderName::from_bytes(field.name.as_bytes()).ok()?;
        if steers(&name) {
            return None;
        }
        if name == CONTENT_LENGTH && length.replace(number(field.value)?).is_some() {
            return None;
        }
        let value = match field.value {
            // What nearly every answer says need not be held.
            b"application/json" if name == CONTENT_TYPE => JSON,
            value => HeaderValue::from_maybe_shared(bytes.slice_ref(value)).ok()?,
        };
        headers.append(name, value);
    }
    let end = begin.checked_add(length?)?;
    let mut response = Response::new((end <= bytes.len()).then(|| bytes.slice(begin..end))?);
    *response.status_mut() = status;
    *response.headers_mut() = headers;
    stays &= end == bytes.len();
    Some(Whole { response, stays })
}

#[cfg(test)]
mod tests;
