//! The body of an answer, and the return of its connection to the pool.

use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use http_body::{Body as _, Frame, SizeHint};
use hyper::body::Incoming;
use tokio::time::Instant;

use super::{Connection, ReceivedBody};
use crate::body::Body;

/// The place to which a connection returns when its response is over.
pub(in crate::backend) trait PoolHandle: Send + Unpin + 'static {
    /// Takes the connection back. `now` must be the current time.
    fn give_back(&self, connection: Box<Connection>, now: Instant);
}

/// Returns the body of a response over `connection`, which returns to `home` when the response is over. The body is
/// in memory if all of it came with the headers, as most do. `now` must be the current time.
pub(in crate::backend) fn body<H: PoolHandle>(
    came: ReceivedBody,
    connection: Box<Connection>,
    home: H,
    now: Instant,
) -> Body {
    match came {
        ReceivedBody::Whole(bytes) => {
            if connection.stays() {
                home.give_back(connection, now);
            }
            Body::full(bytes)
        }
        ReceivedBody::Streaming(body) => Streamed::begin(body, connection, home),
    }
}

/// A response body that holds its connection, and returns it after an end without an error.
struct Streamed<H: PoolHandle> {
    /// The part of the body that came with the headers; `None` once it was read.
    first: Option<StreamedBody>,
    body: Incoming,
    /// The connection; `None` once it was returned, or has failed.
    connection: Option<Box<Connection>>,
    home: H,
}

/// The result of one read from a body.
type StreamedBody = Option<hyper::Result<Frame<Bytes>>>;

impl<H: PoolHandle> Streamed<H> {
    fn begin(body: Incoming, connection: Box<Connection>, home: H) -> Body {
        let mut streamed = Self {
            first: None,
            body,
            connection: Some(connection),
            home,
        };
        if streamed.body.is_end_stream() {
            streamed.give_back();
            return Body::empty();
        }
        let quiet = &mut Context::from_waker(Waker::noop());
        if streamed.body.size_hint().exact().is_some()
            && let Poll::Ready(received) = Pin::new(&mut streamed.body).poll_frame(quiet)
        {
            if streamed.body.is_end_stream()
                && let Some(Ok(frame)) = &received
                && let Some(whole) = frame.data_ref().cloned()
            {
                streamed.give_back();
                return Body::full(whole);
            }
            streamed.first = Some(received);
        }
        Body::stream(streamed)
    }

    fn give_back(&mut self) {
        if let Some(mut connection) = self.connection.take()
            && connection.is_usable()
        {
            connection.take_back();
            self.home.give_back(connection, Instant::now());
        }
    }
}

impl<H: PoolHandle> http_body::Body for Streamed<H> {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<hyper::Result<Frame<Bytes>>>> {
        let this = &mut *self;
        let frame = loop {
            let frame = match (this.first.take(), &mut this.connection) {
                (Some(first), _) => Poll::Ready(first),
                (None, Some(connection)) => connection.poll_frame(cx, &mut this.body),
                (None, None) => Pin::new(&mut this.body).poll_frame(cx),
            };
            // Trailers stay here: no operation has any, and some readers take them for headers.
            if !matches!(&frame, Poll::Ready(Some(Ok(frame))) if frame.is_trailers()) {
                break frame;
            }
        };
        match &frame {
            Poll::Ready(None) => this.give_back(),
            Poll::Ready(Some(Ok(_))) if this.body.is_end_stream() => this.give_back(),
            Poll::Ready(Some(Err(_))) => this.connection = None,
            _ => {}
        }
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.first.is_none() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let rest = self.body.size_hint();
        let first = self.first.as_ref().and_then(Option::as_ref);
        let first = first.and_then(|received| received.as_ref().ok()?.data_ref());
        match (first, rest.exact()) {
            (Some(first), Some(rest)) => SizeHint::with_exact(first.len() as u64 + rest),
            _ => rest,
        }
    }
}
