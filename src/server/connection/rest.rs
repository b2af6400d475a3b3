//! What is left of a little body that nobody read, taken in before the answer is given.
//!
//! Over HTTP/2 an answer that comes before the body's end is followed by RST_STREAM(NO_ERROR), which RFC 9113 (section
//! 8.1) allows, and which there are clients that take for an error (curl 7.88.1: 92). So a body of which little is
//! declared is taken in first; whoever sends it slowly waits for the answer, as long as its stream may stand still.

use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body::{Body as _, Frame, SizeHint};
use hyper::body::Incoming;

use crate::body::Body;
use crate::error::BoxError;

/// So many declared bytes are little.
const LITTLE: u64 = 64 << 10;

/// Where a body is put that was given up before its end.
#[derive(Clone, Default)]
pub(in crate::server) struct Leftover(Arc<Mutex<Option<Incoming>>>);

/// A body that is put there.
struct LeftoverBody {
    body: Option<Incoming>,
    rest: Leftover,
}

impl Leftover {
    /// The request's body, of which the rest can be taken in where little is declared.
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

    /// Ready when nothing is left of it, or nobody has given it up.
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
