//! Reads answers of catalogs and writes answers to clients: which of them are plain enough not to be left to hyper.

use std::mem::MaybeUninit;

use bytes::Bytes;
use http::header::{CONNECTION, CONTENT_LENGTH, DATE};
use http::{HeaderMap, HeaderName, Response, StatusCode};
use http_body::Body as _;
use httparse::{ParserConfig, Status};
use hyper::ext::ReasonPhrase;

use super::date::write_date;
use super::pieces::Pieces;
use super::{HeaderCache, affects_framing, fields, has_body, write_header, write_number};
use crate::body::Body;

/// The largest number of headers of a response that is read here.
pub(super) const MOST_FIELDS: usize = 48;

/// The capacity for the headers of a response. A connection to a client reads its next request into the same map, and
/// the gateway adds some headers to that.
const CAPACITY: usize = 24;

/// A complete response.
pub(crate) struct ParsedResponse {
    pub(crate) response: Response<Bytes>,
    /// True if the connection stays open, and the catalog has sent nothing else.
    pub(crate) stays: bool,
}

/// The way in which a body is written after its head.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum BodyEncoder {
    /// The response has no body.
    None,
    /// The body as it is, of which this many bytes are still to come.
    Length(u64),
    /// The body in chunks (RFC 9112, section 7.1).
    Chunked,
}

/// The error for a body that is shorter or longer than its head says.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct WrongLength;

/// Parses the response in `bytes`, with the headers that `passes_on` accepts. Returns `None` if hyper must parse the
/// response, or if it is not complete.
pub(crate) fn read(
    bytes: &Bytes,
    known: &mut HeaderCache,
    passes_on: impl Fn(&HeaderName) -> bool,
) -> Option<ParsedResponse> {
    let mut parsed = [const { MaybeUninit::uninit() }; MOST_FIELDS];
    let mut head = httparse::Response::new(&mut []);
    let complete =
        ParserConfig::default().parse_response_with_uninit_headers(&mut head, bytes, &mut parsed);
    let Ok(Status::Complete(begin)) = complete else {
        return None;
    };
    let status = StatusCode::from_u16(head.code?).ok()?;
    if head.version != Some(1) || head.reason != status.canonical_reason() || !has_body(status) {
        return None;
    }
    let mut headers = HeaderMap::with_capacity(CAPACITY);
    let framing = fields::read(head.headers, bytes, known, |name, value, _| {
        if passes_on(&name) {
            headers.append(name, value);
        }
        Some(())
    })?;
    let (body, end) = fields::body(bytes, begin, framing.length?)?;
    let mut response = Response::new(body);
    *response.status_mut() = status;
    *response.headers_mut() = headers;
    Some(ParsedResponse {
        response,
        stays: framing.keeps_alive && end == bytes.len(),
    })
}

/// Appends the head of `response`. `closes` says whether the connection ends after it, and becomes true if a header of
/// the response says so. Returns how the body is to be written.
pub(crate) fn write_head(
    out: &mut Vec<u8>,
    response: &Response<Body>,
    closes: &mut bool,
) -> BodyEncoder {
    let status = response.status();
    let reason = response.extensions().get::<ReasonPhrase>();
    let reason = reason.map_or_else(
        // As hyper spells it.
        || status.canonical_reason().unwrap_or("<none>").as_bytes(),
        ReasonPhrase::as_bytes,
    );
    out.extend_from_slice(b"HTTP/1.1 ");
    out.extend_from_slice(status.as_str().as_bytes());
    out.push(b' ');
    out.extend_from_slice(reason);
    out.extend_from_slice(b"\r\n");
    let mut dated = false;
    for (name, value) in response.headers() {
        // The framing is that of this connection, and the length is that of the body which is sent.
        let spelled = name.as_str();
        if affects_framing(spelled) {
            *closes |= *name == CONNECTION;
            continue;
        }
        if *name == CONTENT_LENGTH {
            continue;
        }
        dated |= *name == DATE;
        write_header(out, spelled, value);
    }
    if *closes {
        out.extend_from_slice(b"connection: close\r\n");
    }
    let encoder = BodyEncoder::of(response);
    match encoder {
        BodyEncoder::None => {}
        BodyEncoder::Length(length) => {
            out.extend_from_slice(b"content-length: ");
            write_number(out, usize::try_from(length).unwrap_or(usize::MAX));
            out.extend_from_slice(b"\r\n");
        }
        BodyEncoder::Chunked => out.extend_from_slice(b"transfer-encoding: chunked\r\n"),
    }
    if !dated {
        // RFC 9110, section 6.6.1, requires it of a server that has a clock.
        out.extend_from_slice(b"date: ");
        write_date(out);
        out.extend_from_slice(b"\r\n");
    }
    out.extend_from_slice(b"\r\n");
    encoder
}

impl BodyEncoder {
    fn of(response: &Response<Body>) -> Self {
        if !has_body(response.status()) {
            return Self::None;
        }
        let length = response.body().size_hint().exact();
        length.map_or(Self::Chunked, Self::Length)
    }

    /// Appends the pieces that carry `data` to `out`.
    ///
    /// # Errors
    ///
    /// The body is longer than its head says.
    pub(crate) fn encode(&mut self, data: Bytes, out: &mut Pieces) -> Result<(), WrongLength> {
        // An empty chunk would end the body.
        if data.is_empty() {
            return Ok(());
        }
        match self {
            Self::None => {}
            Self::Length(left) => {
                *left = left.checked_sub(data.len() as u64).ok_or(WrongLength)?;
                out.push(data);
            }
            Self::Chunked => {
                out.push(format!("{:X}\r\n", data.len()).into());
                out.push(data);
                out.push(Bytes::from_static(b"\r\n"));
            }
        }
        Ok(())
    }

    /// Appends the end of the body to `out`.
    ///
    /// # Errors
    ///
    /// The body is shorter than its head says.
    pub(crate) fn end(&self, out: &mut Pieces) -> Result<(), WrongLength> {
        match self {
            Self::None | Self::Length(0) => Ok(()),
            Self::Length(_) => Err(WrongLength),
            Self::Chunked => {
                out.push(Bytes::from_static(b"0\r\n\r\n"));
                Ok(())
            }
        }
    }
}
