//! The HTTP/1.1 fast path of nearly every request to a catalog: a request that is in memory, and an answer that comes
//! in one piece and states its length.
//!
//! hyper handles all other messages. [`is_plain`] recognizes such requests, and [`read`] such answers. See
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

/// The longest body of a request, in bytes: as much as the system takes at once.
const LONGEST: u64 = 16 << 10;
/// The longest head of a request, in bytes. If hyper takes over, it writes the request once more. It would flush a
/// longer head before all of it is written, and the rest would reach the catalog.
pub(in crate::backend) const LONGEST_HEAD: usize = 128 << 10;

/// True if [`write_head`] can write `request`, as far as its headers allow.
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

/// Appends `request` without its body, with the headers in `added`. Returns false if hyper must write the request;
/// `out` is then useless.
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
        // The length of the body that is sent counts, and it is written once.
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
