//! Lets hyper take over a connection in the middle of an exchange, as though it had had it from the beginning.
//!
//! What it writes first was written already and goes nowhere; what it then reads first is what was read already.
//!
//! To hyper a write that fails is the end of the exchange. A catalog that refuses what it is being sent says so and hangs
//! up without having read the rest: so a write that fails only waits, and reading tells whether there was an answer.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::{Buf as _, Bytes};
use hyper::rt::{Read, ReadBufCursor, Write};

use super::dial::Io;

/// A connection for hyper.
pub(super) struct Replay {
    io: Io,
    stage: Stage,
    /// What was read already.
    read: Bytes,
    /// Nothing is on its way out.
    flushed: bool,
    /// Nothing more can be written.
    hung_up: bool,
}

/// How far hyper has come with what was written already.
#[derive(PartialEq, Eq)]
enum Stage {
    /// It has not begun: it would take an answer for one that nobody asked for.
    Before,
    /// It writes it.
    Within,
    /// It has, or there was nothing.
    After,
}

impl Replay {
    /// Nothing was written or read.
    pub(super) fn fresh(io: Io) -> Self {
        Self {
            io,
            stage: Stage::After,
            read: Bytes::new(),
            flushed: true,
            hung_up: false,
        }
    }

    /// The request that will be written first was written; `read` came since.
    pub(super) fn of(io: Io, read: Bytes) -> Self {
        Self {
            stage: Stage::Before,
            read,
            ..Self::fresh(io)
        }
    }

    /// The connection, if nothing of it is left in here.
    pub(super) fn into_io(self) -> Option<Io> {
        let over = self.stage == Stage::After && self.read.is_empty() && self.flushed;
        (over && !self.hung_up).then_some(self.io)
    }

    /// What came of a write, unless it failed.
    fn unless_hung_up<T>(
        &mut self,
        cx: &Context<'_>,
        outcome: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if !matches!(outcome, Poll::Ready(Err(_))) {
            return outcome;
        }
        self.hung_up = true;
        // An answer may have come since it was last read, and is there at once if it has; so is the end.
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}

impl Read for Replay {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        mut buf: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        if self.stage != Stage::After {
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

impl Write for Replay {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        if self.stage != Stage::After {
            self.stage = Stage::Within;
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
        if self.stage == Stage::Within {
            self.stage = Stage::After;
            // Now it may read.
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
        if self.stage != Stage::After {
            self.stage = Stage::Within;
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
