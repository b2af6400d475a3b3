//! HTTP/1.1 as nearly every request to a catalog speaks it: a request that is in memory, and an answer that comes in
//! one piece and says how long it is.
//!
//! What is anything else is left to hyper: requests are told by [`is_plain`], answers by [`read`]. See
//! [`crate::http1`].

mod answer;

use http::header::CONTENT_LENGTH;
use http::uri::PathAndQuery;
use http::{Method, Request};
use http_body::Body as _;

use crate::backend::rest::injected::InjectedHeaders;
use crate::body::Body;
use crate::http1::{affects_framing, write_header, write_number};
pub(super) use answer::{ParsedAnswer, read};

/// The longest body of a request, in bytes: what the system takes at once.
const LONGEST: u64 = 16 << 10;
/// The longest head of a request, in bytes. Where hyper takes over it writes the request once more, and what it writes
/// after it has flushed a head that is too long for it to hold back would reach the catalog.
pub(in crate::backend) const LONGEST_HEAD: usize = 128 << 10;

/// Whether `request` can be written by [`write_head`], as far as its headers allow.
pub(in crate::backend) fn is_plain(request: &Request<Body>) -> bool {
    let body = request.body();
    let length = body.size_hint().exact();
    body.is_whole()
        && length.is_some_and(|length| length <= LONGEST)
        && matches!(
            *request.method(),
            Method::GET | Method::POST | Method::PUT | Method::DELETE | Method::PATCH
        )
}

/// Appends `request`, but for its body, with what is `added` to it. `false`: it must be written by others, and what
/// `out` holds is worth nothing.
pub(in crate::backend) fn write_head(
    out: &mut Vec<u8>,
    request: &Request<Body>,
    added: InjectedHeaders<'_>,
) -> bool {
    let path = request.uri().path_and_query();
    let path = path.map_or("/", PathAndQuery::as_str);
    out.extend_from_slice(request.method().as_str().as_bytes());
    out.push(b' ');
    out.extend_from_slice(path.as_bytes());
    out.extend_from_slice(b" HTTP/1.1\r\n");
    for (name, value) in request.headers() {
        if affects_framing(name.as_str()) {
            return false;
        }
        // Of the length, what is sent is what counts, and it is said once.
        if *name != CONTENT_LENGTH && !added.has(name.as_str()) {
            write_header(out, name, value);
        }
    }
    added.write(out);
    let length = usize::try_from(request.body().size_hint().lower()).unwrap_or_default();
    if length > 0 || matches!(*request.method(), Method::POST | Method::PUT) {
        out.extend_from_slice(b"content-length: ");
        write_number(out, length);
        out.extend_from_slice(b"\r\n");
    }
    out.extend_from_slice(b"\r\n");
    out.len() <= LONGEST_HEAD
}

#[cfg(test)]
mod tests;
