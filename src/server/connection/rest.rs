//! Reads the unread rest of a small request body before the response is sent.
//!
//! A response over HTTP/2 that comes before the end of the request's body is followed by RST_STREAM(NO_ERROR). RFC
//! 9113 (section 8.1) allows that, but some clients treat it as an error (curl 7.88.1: 92). So a body with a small
//! declared length is read to its end first. A client that sends it slowly waits for the response, as long as its
//! stream may stand still.

use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body::{Body as _, Frame, SizeHint};
use hyper::body::Incoming;

use crate::body::Body;
use crate::error::BoxError;

/// The longest declared body that is read to its end, in bytes.
const LITTLE: u64 = 64 << 10;

/// Holds a body that was dropped before its end.
#[derive(Clone, Default)]
pub(in crate::server) struct Leftover(Arc<Mutex<Option<Incoming>>>);

/// A body that moves into its [`Leftover`] when it is dropped before its end.
struct LeftoverBody {
    body: Option<Incoming>,
    rest: Leftover,
}

impl Leftover {
    /// Wraps a request's body. Its rest can be read through the [`Leftover`]; `None` if the body is at its end, or its
    /// declared length is unknown or not small.
    pub(in crate::server) fn of(body: Incoming) -> (Body, Option<Self>) {
        let declared = body.size_hint().exact();
        if body.is_end_stream() || declared.is_none_or(|length| length > LITTLE) {
            return (Body::incoming(body), None);
        }
        let rest = Self::default();
        let little = LeftoverBody {
            body: Some(body),
            rest: rest.clone(),
        };
        (Body::stream(little), Some(rest))
    }

    /// Reads and discards the rest. Ready when nothing is left, or if the body has not been dropped before its end.
    pub(in crate::server) fn poll_over(&self, cx: &mut Context<'_>) -> Poll<()> {
        let mut left = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        while let Some(body) = &mut *left {
            match ready!(Pin::new(body).poll_frame(cx)) {
                Some(Ok(_)) => {}
                Some(Err(_)) | None => *left = None,
            }
        }
        Poll::Ready(())
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
        let frame = ready!(Pin::new(body).poll_frame(cx));
        if !matches!(frame, Some(Ok(_))) {
            self.body = None;
        }
        Poll::Ready(frame.map(|frame| frame.map_err(Into::into)))
    }

    fn is_end_stream(&self) -> bool {
        self.body.as_ref().is_none_or(Incoming::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        let body = self.body.as_ref();
        body.map_or_else(|| SizeHint::with_exact(0), Incoming::size_hint)
    }
}

impl Drop for LeftoverBody {
    fn drop(&mut self) {
        if let Some(body) = self.body.take().filter(|body| !body.is_end_stream()) {
            let mut left = self.rest.0.lock().unwrap_or_else(PoisonError::into_inner);
            *left = Some(body);
        }
    }
}
