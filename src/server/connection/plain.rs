//! HTTP/1.1 as nearly every client speaks it: a request that comes in one piece, and an answer that is in memory.
//!
//! What is anything else is left to hyper, which would understand a request that [`read`] takes in the same way. See
//! [`crate::http1`].

use std::mem::MaybeUninit;
use std::time::SystemTime;

use bytes::Bytes;
use http::header::{CONTENT_LENGTH, DATE};
use http::uri::PathAndQuery;
use http::{HeaderMap, Method, Request, Response};
use http_body::Body as _;
use httparse::{ParserConfig, Status};
use hyper::ext::ReasonPhrase;

use crate::body::Body;
use crate::http1::{
    HeaderCache, affects_framing, has_body, is_keep_alive, note_length, write_header, write_number,
};

/// The longest body of an answer, in bytes: what the system takes at once.
const LONGEST: u64 = 16 << 10;
/// Headers of a request at most.
const FIELDS: usize = 64;

/// A request, all of it.
pub(super) struct ParsedRequest {
    pub(super) request: Request<Body>,
    /// What came behind it.
    pub(super) rest: Bytes,
}

/// The request that `bytes` begin with, its head of `longest` bytes at most. Its headers go into `headers`, an empty
/// map with room. `None`: it is another kind, or there is more of it to come.
pub(super) fn read(
    bytes: &Bytes,
    longest: usize,
    known: &mut HeaderCache,
    mut headers: HeaderMap,
) -> Option<ParsedRequest> {
    let mut fields = [const { MaybeUninit::uninit() }; FIELDS];
    let mut head = httparse::Request::new(&mut []);
    let parsed =
        ParserConfig::default().parse_request_with_uninit_headers(&mut head, bytes, &mut fields);
    let Ok(Status::Complete(begin)) = parsed else {
        return None;
    };
    if head.version != Some(1) || begin > longest {
        return None;
    }
    let target = head.path.filter(|path| path.starts_with('/'))?;
    if !has_cr(bytes, target, " HTTP/1.1".len()) || bytes[begin - 2] != b'\r' {
        return None;
    }
    let method = method(head.method?)?;
    let target = PathAndQuery::from_maybe_shared(bytes.slice_ref(target.as_bytes())).ok()?;
    headers.reserve(head.headers.len());
    let (mut length, mut hosts) = (None, 0);
    for (index, field) in head.headers.iter().enumerate() {
        if !has_cr(bytes, field.value, 0) {
            return None;
        }
        let (name, value) = known.read(index, (field.name.as_bytes(), field.value), bytes)?;
        match name.as_str() {
            "host" => hosts += 1,
            "content-length" => note_length(&mut length, field.value)?,
            "connection" if is_keep_alive(field.value)? => {}
            text if affects_framing(text) => return None,
            _ => {}
        }
        headers.append(name, value);
    }
    // Refused where all requests are that hyper has read.
    if hosts != 1 {
        return None;
    }
    known.end();
    let end = begin.checked_add(length.unwrap_or(0))?;
    let body = (end <= bytes.len()).then(|| bytes.slice(begin..end))?;
    let mut request = Request::new(Body::full(body));
    *request.method_mut() = method;
    *request.uri_mut() = target.into();
    *request.headers_mut() = headers;
    let rest = bytes.slice(end..);
    Some(ParsedRequest { request, rest })
}

/// Whether there is a CR where `part`, and so many bytes `behind` it, end: httparse takes a bare LF for the end of a line,
/// too. Space before a line's end is left to hyper.
fn has_cr(bytes: &[u8], part: impl AsRef<[u8]>, behind: usize) -> bool {
    let end = part.as_ref().as_ptr_range().end.addr() - bytes.as_ptr().addr();
    bytes.get(end + behind) == Some(&b'\r')
}

/// One whose answer has a body.
fn method(name: &str) -> Option<Method> {
    Some(match name {
        "GET" => Method::GET,
        "POST" => Method::POST,
        "PUT" => Method::PUT,
        "DELETE" => Method::DELETE,
        "PATCH" => Method::PATCH,
        _ => return None,
    })
}

/// Appends `response` to `out`, but for its body. `false`: it must be written by others, and what `out` holds is worth
/// nothing.
pub(super) fn write_head(out: &mut Vec<u8>, response: &Response<Body>) -> bool {
    let (status, body) = (response.status(), response.body());
    let length = body.size_hint().exact().filter(|exact| *exact <= LONGEST);
    let length = length.and_then(|length| usize::try_from(length).ok());
    let (Some(length), Some(reason)) = (length, status.canonical_reason()) else {
        return false;
    };
    let said = response.extensions().get::<ReasonPhrase>();
    if !body.is_whole() || !has_body(status) || said.is_some() {
        return false;
    }
    out.extend_from_slice(b"HTTP/1.1 ");
    out.extend_from_slice(status.as_str().as_bytes());
    out.push(b' ');
    out.extend_from_slice(reason.as_bytes());
    out.extend_from_slice(b"\r\n");
    let mut dated = false;
    for (name, value) in response.headers() {
        if affects_framing(name.as_str()) {
            return false;
        }
        // What is sent is what counts, and it is said once.
        if *name == CONTENT_LENGTH {
            continue;
        }
        dated |= *name == DATE;
        write_header(out, name, value);
    }
    out.extend_from_slice(b"content-length: ");
    write_number(out, length);
    if !dated {
        // As RFC 9110, section 6.6.1, wants it of whoever has a clock.
        out.extend_from_slice(b"\r\ndate: ");
        out.extend_from_slice(httpdate::fmt_http_date(SystemTime::now()).as_bytes());
    }
    out.extend_from_slice(b"\r\n\r\n");
    true
}
