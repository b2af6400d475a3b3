//! The body type of all requests and responses: empty, in memory, from a connection, or any other stream.
//!
//! A body streams with backpressure and holds at most one frame. An [`Observer`] sees its length and its end.

mod kept;
mod opening;
mod source;

use std::fmt;
use std::mem::take;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::{Bytes, BytesMut};
use http_body::{Body as _, Frame, SizeHint};
use http_body_util::BodyExt;
use hyper::body::Incoming;

use crate::error::BoxError;

pub use kept::KeepAliveBody;
pub use opening::IsJson;
use opening::{BodyStart, StartInspector, look};
pub use source::Interrupted;
use source::Source;

/// A body of a request or a response.
#[derive(Default)]
pub struct Body {
    source: Source,
    observer: Option<BodyObserver>,
}

/// Observes a body without changing it.
pub trait Observer: Send {
    /// Notes that `length` more bytes have passed.
    fn data(&mut self, length: usize) {
        let _ = length;
    }

    /// Notes the end of the body. Called exactly once.
    fn end(&mut self, how: End);
}

/// Observes both bodies of an exchange. It is shared, so that observing them allocates nothing.
pub trait Meter: Send + Sync {
    /// Notes that `length` more bytes of the body of `side` have passed.
    fn data(&self, side: Side, length: usize);

    /// Notes the end of the body of `side`. Called exactly once for each body that is metered.
    fn end(&self, side: Side, how: End);
}

/// The message that a body belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The request.
    Request,
    /// The response.
    Response,
}

/// The way in which a body ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The body was read to its last byte.
    Complete,
    /// Reading the body failed.
    Broken,
    /// The reader dropped the body before its end.
    Aborted,
}

/// The reason why a body could not be read whole.
#[derive(Debug, thiserror::Error)]
pub enum CollectError {
    /// The body is longer than allowed.
    #[error("the body is too large")]
    TooLarge,
    /// The body broke off.
    #[error("the body was cut off")]
    Broken(#[source] BoxError),
}

/// Reads a body whole; see [`Body::collect_up_to`].
#[derive(Debug)]
pub struct Collect {
    body: Body,
    limit: usize,
    /// The bytes so far, while they are one piece.
    first: Bytes,
    /// The bytes so far, once they are several pieces.
    all: BytesMut,
}

impl Body {
    /// Creates a body without bytes.
    pub fn empty() -> Self {
        Self::default()
    }

    /// Creates a body of `bytes` in memory.
    pub fn full(bytes: impl Into<Bytes>) -> Self {
        let bytes = bytes.into();
        if bytes.is_empty() {
            return Self::empty();
        }
        Source::Full(bytes).into()
    }

    /// Creates a body from one that comes in over a connection.
    pub fn incoming(body: Incoming) -> Self {
        Source::Incoming(body).into()
    }

    /// Creates a body from any stream.
    pub fn stream<B>(body: B) -> Self
    where
        B: http_body::Body<Data = Bytes> + Send + 'static,
        B::Error: Into<BoxError>,
    {
        Source::Stream(Box::pin(body.map_err(Into::into))).into()
    }

    /// Copies the body without its observer; `None` if it is not in memory.
    pub fn copy(&self) -> Option<Self> {
        match &self.source {
            Source::Empty => Some(Self::empty()),
            Source::Full(bytes) => Some(Source::Full(bytes.clone()).into()),
            _ if self.is_end_stream() => Some(Self::empty()),
            Source::Incoming(_) | Source::Unopened(_) | Source::Stream(_) => None,
        }
    }

    /// Takes all of the body, and reports it to its observer; `None` if the body is not in memory.
    pub fn take_whole(&mut self) -> Option<Bytes> {
        let bytes = match &mut self.source {
            Source::Empty => Bytes::new(),
            Source::Full(bytes) => take(bytes),
            Source::Incoming(_) | Source::Unopened(_) | Source::Stream(_) => return None,
        };
        self.source = Source::Empty;
        if let Some(mut observer) = self.observer.take() {
            observer.data(bytes.len());
            observer.end(End::Complete);
        }
        Some(bytes)
    }

    /// True if the body is in memory or at its end, so that nothing of it is still to come.
    pub fn is_whole(&self) -> bool {
        matches!(self.source, Source::Empty | Source::Full(_)) || self.is_end_stream()
    }

    /// Adds an observer, which is called after an earlier one.
    #[must_use]
    pub fn observe(mut self, observer: Box<dyn Observer>) -> Self {
        self.seen_by(BodyObserver::Own(observer));
        self
    }

    /// Adds a shared observer, which is called after an earlier one.
    pub fn meter(&mut self, side: Side, meter: Arc<dyn Meter>) {
        self.seen_by(BodyObserver::Shared(side, meter));
    }

    fn seen_by(&mut self, eye: BodyObserver) {
        self.observer = Some(match self.observer.take() {
            None => eye,
            Some(first) => BodyObserver::Own(Box::new(Both(first, eye))),
        });
    }

    /// Returns a body of the same bytes that fails where it turns out to be a JSON object. The check costs nothing
    /// after the first frame.
    ///
    /// # Errors
    /// The body is in memory, and is a JSON object.
    pub fn unless_json(mut self) -> Result<Self, IsJson> {
        let source = take(&mut self.source);
        self.source = match source {
            Source::Full(bytes) if matches!(look(&bytes), BodyStart::Object) => return Err(IsJson),
            Source::Incoming(body) => Source::Unopened(body),
            Source::Stream(_) => Source::Stream(Box::pin(StartInspector::new(source, b""))),
            Source::Empty | Source::Full(_) | Source::Unopened(_) => source,
        };
        Ok(self)
    }

    /// Reads the body whole, at most `limit` bytes. Drops trailers.
    pub fn collect_up_to(self, limit: usize) -> Collect {
        self.collect_after(Bytes::new(), limit)
    }

    /// Reads the rest of a body of which `first` was read already; otherwise the same as [`Body::collect_up_to`].
    pub fn collect_after(self, first: Bytes, limit: usize) -> Collect {
        Collect {
            body: self,
            limit,
            first,
            all: BytesMut::new(),
        }
    }
}

impl Collect {
    fn take(&mut self, data: Bytes) -> Result<(), CollectError> {
        let Self { first, all, .. } = self;
        if first.len() + all.len() + data.len() > self.limit {
            return Err(CollectError::TooLarge);
        }
        // A body that came in one piece is not copied.
        if first.is_empty() && all.is_empty() {
            *first = data;
            return Ok(());
        }
        if all.is_empty() {
            let expected = self.body.size_hint().lower() as usize;
            all.reserve(first.len() + data.len() + expected.min(self.limit));
            all.extend_from_slice(&take(first));
        }
        all.extend_from_slice(&data);
        Ok(())
    }
}

impl Future for Collect {
    type Output = Result<Bytes, CollectError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        let known = this.first.len() as u64 + this.body.size_hint().lower();
        if known > this.limit as u64 {
            return Poll::Ready(Err(CollectError::TooLarge));
        }
        // A body that knows its end need not be polled for it.
        while !this.body.is_end_stream() {
            let Some(frame) = ready!(Pin::new(&mut this.body).poll_frame(cx)) else {
                break;
            };
            if let Ok(data) = frame.map_err(CollectError::Broken)?.into_data() {
                this.take(data)?;
            }
        }
        let (first, all) = (take(&mut this.first), take(&mut this.all));
        Poll::Ready(Ok(if all.is_empty() { first } else { all.freeze() }))
    }
}

/// Shows the kind of the body, never its contents.
impl fmt::Debug for Body {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.source {
            Source::Empty => "Body::Empty",
            Source::Full(_) => "Body::Full",
            Source::Incoming(_) | Source::Unopened(_) => "Body::Incoming",
            Source::Stream(_) => "Body::Stream",
        })
    }
}

impl From<Source> for Body {
    fn from(source: Source) -> Self {
        Self {
            source,
            observer: None,
        }
    }
}

impl http_body::Body for Body {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let frame = ready!(self.source.poll_frame(cx));
        if let Some(observer) = &mut self.observer {
            let end = match &frame {
                Some(Ok(frame)) => {
                    if let Some(data) = frame.data_ref() {
                        observer.data(data.len());
                    }
                    // A reader that knows the end need not poll again, so the end is reported here.
                    self.source.is_end_stream().then_some(End::Complete)
                }
                Some(Err(_)) => Some(End::Broken),
                None => Some(End::Complete),
            };
            if let Some(end) = end {
                self.finish(end);
            }
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.source.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.source.size_hint()
    }
}

impl Body {
    fn finish(&mut self, how: End) {
        if let Some(mut observer) = self.observer.take() {
            observer.end(how);
        }
    }
}

impl Drop for Body {
    fn drop(&mut self) {
        if self.observer.is_some() {
            // A body that was empty from the start is complete without being read.
            let complete = self.source.is_end_stream();
            self.finish(if complete {
                End::Complete
            } else {
                End::Aborted
            });
        }
    }
}

/// An observer, owned or shared.
enum BodyObserver {
    Own(Box<dyn Observer>),
    Shared(Side, Arc<dyn Meter>),
}

impl Observer for BodyObserver {
    fn data(&mut self, length: usize) {
        match self {
            Self::Own(observer) => observer.data(length),
            Self::Shared(side, meter) => meter.data(*side, length),
        }
    }

    fn end(&mut self, how: End) {
        match self {
            Self::Own(observer) => observer.end(how),
            Self::Shared(side, meter) => meter.end(*side, how),
        }
    }
}

struct Both(BodyObserver, BodyObserver);

impl Observer for Both {
    fn data(&mut self, length: usize) {
        self.0.data(length);
        self.1.data(length);
    }

    fn end(&mut self, how: End) {
        self.0.end(how);
        self.1.end(how);
    }
}

#[cfg(test)]
mod tests;
