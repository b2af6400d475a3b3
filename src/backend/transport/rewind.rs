//! Lets hyper take over a connection in the middle of an exchange, as if it had used it from the beginning.
//!
//! The first bytes that hyper writes were already written, and are discarded. The first bytes that it reads are those
//! that were already read.
//!
//! The first flush of hyper marks the end of the request. hyper does not promise this order. So every write between
//! that flush and the head of the answer fails: it may be a part of the request, which the catalog would take for the
//! next one. The connection then ends, and the request counts as lost.
//!
//! A failed write is the end of the exchange for hyper. But a catalog that refuses a request answers, and closes the
//! connection without reading the rest. So a failed write only waits, and reading tells whether there was an answer.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use bytes::{Buf as _, Bytes};
use hyper::rt::{Read, ReadBufCursor, Write};

use crate::backend::transport::connect::Io;

/// A connection for hyper.
pub(in crate::backend) struct Rewind {
    io: Io,
    stage: ReplayStage,
    /// The bytes that were already read.
    read: Bytes,
    /// True if no written bytes wait for a flush.
    flushed: bool,
    /// True if nothing more can be written.
    hung_up: bool,
    /// The signal that the head of the answer has arrived.
    answered: AnswerSignal,
}

/// The signal that the head of the answer has arrived: from then on, hyper's writes belong to another request.
#[derive(Clone, Default)]
pub(in crate::backend) struct AnswerSignal(Arc<AtomicBool>);

/// hyper's progress in writing the request that was already written.
#[derive(PartialEq, Eq)]
enum ReplayStage {
    /// hyper has not begun. It must not read yet: it would take the answer for one to no request.
    Before,
    /// hyper is writing the request.
    Within,
    /// hyper has written it. Nothing may be written before the answer's head has arrived.
    Waiting,
    /// The answer's head has arrived, or there was nothing to repeat.
    After,
}

impl AnswerSignal {
    /// Signals that the head of the answer has arrived.
    pub(in crate::backend) fn set(&self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl Rewind {
    /// Returns a connection on which nothing was written or read.
    pub(in crate::backend) fn fresh(io: Io) -> Self {
        Self {
            io,
            stage: ReplayStage::After,
            read: Bytes::new(),
            flushed: true,
            hung_up: false,
            answered: AnswerSignal::default(),
        }
    }

    /// Returns a connection on which the first request was already written, and `read` has come since. Also returns the
    /// signal to set once the answer's head has arrived.
    pub(in crate::backend) fn of(io: Io, read: Bytes) -> (Self, AnswerSignal) {
        let replay = Self {
            stage: ReplayStage::Before,
            read,
            ..Self::fresh(io)
        };
        let answered = replay.answered.clone();
        (replay, answered)
    }

    /// Returns the connection, if no bytes of it are left here.
    pub(in crate::backend) fn into_io(mut self) -> Option<Io> {
        self.see_answer();
        let over = self.stage == ReplayStage::After && self.read.is_empty() && self.flushed;
        (over && !self.hung_up).then_some(self.io)
    }

    fn see_answer(&mut self) {
        if self.stage == ReplayStage::Waiting && self.answered.0.load(Ordering::Relaxed) {
            self.stage = ReplayStage::After;
        }
    }

    /// True if these bytes were already written and are discarded. Fails if they must not be written at all.
    fn was_written(&mut self) -> io::Result<bool> {
        self.see_answer();
        match self.stage {
            ReplayStage::Before | ReplayStage::Within => {
                self.stage = ReplayStage::Within;
                Ok(true)
            }
            ReplayStage::Waiting => Err(io::Error::other(
                "a write came where the answer was due: the connection is given up",
            )),
            ReplayStage::After => Ok(false),
        }
    }

    /// Returns the outcome of a write, but waits if it failed.
    fn unless_hung_up<T>(
        &mut self,
        cx: &Context<'_>,
        outcome: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if !matches!(outcome, Poll::Ready(Err(_))) {
            return outcome;
        }
        self.hung_up = true;
        // An answer may have come since the last read, and so may the end of the connection. Both can be read at once.
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}

impl Read for Rewind {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        mut buf: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        if matches!(self.stage, ReplayStage::Before | ReplayStage::Within) {
            return Poll::Pending;
        }
        if self.read.is_empty() {
            return Pin::new(&mut self.io).poll_read(cx, buf);
        }
        let length = self.read.len().min(buf.remaining());
        buf.put_slice(&self.read[..length]);
        self.read.advance(length);
        Poll::Ready(Ok(()))
    }
}

impl Write for Rewind {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        if self.was_written()? {
            return Poll::Ready(Ok(buf.len()));
        }
        if self.hung_up {
            return Poll::Pending;
        }
        self.flushed = false;
        let written = Pin::new(&mut self.io).poll_write(cx, buf);
        self.unless_hung_up(cx, written)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.stage == ReplayStage::Within {
            self.stage = ReplayStage::Waiting;
            // hyper may read from now on.
            cx.waker().wake_by_ref();
        }
        if self.hung_up {
            return Poll::Pending;
        }
        let flushed = Pin::new(&mut self.io).poll_flush(cx);
        self.flushed |= matches!(flushed, Poll::Ready(Ok(())));
        self.unless_hung_up(cx, flushed)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        if self.was_written()? {
            return Poll::Ready(Ok(bufs.iter().map(|buf| buf.len()).sum()));
        }
        if self.hung_up {
            return Poll::Pending;
        }
        self.flushed = false;
        let written = Pin::new(&mut self.io).poll_write_vectored(cx, bufs);
        self.unless_hung_up(cx, written)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test says what it expects")]
    use std::future::poll_fn;

    use hyper_util::rt::TokioIo;
    use tokio::net::{TcpListener, TcpStream};

    use super::*;

    async fn pair() -> (Io, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).await;
        let (server, _) = listener.accept().await.unwrap();
        (Io::Plain(TokioIo::new(client.unwrap())), server)
    }

    async fn write(replay: &mut Rewind, text: &str) -> io::Result<usize> {
        poll_fn(|cx| Pin::new(&mut *replay).poll_write(cx, text.as_bytes())).await
    }

    async fn flush(replay: &mut Rewind) {
        let flushed = poll_fn(|cx| Pin::new(&mut *replay).poll_flush(cx)).await;
        flushed.unwrap();
    }

    #[tokio::test]
    async fn between_the_request_and_the_head_of_its_answer_no_write_gets_through() {
        let (io, server) = pair().await;
        let (mut replay, answered) = Rewind::of(io, Bytes::from_static(b"HTTP/1.1"));
        // hyper may write it in any number of pieces, and flush as often as it likes.
        for piece in ["POST / HTTP/1.1\r\n\r\n", "body"] {
            assert_eq!(write(&mut replay, piece).await.unwrap(), piece.len());
        }
        for _ in 0..2 {
            flush(&mut replay).await;
            assert!(write(&mut replay, "late").await.is_err());
            let pieces = [io::IoSlice::new(b"late")];
            let vectored =
                |cx: &mut Context<'_>| Pin::new(&mut replay).poll_write_vectored(cx, &pieces);
            assert!(poll_fn(vectored).await.is_err());
        }
        answered.set();
        assert_eq!(write(&mut replay, "next").await.unwrap(), 4);
        flush(&mut replay).await;
        server.readable().await.unwrap();
        let mut read = [0; 9];
        assert_eq!(server.try_read(&mut read).unwrap(), 4);
        assert_eq!(&read[..4], b"next");
    }

    #[tokio::test]
    async fn a_connection_without_the_head_of_its_answer_is_not_used_again() {
        for comes in [true, false] {
            let (io, _server) = pair().await;
            let (mut replay, answered) = Rewind::of(io, Bytes::new());
            write(&mut replay, "request").await.unwrap();
            flush(&mut replay).await;
            if comes {
                answered.set();
            }
            assert_eq!(replay.into_io().is_some(), comes);
        }
    }
}
