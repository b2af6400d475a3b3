//! Ends the turn of a task after a number of bytes, or of futures in it, so that other requests and timers of its worker
//! run.
//!
//! tokio ends a turn after 128 operations on sockets. One of them may move hundreds of KiB, so a body that arrives as
//! fast as it leaves would go on for 20 MiB, and for 50 ms if it is filtered as well (`growth`). A task that has used
//! up its budget is polled again only after the worker has looked at its timers; one that wakes itself is polled up to
//! 61 times before that.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, Waker, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::task::coop::{has_budget_remaining, poll_proceed};

/// The operations in one turn of a task.
const BUDGET: usize = 128;
/// The number of entries from which on there are pauses.
const MANY: usize = 64;
/// The bytes that are as much as one operation. 128 of them, 1 MiB, take about half a millisecond to pass on.
const UNIT: usize = 8 << 10;
/// The most bytes that one operation writes. The system takes as many as a client reads meanwhile.
const MOST_AT_ONCE: usize = 128 * UNIT;

/// A socket whose operations use up the budget of their task by the bytes that they move.
#[derive(Debug)]
pub(crate) struct BudgetedStream<T = TcpStream>(T);

impl<T> BudgetedStream<T> {
    pub(crate) fn new(stream: T) -> Self {
        Self(stream)
    }

    pub(crate) fn get_ref(&self) -> &T {
        &self.0
    }
}

/// One of many futures in a task, which uses up the budget of the task by its polls: each is worth many operations on
/// sockets.
#[derive(Debug)]
pub(crate) struct Rationed<F> {
    future: F,
    units: usize,
}

impl<F> Rationed<F> {
    /// Lets at most `at_once` of its like go on in one turn of the task.
    pub(crate) fn new(future: F, at_once: usize) -> Self {
        let units = BUDGET / at_once;
        Self { future, units }
    }
}

impl<F: Future + Unpin> Future for Rationed<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        ready!(poll_turn(cx));
        take_units(self.units - 1);
        Pin::new(&mut self.future).poll(cx)
    }
}

/// Lets other requests of the worker run between two steps over many `entries`, each of which takes milliseconds for a
/// thousand (`growth`).
pub(crate) async fn pause_among(entries: usize) {
    if entries >= MANY {
        tokio::task::yield_now().await;
    }
}

/// Takes from the budget of the task as much as `bytes` that were moved or read are worth. Less than a unit is free.
pub(crate) fn charge(bytes: usize) {
    if bytes >= UNIT {
        take_units(bytes / UNIT);
    }
}

/// Waits for the next turn if the budget of the task is used up. Otherwise takes one unit.
pub(crate) fn poll_turn(cx: &mut Context<'_>) -> Poll<()> {
    ready!(poll_proceed(cx)).made_progress();
    Poll::Ready(())
}

#[inline(never)]
fn take_units(units: usize) {
    let cx = &mut Context::from_waker(Waker::noop());
    for _ in 0..units {
        // Without a look at the budget first, the waker that does nothing would be kept.
        if !has_budget_remaining() || poll_turn(cx).is_pending() {
            return;
        }
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for BudgetedStream<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let polled = Pin::new(&mut self.0).poll_read(cx, buf);
        charge(buf.filled().len() - before);
        polled
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for BudgetedStream<T> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let bytes = &bytes[..bytes.len().min(MOST_AT_ONCE)];
        charged(Pin::new(&mut self.0).poll_write(cx, bytes))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let mut length = 0;
        let long = parts.iter().position(|part| {
            length += part.len();
            length > MOST_AT_ONCE
        });
        let inner = Pin::new(&mut self.0);
        charged(match long {
            // One part is too long by itself.
            Some(0) => inner.poll_write(cx, &parts[0][..MOST_AT_ONCE]),
            Some(count) => inner.poll_write_vectored(cx, &parts[..count]),
            None => inner.poll_write_vectored(cx, parts),
        })
    }

    fn is_write_vectored(&self) -> bool {
        self.0.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}

fn charged(written: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
    if let Poll::Ready(Ok(length)) = &written {
        charge(*length);
    }
    written
}

#[cfg(test)]
mod tests;
