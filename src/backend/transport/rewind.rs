//! Lets hyper take over a connection in the middle of an exchange, as if it had used it from the beginning.
//!
//! The first bytes that hyper writes were already written, and are discarded. The first bytes that it reads are those
//! that were already read.
//!
//! The request ends where HTTP/1.1 says: as many bytes after its head as its body has. However hyper spells the head,
//! and however often it flushes, nothing of the request is written twice. Every write between that end and the head of
//! the answer fails, because the catalog would take it for the next request. The connection then ends, and the request
//! counts as lost.
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

/// The end of a head.
const END: &[u8] = b"\r\n\r\n";

/// hyper's progress in writing the request that was already written. It must not read before it has written all of it:
/// it would take the answer for one to no request.
#[derive(PartialEq, Eq)]
enum ReplayStage {
    /// hyper is writing the head. Its last bytes are the first `matched` bytes of [`END`]; a body of `body` bytes
    /// follows.
    Head { matched: usize, body: u64 },
    /// hyper is writing the body, of which so many bytes are left.
    Body(u64),
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

    /// Returns a connection on which the first request was already written, with a body of `body` bytes, and `read` has
    /// come since. Also returns the signal to set once the answer's head has arrived.
    pub(in crate::backend) fn of(io: Io, read: Bytes, body: u64) -> (Self, AnswerSignal) {
        let replay = Self {
            stage: ReplayStage::Head { matched: 0, body },
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

    /// Discards the bytes of `buf` that were already written. Returns their number; `None` if `buf` is to be written.
    /// Fails if it must not be written at all.
    fn discard(&mut self, cx: &Context<'_>, buf: &[u8]) -> io::Result<Option<usize>> {
        self.see_answer();
        match self.stage {
            ReplayStage::Head { .. } | ReplayStage::Body(_) => {}
            ReplayStage::Waiting => {
                return Err(io::Error::other(
                    "a write came where the answer was due: the connection is given up",
                ));
            }
            ReplayStage::After => return Ok(None),
        }
        let mut discarded = 0;
        for byte in buf {
            let ReplayStage::Head { matched, body } = &mut self.stage else {
                break;
            };
            *matched = match END.get(*matched) {
                Some(expected) if expected == byte => *matched + 1,
                _ => usize::from(*byte == END[0]),
            };
            discarded += 1;
            if *matched == END.len() {
                self.stage = ReplayStage::Body(*body);
            }
        }
        if let ReplayStage::Body(left) = &mut self.stage {
            let more = usize::try_from(*left).unwrap_or(usize::MAX);
            let more = more.min(buf.len() - discarded);
            discarded += more;
            *left -= more as u64;
            if *left == 0 {
                self.stage = ReplayStage::Waiting;
                // hyper may read from now on.
                cx.waker().wake_by_ref();
            }
        }
        Ok(Some(discarded))
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
        if matches!(self.stage, ReplayStage::Head { .. } | ReplayStage::Body(_)) {
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
        if let Some(discarded) = self.discard(cx, buf)? {
            return Poll::Ready(Ok(discarded));
        }
        if self.hung_up {
            return Poll::Pending;
        }
        self.flushed = false;
        let written = Pin::new(&mut self.io).poll_write(cx, buf);
        self.unless_hung_up(cx, written)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
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
        let first = bufs.iter().find(|buf| !buf.is_empty());
        if let Some(discarded) = self.discard(cx, first.map_or(&[], |first| first))? {
            return Poll::Ready(Ok(discarded));
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
    use crate::util::budget::BudgetedStream;

    async fn pair() -> (Io, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).await;
        let (server, _) = listener.accept().await.unwrap();
        let client = BudgetedStream::new(client.unwrap());
        (Io::Plain(TokioIo::new(client)), server)
    }

    async fn write(replay: &mut Rewind, text: &str) -> io::Result<usize> {
        poll_fn(|cx| Pin::new(&mut *replay).poll_write(cx, text.as_bytes())).await
    }

    async fn is_readable(replay: &mut Rewind) -> bool {
        let mut room = [0];
        let mut room = hyper::rt::ReadBuf::new(&mut room);
        poll_fn(|cx| {
            let read = Pin::new(&mut *replay).poll_read(cx, room.unfilled());
            Poll::Ready(read.is_ready())
        })
        .await
    }

    async fn flush(replay: &mut Rewind) {
        let flushed = poll_fn(|cx| Pin::new(&mut *replay).poll_flush(cx)).await;
        flushed.unwrap();
    }

    #[tokio::test]
    async fn between_the_request_and_the_head_of_its_answer_no_write_gets_through() {
        let (io, server) = pair().await;
        let (mut replay, answered) = Rewind::of(io, Bytes::from_static(b"HTTP/1.1"), 4);
        // hyper may write it in any number of pieces, and flush as often as it likes.
        for piece in ["POST / HTTP/1.1\r\na: b\r", "\n\r", "\nbo", "dy"] {
            assert!(replay.read.len() == 8 && !is_readable(&mut replay).await);
            assert_eq!(write(&mut replay, piece).await.unwrap(), piece.len());
            flush(&mut replay).await;
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
    async fn a_request_ends_where_its_body_does() {
        for (pieces, beyond) in [
            (vec!["GET / HTTP/1.1\r\n\r\nbodyGET"], 3),
            (vec!["GET / HTTP/1.1\r\n\r\n", "bod", "yGET"], 3),
            (vec!["GET / HTTP/1.1\r\n\r\r\n\r\n", "body"], 0),
        ] {
            let (io, _server) = pair().await;
            let (mut replay, _answered) = Rewind::of(io, Bytes::new(), 4);
            let mut left = 0;
            for piece in &pieces {
                left = piece.len() - write(&mut replay, piece).await.unwrap();
            }
            assert_eq!(left, beyond, "{pieces:?}");
            assert!(write(&mut replay, "GET").await.is_err(), "{pieces:?}");
        }
    }

    #[tokio::test]
    async fn a_connection_without_the_head_of_its_answer_is_not_used_again() {
        for comes in [true, false] {
            let (io, _server) = pair().await;
            let (mut replay, answered) = Rewind::of(io, Bytes::new(), 0);
            write(&mut replay, "GET / HTTP/1.1\r\n\r\n").await.unwrap();
            if comes {
                answered.set();
            }
            assert_eq!(replay.into_io().is_some(), comes);
        }
    }
}
