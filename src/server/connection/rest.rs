//! Reads the unread rest of a small request body before the response is sent.
//!
//! A response over HTTP/2 that comes before the end of the request's body is followed by RST_STREAM(NO_ERROR). RFC
//! 9113 (section 8.1) allows that, but some clients treat it as an error (curl 7.88.1: 92). Over HTTP/1.1 the connection
//! cannot carry another request until the body is read, and a client that is not told so sends its next request into a
//! connection that closes. So a body with a small declared length is read to its end first. A client that sends it
//! slowly waits for the response, as long as its stream or connection may stand still. Of a body in chunks, what has come
//! is read, up to the same length. If it is not at its end then, or if it is longer, an HTTP/1.1 connection closes, and
//! the response says so.

use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::Request;
use http::Version;
use http::header::EXPECT;
use http_body::{Body as _, Frame, SizeHint};
use hyper::body::Incoming;

use crate::body::Body;
use crate::error::BoxError;

/// The longest body that is read to its end, in bytes.
const LITTLE: u64 = 64 << 10;
/// The turns of the connection in which nothing of a body in chunks comes, after which nothing has come: hyper hands a
/// chunk on in the turn after it was asked for.
const TURNS: u8 = 2;

/// Holds a body that was dropped before its end.
#[derive(Clone)]
pub(in crate::server) struct Leftover {
    state: Arc<Mutex<BodyState>>,
    length: Length,
}

/// The length of a body, as far as its head tells.
#[derive(Clone, Copy, PartialEq)]
enum Length {
    Small,
    /// It is large, or servers could disagree about its end.
    Large,
    /// It comes in chunks.
    Unknown,
}

/// The state of a request's body.
enum BodyState {
    /// The body may still be read. `is_awaited` is true if the client sends it only when it is read (`Expect:
    /// 100-continue`), and nothing has been read.
    Open { is_awaited: bool },
    /// The body was dropped before its end. `read` bytes of it were read since, and nothing came in the last `turns`.
    Dropped { body: Body, read: u64, turns: u8 },
    /// The body is at its end.
    Over,
    /// The rest of the body is not read.
    Unread,
}

/// A body that moves into its [`Leftover`] when it is dropped before its end.
struct LeftoverBody {
    body: Option<Body>,
    rest: Leftover,
}

impl Leftover {
    /// Wraps a request's body. Its rest can be read through the [`Leftover`]; `None` if the body is at its end, or if
    /// nothing depends on its rest. Of a request that is malformed, chunks are not read.
    pub(in crate::server) fn of(
        request: Request<Incoming>,
        is_malformed: bool,
    ) -> (Request<Body>, Option<Self>) {
        let is_http1 = request.version() < Version::HTTP_2;
        let is_awaited = is_http1 && request.headers().contains_key(EXPECT);
        let (head, body) = request.into_parts();
        let declared = body.size_hint().exact();
        let length = match declared {
            Some(length) if length <= LITTLE => Length::Small,
            None if !is_malformed => Length::Unknown,
            _ => Length::Large,
        };
        let body = Body::incoming(body);
        if body.is_end_stream() || length != Length::Small && !is_http1 {
            return (Request::from_parts(head, body), None);
        }
        let rest = Self {
            state: Arc::new(Mutex::new(BodyState::Open { is_awaited })),
            length,
        };
        let body = LeftoverBody {
            body: Some(body),
            rest: rest.clone(),
        };
        (Request::from_parts(head, Body::stream(body)), Some(rest))
    }

    /// Reads and discards the rest of a small body. Ready with true if the body is at its end, and with false if
    /// something of it is not read.
    pub(in crate::server) fn poll_over(&self, cx: &mut Context<'_>) -> Poll<bool> {
        let mut state = self.lock();
        while let BodyState::Dropped { body, read, turns } = &mut *state {
            if self.length == Length::Large || *read > LITTLE {
                *state = BodyState::Unread;
                break;
            }
            match Pin::new(body).poll_frame(cx) {
                Poll::Ready(Some(Ok(frame))) => {
                    *read += frame.data_ref().map_or(0, |data| data.len() as u64);
                    *turns = 0;
                }
                Poll::Ready(Some(Err(_))) => *state = BodyState::Unread,
                Poll::Ready(None) => *state = BodyState::Over,
                Poll::Pending if self.length == Length::Small => return Poll::Pending,
                Poll::Pending if *turns < TURNS => {
                    *turns += 1;
                    cx.waker().wake_by_ref();
                    return Poll::Pending;
                }
                Poll::Pending => *state = BodyState::Unread,
            }
        }
        Poll::Ready(matches!(*state, BodyState::Over))
    }

    fn lock(&self) -> MutexGuard<'_, BodyState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl http_body::Body for LeftoverBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let Some(body) = &mut self.body else {
            return Poll::Ready(None);
        };
        let polled = Pin::new(&mut *body).poll_frame(cx);
        let is_over = body.is_end_stream();
        let mut state = self.rest.lock();
        *state = match &polled {
            Poll::Ready(None) => BodyState::Over,
            Poll::Ready(Some(Ok(frame))) if is_over || frame.is_trailers() => BodyState::Over,
            Poll::Ready(Some(Err(_))) => BodyState::Unread,
            _ => BodyState::Open { is_awaited: false },
        };
        drop(state);
        let frame = ready!(polled);
        if !matches!(frame, Some(Ok(_))) {
            self.body = None;
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.as_ref().is_none_or(Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        let body = self.body.as_ref();
        body.map_or_else(|| SizeHint::with_exact(0), Body::size_hint)
    }
}

impl Drop for LeftoverBody {
    fn drop(&mut self) {
        if let Some(body) = self.body.take().filter(|body| !body.is_end_stream()) {
            let mut state = self.rest.lock();
            *state = match *state {
                // A client that waits for 100 may send nothing at all after another response.
                BodyState::Open { is_awaited: true } => BodyState::Unread,
                BodyState::Over => BodyState::Over,
                _ => BodyState::Dropped {
                    body,
                    read: 0,
                    turns: 0,
                },
            };
        }
    }
}
