//! Reads a request's body on its way to a catalog: JSON whole and checked, everything else as a stream; limits its size
//! and how slowly it may come.

use std::borrow::Cow;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use http::header::{CONTENT_ENCODING, CONTENT_TYPE, TRANSFER_ENCODING};
use http::{HeaderMap, HeaderValue, Request, StatusCode};
use http_body::Body as _;
use tokio::time::timeout;

use crate::body::{Body, Collect, CollectError};
use crate::error::Error;
use crate::error::code::Code;
use crate::error::retry_after::RetryAfter;
use crate::metrics::Limit;
use crate::protocol::context::Source;
use crate::protocol::identifier::{Identifier, decode_segment};
use crate::protocol::operation::{Operation, Payload, recognize};
use crate::protocol::{rewrite, shape};
use crate::request::RequestRecord;
use crate::request::caller::Caller;
use crate::request::context::RequestContext;
use crate::request::held::{CountedBody, HeldBodies, NoRoom};

/// The content types of Arrow. A catalog may treat any other type with the same beginning as JSON, such as
/// `application/vnd.apache.arrow.stream+json` (RFC 6839).
const ARROW: [&str; 2] = [
    "application/vnd.apache.arrow.stream",
    "application/vnd.apache.arrow.file",
];

/// The lowest rate of a body that must be read whole, in bytes a second.
const SLOWEST: u64 = 64 << 10;
/// The time that such a body may take in addition, in seconds. A slow body holds memory and a place among the
/// requests that are served.
const MIN_PATIENCE: u64 = 30;

/// The limits on bodies that are read whole.
#[derive(Clone)]
pub struct BodyLimits {
    /// The largest body, in bytes.
    pub json: usize,
    /// The memory of all bodies.
    pub held: Arc<HeldBodies>,
}

/// The facts in a body that matter after it was checked.
#[derive(Default)]
pub(super) struct BodyFlags {
    /// True if the body asks for `load_detailed_metadata`.
    pub(super) with_details: bool,
    /// True if the body's `mode` may overwrite an existing object.
    pub(super) overwrites: bool,
}

/// Reads a body that must be checked, checks it against the route, and replaces it by the form for the catalog.
///
/// `id` is the route's identifier, if it has one. `locate` returns the catalog's spelling of an identifier in the
/// body, or `None` if the client's spelling is the same; its error is the answer to the request. Entries of the
/// body's `context` are added to those of the request.
pub(super) async fn admit(
    request: &mut Request<Body>,
    operation: Operation,
    id: Option<&Identifier>,
    limits: &BodyLimits,
    locate: impl FnMut(&Identifier) -> Result<Option<Identifier>, Error>,
) -> Result<BodyFlags, Error> {
    if !is_read(operation, request.headers()) {
        decodable(request.headers())?;
        let body = std::mem::take(request.body_mut());
        let body = body.unless_json();
        *request.body_mut() = body.map_err(|error| Error::invalid(error.to_string()))?;
        return Ok(BodyFlags::default());
    }
    let body = match at_hand(request.body_mut(), limits.json) {
        Some(body) => body,
        // Boxed, so that the future of most requests stays small.
        None => Box::pin(read_counted(request, limits)).await?,
    };
    shape::check(operation, &body).map_err(|error| coded(request).unwrap_or(error))?;
    if body.is_empty() {
        return Ok(BodyFlags::default());
    }
    let index_name = index_name(operation, request)?;
    let asked = rewrite::RequestRoute {
        operation,
        id,
        index_name: index_name.as_deref(),
    };
    let mut adds = false;
    let checked = rewrite::request(asked, body, locate, |key, value| {
        adds = true;
        match &mut RequestContext::more(request.extensions_mut()).context {
            Some(context) => Ok(context.add_body(key, value)?),
            None => Ok(true),
        }
    });
    let checked = checked.map_err(|error| coded(request).unwrap_or(error))?;
    if adds {
        describe(request);
    }
    *request.body_mut() = Body::full(checked.body);
    Ok(BodyFlags {
        with_details: checked.with_details,
        overwrites: checked.overwrites,
    })
}

/// Adds the context entries of the body to the request's record, if context is shown in the access log.
fn describe(request: &mut Request<Body>) {
    let context = RequestContext::of(request.extensions()).context.as_ref();
    let shows = context.filter(|context| context.shows());
    if let Some(shown) = shows.map(|context| context.shown(Source::Body).collect::<Vec<_>>()) {
        RequestRecord::of(request).described(shown);
    }
}

/// Returns the index that the route names, decoded; `None` for operations whose route names none.
fn index_name(operation: Operation, request: &Request<Body>) -> Result<Option<String>, Error> {
    if !matches!(
        operation,
        Operation::DescribeTableIndexStats | Operation::DropTableIndex | Operation::Unlisted(_)
    ) {
        return Ok(None);
    }
    let target = recognize(request.method(), request.uri().path()).ok();
    let raw = target.and_then(|target| target.index_name);
    Ok(raw.map(decode_segment).transpose()?.map(Cow::into_owned))
}

/// Returns the refusal of an unreadable body that has a content coding; `None` if it has none. The gateway decodes no
/// content coding (RFC 9110, section 15.5.16).
fn coded(request: &Request<Body>) -> Option<Error> {
    let coding = request.headers().get(CONTENT_ENCODING)?;
    let coding = coding.to_str().unwrap_or_default();
    let message = format!(
        "the content-encoding `{coding}` is not supported for a JSON body; send the body uncompressed"
    );
    Some(Error::invalid(message).with_status(StatusCode::UNSUPPORTED_MEDIA_TYPE))
}

/// Refuses a body with a transfer coding besides chunked: the header does not go upstream, so no recipient would
/// decode it (RFC 9112, section 6.1). A body that is read whole would not be JSON.
fn decodable(headers: &HeaderMap) -> Result<(), Error> {
    let mut codings = headers.get_all(TRANSFER_ENCODING).iter();
    match (codings.next(), codings.next()) {
        (None, _) => Ok(()),
        (Some(only), None) if only.as_bytes().eq_ignore_ascii_case(b"chunked") => Ok(()),
        _ => Err(Error::invalid(
            "`transfer-encoding` may only be `chunked`; send the body without another coding",
        )
        .with_status(StatusCode::NOT_IMPLEMENTED)),
    }
}

/// True if a body must be read and checked before the catalog may see it.
///
/// An operation outside the contract streams its body only if the content type is Arrow's: a catalog may treat any
/// other as JSON. An operation whose body is Arrow streams it unless its content type is JSON or repeated.
fn is_read(operation: Operation, headers: &HeaderMap) -> bool {
    match operation {
        Operation::Unlisted(_) => !says_arrow(headers),
        _ => {
            let is_arrow = matches!(
                operation.request_body(),
                Payload::ArrowStream | Payload::ArrowFile
            );
            !is_arrow || says_json(headers)
        }
    }
}

/// True if some server may treat the body as JSON: of two content types it may use either.
fn says_json(headers: &HeaderMap) -> bool {
    let is_json = |value: &HeaderValue| {
        let said = value.as_bytes();
        // Most bodies have this type.
        if said == ARROW[0].as_bytes() {
            return false;
        }
        said.windows(4)
            .any(|four| four.eq_ignore_ascii_case(b"json"))
    };
    let mut said = headers.get_all(CONTENT_TYPE).iter();
    said.next().is_some_and(is_json) || said.next().is_some()
}

/// True if the body has a single content type and it is Arrow: of two types a catalog may use either.
fn says_arrow(headers: &HeaderMap) -> bool {
    let is_arrow = |value: &HeaderValue| {
        let said = value.to_str().unwrap_or_default();
        let essence = said.split(';').next().unwrap_or_default();
        ARROW.contains(&essence.trim_end())
    };
    let mut said = headers.get_all(CONTENT_TYPE).iter();
    said.next().is_some_and(is_arrow) && said.next().is_none()
}

/// Returns a body that arrived whole with its head, as most do; `None` if more is to come or if it exceeds `limit`.
fn at_hand(body: &mut Body, limit: usize) -> Option<Bytes> {
    let fits = body.size_hint().lower() <= limit as u64;
    fits.then(|| body.take_whole()).flatten()
}

/// Reads a request's body whole, and counts it among those that are held, as long as the extensions of the request exist.
/// Otherwise the same as [`read`]; 503, code 17, if there is no memory for it.
pub(crate) async fn read_counted(
    request: &mut Request<Body>,
    limits: &BodyLimits,
) -> Result<Bytes, Error> {
    if let Some(body) = at_hand(request.body_mut(), limits.json) {
        return Ok(body);
    }
    let held = Arc::new(limits.held.hold(&Caller::of(request)));
    let body = std::mem::take(request.body_mut());
    let body = Body::stream(CountedBody::new(body, Arc::clone(&held)));
    let read = read(body, limits.json).await?;
    request.extensions_mut().insert(held);
    Ok(read)
}

/// Reads a body whole. 413, code 13, if it is longer than `limit`; 408, code 13, if it takes longer than the longest
/// body may take.
pub(crate) async fn read(mut body: Body, limit: usize) -> Result<Bytes, Error> {
    if let Some(body) = at_hand(&mut body, limit) {
        return Ok(body);
    }
    if body.is_end_stream() {
        return Ok(Bytes::new());
    }
    if body.size_hint().lower() > limit as u64 {
        return Err(unread(CollectError::TooLarge, limit));
    }
    // Most bodies arrive with their heads and in one piece; only the others need a buffer and a timer.
    let at_once = poll_fn(|cx| Poll::Ready(Pin::new(&mut body).poll_frame(cx))).await;
    let first = match at_once {
        Poll::Ready(None) => return Ok(Bytes::new()),
        Poll::Ready(Some(Err(cause))) => return Err(unread(CollectError::Broken(cause), limit)),
        Poll::Ready(Some(Ok(frame))) => frame.into_data().unwrap_or_default(),
        Poll::Pending => Bytes::new(),
    };
    if first.len() <= limit && body.is_end_stream() {
        return Ok(first);
    }
    let all = body.collect_after(first, limit);
    let read = Box::pin(read_in_time(all, limit)).await?;
    read.map_err(|error| unread(error, limit))
}

/// Returns the error for a body that could not be read: 413, code 13, if it is longer than `limit`.
fn unread(error: CollectError, limit: usize) -> Error {
    match error {
        CollectError::TooLarge => Error::new(
            Code::InvalidInput,
            format!("the body is longer than `limits.json_body`, {limit} bytes"),
        )
        .with_status(StatusCode::PAYLOAD_TOO_LARGE),
        CollectError::Broken(cause) => match cause.downcast_ref() {
            Some(full) => no_room(*full),
            None => Error::invalid("the body was cut off before its end").with_cause(cause),
        },
    }
}

/// Returns the error for a body that gets no more memory: 503, code 17.
pub(super) fn no_room(full: NoRoom) -> Error {
    let limit = match full {
        NoRoom::All => Limit::Bodies,
        NoRoom::Share => Limit::Share,
    };
    Error::unavailable(full.to_string())
        .because(limit.as_str())
        .with_retry_after(RetryAfter::SOON)
}

async fn read_in_time(body: Collect, limit: usize) -> Result<Result<Bytes, CollectError>, Error> {
    let patience = Duration::from_secs(MIN_PATIENCE + limit as u64 / SLOWEST);
    timeout(patience, body).await.map_err(|_| {
        Error::invalid("the body took too long to arrive").with_status(StatusCode::REQUEST_TIMEOUT)
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test says what it expects")]
    use super::*;
    use crate::protocol::operation::Kind;

    #[tokio::test(start_paused = true)]
    async fn a_body_that_never_ends_is_not_waited_for_for_ever() {
        let silent = futures_util::stream::pending::<
            Result<http_body::Frame<Bytes>, crate::error::BoxError>,
        >();
        let body = Body::stream(http_body_util::StreamBody::new(silent));
        let error = read(body, 8 << 20).await.unwrap_err();
        assert_eq!((error.status().as_u16(), error.code().number()), (408, 13));
    }

    #[tokio::test]
    async fn a_body_is_read_up_to_the_limit_in_however_many_pieces_it_comes() {
        let cases: [(&[&str], Option<&str>); 6] = [
            (&[], Some("")),
            (&["abcde"], Some("abcde")),
            (&["abc", "de"], Some("abcde")),
            (&["", "a", "b"], Some("ab")),
            (&["abcdef"], None),
            (&["abc", "def"], None),
        ];
        for (pieces, expected) in cases {
            let frames = pieces.iter().map(|piece| {
                let data = Bytes::copy_from_slice(piece.as_bytes());
                Ok::<_, crate::error::BoxError>(http_body::Frame::data(data))
            });
            let frames: Vec<_> = frames.collect();
            let stream = futures_util::stream::iter(frames);
            let body = Body::stream(http_body_util::StreamBody::new(stream));
            let read = read(body, 5).await.map_err(|error| error.status());
            let expected = expected.ok_or(StatusCode::PAYLOAD_TOO_LARGE);
            assert_eq!(read, expected.map(Bytes::from), "{pieces:?}");
        }
    }

    #[test]
    fn what_a_catalog_could_take_for_json_is_read() {
        let unlisted = Operation::Unlisted(Kind::Table);
        let cases = [
            (unlisted, Some("application/json"), true),
            (unlisted, Some("Application/JSON; charset=utf-8"), true),
            (unlisted, Some("application/problem+json"), true),
            (unlisted, None, true),
            (unlisted, Some("application/vnd.apache.arrow.stream"), false),
            (
                unlisted,
                Some("application/vnd.apache.arrow.file; v=1"),
                false,
            ),
            (
                unlisted,
                Some("application/vnd.apache.arrow.stream+json"),
                true,
            ),
            (unlisted, Some("application/vnd.apache.arrow.json"), true),
            (unlisted, Some("text/plain"), true),
            (Operation::DescribeTable, Some("text/plain"), true),
            (Operation::DropTable, None, true),
            (Operation::InsertIntoTable, Some("application/json"), true),
            (Operation::InsertIntoTable, Some("text/x-JSON"), true),
            (Operation::InsertIntoTable, Some(ARROW[0]), false),
            (Operation::InsertIntoTable, Some("text/plain"), false),
            (Operation::InsertIntoTable, None, false),
        ];
        for (operation, content_type, expected) in cases {
            let mut headers = HeaderMap::new();
            if let Some(content_type) = content_type {
                headers.insert(CONTENT_TYPE, content_type.parse().unwrap());
            }
            let read = is_read(operation, &headers);
            assert_eq!(read, expected, "{operation:?} {content_type:?}");
        }
        let mut two = HeaderMap::new();
        for content_type in [ARROW[0], "application/json"] {
            two.append(CONTENT_TYPE, content_type.parse().unwrap());
        }
        assert!(is_read(unlisted, &two));
        assert!(is_read(Operation::CreateTable, &two));
    }
}
