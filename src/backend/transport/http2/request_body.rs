//! Sends a request's body into an HTTP/2 stream: as fast as the catalog takes it, one frame at a time.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use h2::{Reason, SendStream};
use http_body::Body as _;

use crate::body::Body;
use crate::error::BoxError;

/// A body that is being sent.
pub(super) struct SendBody {
    body: Body,
    stream: SendStream<Bytes>,
    /// The part of the current frame that the catalog has not taken.
    rest: Bytes,
}

impl SendBody {
    pub(super) fn new(body: Body, stream: SendStream<Bytes>) -> Self {
        Self {
            body,
            stream,
            rest: Bytes::new(),
        }
    }

    /// Continues to send. Ready when the whole body was sent, or when the catalog takes no more. An error is the
    /// body's own.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        loop {
            while !self.rest.is_empty() {
                match ready!(self.poll_room(cx)) {
                    Some(room) => {
                        let piece = self.rest.split_to(room.min(self.rest.len()));
                        let last = self.rest.is_empty() && self.body.is_end_stream();
                        if self.stream.send_data(piece, last).is_err() || last {
                            return Poll::Ready(Ok(()));
                        }
                    }
                    // The answer tells the outcome of the request.
                    None => return Poll::Ready(Ok(())),
                }
            }
            // A body that the catalog no longer takes need not be read.
            if self.stream.poll_reset(cx).is_ready() {
                return Poll::Ready(Ok(()));
            }
            match ready!(Pin::new(&mut self.body).poll_frame(cx)) {
                // Trailers are not forwarded: none has a meaning in the contract, and some servers take them for
                // headers, which have not been checked.
                Some(Ok(frame)) => {
                    if let Ok(data) = frame.into_data() {
                        self.rest = data;
                    }
                }
                Some(Err(error)) => {
                    self.stream.send_reset(Reason::CANCEL);
                    return Poll::Ready(Err(error));
                }
                None => {
                    let _ = self.stream.send_data(Bytes::new(), true);
                    return Poll::Ready(Ok(()));
                }
            }
        }
    }

    /// Ready with the number of bytes that may be sent; `None` if no more may be sent.
    fn poll_room(&mut self, cx: &mut Context<'_>) -> Poll<Option<usize>> {
        self.stream.reserve_capacity(self.rest.len());
        loop {
            match self.stream.capacity() {
                0 => match ready!(self.stream.poll_capacity(cx)) {
                    Some(Ok(_)) => {}
                    Some(Err(_)) | None => return Poll::Ready(None),
                },
                room => return Poll::Ready(Some(room)),
            }
        }
    }
}
