//! A stream that inspects incoming bytes before hyper reads them.
//!
//! hyper accepts two things that must not pass: header lines that end with a bare LF ([`RequestScanner`]), and frames
//! without end ([`Frames`]).

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::frames::Frames;
use super::request_scanner::RequestScanner;

/// The byte that replaces a bare LF. No header line may hold it, so hyper answers the request as malformed.
const NO_TEXT: u8 = 0;

/// A stream and the inspector of its incoming bytes.
pub(super) struct InspectedIo<T> {
    stream: T,
    inspector: Inspector,
}

/// The inspector for one HTTP version.
pub(super) enum Inspector {
    Http1(RequestScanner),
    Http2(Frames),
}

impl Inspector {
    /// Inspects the first bytes, which were read before. Returns those that hyper may read.
    pub(super) fn first(&mut self, bytes: Bytes) -> Bytes {
        match self.read(&bytes) {
            Ok(None) => bytes,
            Ok(Some(place)) => [&bytes[..place], &[NO_TEXT]].concat().into(),
            // The first few frames are never too many.
            Err(_) => Bytes::new(),
        }
    }

    /// Inspects the next bytes. Returns the place where they must be cut; `None` if they need no cut.
    fn read(&mut self, bytes: &[u8]) -> io::Result<Option<usize>> {
        match self {
            Self::Http1(lines) => Ok(lines.read(bytes)),
            Self::Http2(frames) => frames.read(bytes).map(|()| None),
        }
    }
}

impl<T> InspectedIo<T> {
    /// Wraps `stream`.
    pub(super) fn new(stream: T, inspector: Inspector) -> Self {
        Self { stream, inspector }
    }

    /// Returns the wrapped stream.
    pub(super) fn into_inner(self) -> T {
        self.stream
    }

    fn sent(&mut self, polled: &Poll<io::Result<usize>>) {
        if let (Inspector::Http2(frames), Poll::Ready(Ok(bytes))) = (&mut self.inspector, polled) {
            frames.sent(*bytes);
        }
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for InspectedIo<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(cx, buf))?;
        if let Some(place) = self.inspector.read(&buf.filled()[before..])? {
            buf.set_filled(before + place);
            buf.put_slice(&[NO_TEXT]);
        }
        Poll::Ready(Ok(()))
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for InspectedIo<T> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.sent(&polled);
        polled
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write_vectored(cx, parts);
        self.sent(&polled);
        polled
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
