//! The sources of a body.

use std::mem::take;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body::{Body as _, Frame, SizeHint};
use hyper::body::Incoming;

use super::opening::{BodyStart, IsJson, StartInspector, look};
use crate::error::BoxError;
use crate::util::wakers::suppress_wakes;

/// The error of a body that broke off: its sender closed the connection, or sent something that is
/// no body.
#[derive(Debug, thiserror::Error)]
#[error("the sender stopped before the end")]
pub struct Interrupted(#[source] hyper::Error);

/// The source of a body.
#[derive(Default)]
pub(super) enum Source {
    #[default]
    Empty,
    Full(Bytes),
    Incoming(Incoming),
    /// A body from a connection that must not be JSON, and whose first frame has not been checked.
    Unopened(Incoming),
    Stream(Pin<Box<dyn http_body::Body<Data = Bytes, Error = BoxError> + Send>>),
}

impl Source {
    pub(super) fn poll_frame(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        match self {
            Self::Empty => Poll::Ready(None),
            Self::Full(bytes) => {
                let bytes = take(bytes);
                *self = Self::Empty;
                Poll::Ready(Some(Ok(Frame::data(bytes))))
            }
            Self::Incoming(body) => poll_incoming(body, cx),
            Self::Unopened(body) => {
                let frame = ready!(poll_incoming(body, cx));
                self.open(frame, cx)
            }
            Self::Stream(body) => body.as_mut().poll_frame(cx),
        }
    }

    /// Checks the first frame of a body that must not be JSON.
    fn open(
        &mut self,
        frame: Option<Result<Frame<Bytes>, BoxError>>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        if let Self::Unopened(body) = take(self) {
            *self = Self::Incoming(body);
        }
        let Some(data) = frame
            .as_ref()
            .and_then(|frame| frame.as_ref().ok()?.data_ref())
        else {
            return Poll::Ready(frame);
        };
        match look(data) {
            BodyStart::Other => Poll::Ready(frame),
            BodyStart::Object => {
                *self = Self::Empty;
                Poll::Ready(Some(Err(IsJson.into())))
            }
            BodyStart::Space | BodyStart::Brace(_) => {
                let opening = StartInspector::new(take(self), data);
                *self = Self::Stream(Box::pin(opening));
                self.poll_frame(cx)
            }
        }
    }

    pub(super) fn is_end_stream(&self) -> bool {
        match self {
            Self::Empty => true,
            Self::Full(_) => false,
            Self::Incoming(body) | Self::Unopened(body) => body.is_end_stream(),
            Self::Stream(body) => body.is_end_stream(),
        }
    }

    pub(super) fn size_hint(&self) -> SizeHint {
        match self {
            Self::Empty => SizeHint::with_exact(0),
            Self::Full(bytes) => SizeHint::with_exact(bytes.len() as u64),
            Self::Incoming(body) | Self::Unopened(body) => body.size_hint(),
            Self::Stream(body) => body.size_hint(),
        }
    }
}

fn poll_incoming(
    body: &mut Incoming,
    cx: &mut Context<'_>,
) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
    let (frame, held) = suppress_wakes(|| Pin::new(&mut *body).poll_frame(cx));
    match &frame {
        Poll::Ready(Some(Ok(_))) if body.is_end_stream() => held.forget(),
        _ => held.wake(),
    }
    frame.map(|frame| frame.map(|frame| frame.map_err(|error| Interrupted(error).into())))
}
