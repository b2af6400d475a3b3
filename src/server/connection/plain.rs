//! HTTP/1.1 in its usual form: a request in one piece, and a response in memory.
//!
//! hyper handles everything else, and would parse a request that [`read`] accepts in the same way. See
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

/// The longest response body that is written here, in bytes: as much as the system takes at once.
const LONGEST: u64 = 16 << 10;
/// The most headers that a request may have here.
const FIELDS: usize = 64;

/// A complete request.
pub(super) struct ParsedRequest {
    pub(super) request: Request<Body>,
    /// The bytes that came after it.
    pub(super) rest: Bytes,
}

/// Parses the request at the start of `bytes`, whose head may have at most `longest` bytes. Its headers go into
/// `headers`, an empty map with capacity. Returns `None` if hyper has to read the request, or more of it is to come.
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
    // `service` refuses such requests, for all that hyper has read.
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

/// True if there is a CR `behind` bytes after the end of `part`. httparse takes a bare LF as the end of a line, too. A
/// line with space before its end is left to hyper.
fn has_cr(bytes: &[u8], part: impl AsRef<[u8]>, behind: usize) -> bool {
    let end = part.as_ref().as_ptr_range().end.addr() - bytes.as_ptr().addr();
    bytes.get(end + behind) == Some(&b'\r')
}

/// Returns the method if its response has a body; `None` for any other.
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

/// Appends the head of `response` to `out`. Returns false if hyper has to write the response; `out` is useless then.
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
        // The length is that of the body which is sent, and is written once.
        if *name == CONTENT_LENGTH {
            continue;
        }
        dated |= *name == DATE;
        write_header(out, name, value);
    }
    out.extend_from_slice(b"content-length: ");
    write_number(out, length);
    if !dated {
        // RFC 9110, section 6.6.1, requires it of a server that has a clock.
        out.extend_from_slice(b"\r\ndate: ");
        out.extend_from_slice(httpdate::fmt_http_date(SystemTime::now()).as_bytes());
    }
    out.extend_from_slice(b"\r\n\r\n");
    true
}
