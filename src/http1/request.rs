//! Reads requests of clients and writes requests to catalogs: which of them are plain enough not to be left to hyper.

use std::mem::MaybeUninit;

use bytes::Bytes;
use http::header::{CONTENT_LENGTH, HOST};
use http::uri::PathAndQuery;
use http::{HeaderMap, Method, Request};
use http_body::Body as _;
use httparse::{ParserConfig, Status};

use super::{HeaderCache, affects_framing, fields, write_header, write_number};
use crate::body::Body;

/// The largest number of headers of a request that is read here.
const MOST_FIELDS: usize = 64;
/// The longest body of a request that is written here, in bytes: as much as the system takes at once.
const LONGEST: u64 = 16 << 10;

/// A complete request.
pub(crate) struct ParsedRequest {
    pub(crate) request: Request<Body>,
    /// True if the client keeps the connection open.
    pub(crate) keeps_alive: bool,
    /// The bytes that came after it.
    pub(crate) rest: Bytes,
}

/// Headers that replace those of a request when it is written.
pub(crate) trait ExtraHeaders {
    /// True if one of the headers has this name.
    fn has(&self, name: &str) -> bool;

    /// Appends the headers as HTTP/1.1 spells them.
    fn write(&self, out: &mut Vec<u8>);
}

/// Parses the request at the start of `bytes`, whose head may have at most `longest` bytes. Its headers go into
/// `headers`, an empty map. Returns `None` if hyper must read the request, or more of it is to come.
pub(crate) fn read(
    bytes: &Bytes,
    longest: usize,
    known: &mut HeaderCache,
    mut headers: HeaderMap,
) -> Option<ParsedRequest> {
    let mut parsed = [const { MaybeUninit::uninit() }; MOST_FIELDS];
    let mut head = httparse::Request::new(&mut []);
    let status =
        ParserConfig::default().parse_request_with_uninit_headers(&mut head, bytes, &mut parsed);
    let Ok(Status::Complete(begin)) = status else {
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
    let mut hosts = 0;
    let framing = fields::read(head.headers, bytes, known, |name, value, written| {
        hosts += u32::from(name == HOST);
        headers.append(name, value);
        has_cr(bytes, written, 0).then_some(())
    })?;
    // `service` refuses such requests, for all that hyper has read.
    if hosts != 1 {
        return None;
    }
    let (body, end) = fields::body(bytes, begin, framing.length.unwrap_or(0))?;
    let mut request = Request::new(Body::full(body));
    *request.method_mut() = method;
    *request.uri_mut() = target.into();
    *request.headers_mut() = headers;
    Some(ParsedRequest {
        request,
        keeps_alive: framing.keeps_alive,
        rest: bytes.slice(end..),
    })
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

/// True if [`write_head`] can write `request`, as far as its headers allow.
pub(crate) fn is_plain(request: &Request<Body>) -> bool {
    let body = request.body();
    let length = body.size_hint().exact();
    body.is_whole()
        && length.is_some_and(|length| length <= LONGEST)
        && matches!(
            *request.method(),
            Method::GET | Method::POST | Method::PUT | Method::DELETE | Method::PATCH
        )
}

/// Appends `request` without its body, with the headers in `extra`. Returns false if hyper must write the request;
/// `out` is then useless.
pub(crate) fn write_head(
    out: &mut Vec<u8>,
    request: &Request<Body>,
    extra: &impl ExtraHeaders,
) -> bool {
    let path = request.uri().path_and_query();
    let path = path.map_or("/", PathAndQuery::as_str);
    out.extend_from_slice(request.method().as_str().as_bytes());
    out.push(b' ');
    out.extend_from_slice(path.as_bytes());
    out.extend_from_slice(b" HTTP/1.1\r\n");
    for (name, value) in request.headers() {
        let spelled = name.as_str();
        if affects_framing(spelled) {
            return false;
        }
        // The length of the body that is sent counts, and it is written once.
        if *name != CONTENT_LENGTH && !extra.has(spelled) {
            write_header(out, spelled, value);
        }
    }
    extra.write(out);
    if let Some(length) = stated_length(request) {
        out.extend_from_slice(b"content-length: ");
        write_number(out, length);
        out.extend_from_slice(b"\r\n");
    }
    out.extend_from_slice(b"\r\n");
    true
}

fn stated_length(request: &Request<Body>) -> Option<usize> {
    let length = usize::try_from(request.body().size_hint().lower()).unwrap_or_default();
    let is_stated = length > 0 || matches!(*request.method(), Method::POST | Method::PUT);
    is_stated.then_some(length)
}
