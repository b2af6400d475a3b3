//! The bytes of a connection as hyper reads and writes them.
//!
//! Bytes that were read before come first, and every read and write is noted in the connection's state.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};

use super::inspected::{InspectedIo, Inspector};
use crate::server::connection_state::ConnectionState;

/// A stream, preceded by the bytes that were read from it before.
pub(super) struct Io<T> {
    inner: TokioIo<InspectedIo<T>>,
    before: Bytes,
    pulse: Arc<ConnectionState>,
    /// True if bytes between two requests are the next request's headers. In HTTP/2 they may be pings.
    tells_headers: bool,
}

impl<T> Io<T> {
    pub(super) fn new(
        stream: T,
        before: Bytes,
        pulse: Arc<ConnectionState>,
        mut inspector: Inspector,
    ) -> Self {
        Self {
            before: inspector.first(before),
            pulse,
            tells_headers: matches!(inspector, Inspector::Http1(_)),
            inner: TokioIo::new(InspectedIo::new(stream, inspector)),
        }
    }
}

impl<T: AsyncRead + Unpin> Read for Io<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        mut buf: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        if !self.before.is_empty() {
            let length = self.before.len().min(buf.remaining());
            buf.put_slice(&self.before.split_to(length));
            return Poll::Ready(Ok(()));
        }
        let polled = Pin::new(&mut self.inner).poll_read(cx, buf);
        if self.tells_headers && polled.is_ready() {
            self.pulse.on_read();
        }
        polled
    }
}

impl<T: AsyncWrite + Unpin> Write for Io<T> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.inner).poll_write(cx, bytes);
        self.written(polled)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.inner).poll_write_vectored(cx, parts);
        self.written(polled)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.inner).poll_flush(cx);
        self.pulse.blocks(polled.is_pending());
        polled
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.pulse.is_resting() {
            return Poll::Ready(Ok(()));
        }
        let polled = Pin::new(&mut self.inner).poll_shutdown(cx);
        self.pulse.blocks(polled.is_pending());
        polled
    }
}

impl<T> Io<T> {
    /// Returns the wrapped stream.
    pub(super) fn into_inner(self) -> T {
        self.inner.into_inner().into_inner()
    }

    fn written(&self, polled: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        if polled.is_ready() {
            self.pulse.on_write();
        }
        self.pulse.blocks(polled.is_pending());
        polled
    }
}
