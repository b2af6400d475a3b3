//! The body of an answer that streams while batches may begin on its table.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body::{Frame, SizeHint};

use crate::batch::fleet::StreamPassage;
use crate::body::Body;
use crate::error::BoxError;

/// A body whose pieces are shown as long as no batch has begun.
pub(super) struct StreamedAnswer {
    body: Body,
    passage: StreamPassage,
}

impl StreamedAnswer {
    pub(super) fn new(body: Body, passage: StreamPassage) -> Self {
        Self { body, passage }
    }
}

impl http_body::Body for StreamedAnswer {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(cx));
        // After the piece has arrived: it may be younger than the guard of a batch.
        if let Err(error) = self.passage.check() {
            self.body = Body::empty();
            return Poll::Ready(Some(Err(error.into())));
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
