//! Receives an answer's body from an HTTP/2 stream. The catalog may send more once the body has been read.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use h2::{Reason, RecvStream};
use http::header::CONTENT_LENGTH;
use http::{HeaderMap, HeaderValue};
use http_body::{Frame, SizeHint};

use super::request_body::SendBody;
use super::session::StreamPermit;
use crate::error::BoxError;

/// A body that is received. Dropping it before its end resets its stream.
pub(in crate::backend) struct RecvBody {
    stream: RecvStream,
    /// The part of the request that is still being sent.
    sending: Option<Box<SendBody>>,
    /// The number of bytes that are still to come; `None` if the length is not known.
    left: Option<u64>,
    _slot: StreamPermit,
}

impl RecvBody {
    pub(super) fn new(
        stream: RecvStream,
        headers: &HeaderMap,
        sending: Option<Box<SendBody>>,
        slot: StreamPermit,
    ) -> Self {
        let length = headers.get(CONTENT_LENGTH).map(HeaderValue::to_str);
        let length = length.and_then(|length| length.ok()?.parse().ok());
        Self {
            stream,
            sending,
            left: length,
            _slot: slot,
        }
    }

    fn took(&mut self, length: usize) {
        // An error means that the stream is over, so that no capacity is needed.
        let _ = self.stream.flow_control().release_capacity(length);
        self.left = self.left.map(|left| left.saturating_sub(length as u64));
    }

    /// True if the stream has ended well: "without error", once the whole body was there (RFC 9113, section
    /// 8.1).
    fn is_end(&self, error: &h2::Error) -> bool {
        error.reason() == Some(Reason::NO_ERROR) && self.left == Some(0)
    }
}

impl http_body::Body for RecvBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let this = &mut *self;
        if let Some(sending) = &mut this.sending
            && let Poll::Ready(sent) = sending.poll(cx)
        {
            this.sending = None;
            if let Err(error) = sent {
                return Poll::Ready(Some(Err(error)));
            }
        }
        match ready!(this.stream.poll_data(cx)) {
            Some(Ok(data)) => {
                this.took(data.len());
                return Poll::Ready(Some(Ok(Frame::data(data))));
            }
            Some(Err(error)) if this.is_end(&error) => return Poll::Ready(None),
            Some(Err(error)) => return Poll::Ready(Some(Err(error.into()))),
            None => {}
        }
        Poll::Ready(match ready!(this.stream.poll_trailers(cx)) {
            // Trailers stay here: no operation has any, and some readers take them for headers.
            Ok(_) => None,
            Err(error) if this.is_end(&error) => None,
            Err(error) => Some(Err(error.into())),
        })
    }

    fn is_end_stream(&self) -> bool {
        self.stream.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        match self.left {
            _ if self.stream.is_end_stream() => SizeHint::with_exact(0),
            Some(left) => SizeHint::with_exact(left),
            None => SizeHint::default(),
        }
    }
}
