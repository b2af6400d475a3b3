#![allow(clippy::unwrap_used, reason = "a test says what it expects")]

use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::*;
use crate::util::polls::most_at_once;

/// A socket that always has more, and takes all of what it is given. Counts the bytes, and the longest write.
#[derive(Clone, Default)]
struct Fast {
    moved: Arc<AtomicUsize>,
    longest: Arc<AtomicUsize>,
}

impl Fast {
    fn moves(&self, cx: &mut Context<'_>, bytes: usize) -> Poll<io::Result<usize>> {
        ready!(poll_turn(cx));
        self.moved.fetch_add(bytes, Ordering::Relaxed);
        self.longest.fetch_max(bytes, Ordering::Relaxed);
        Poll::Ready(Ok(bytes))
    }
}

impl AsyncRead for Fast {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let room = buf.remaining();
        ready!(self.moves(cx, room))?;
        buf.initialize_unfilled();
        buf.advance(room);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Fast {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.moves(cx, bytes.len())
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.moves(cx, parts.iter().map(|part| part.len()).sum())
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

/// The bytes of each test: many turns.
const ALL: usize = 32 * MOST_AT_ONCE;
/// The bytes of an operation, as hyper reads and writes them.
const OPERATION: usize = 256 << 10;

/// Nothing but the budget ends a turn: the socket is always ready.
#[tokio::test]
async fn a_turn_moves_no_more_than_a_mebibyte_and_one_operation() {
    let fast = Fast::default();
    let mut stream = BudgetedStream::new(fast.clone());
    let mut room = vec![0; OPERATION];
    let passing = async {
        while fast.moved.load(Ordering::Relaxed) < ALL {
            stream.read_exact(&mut room).await.unwrap();
            stream.write_all(&room).await.unwrap();
        }
    };
    let ((), most) = most_at_once(&fast.moved, passing).await;
    assert!(most <= MOST_AT_ONCE + OPERATION, "{most}");
    assert!(
        most >= MOST_AT_ONCE / 2,
        "a turn is worth its price: {most}"
    );
}

/// The system takes as much of a body in memory as the client reads meanwhile.
#[tokio::test]
async fn a_body_in_memory_is_written_in_many_turns() {
    let (first, rest) = (vec![0; 100], vec![0; ALL]);
    for (parts, longest) in [
        (vec![&rest[..]], MOST_AT_ONCE),
        (vec![&first[..], &rest[..]], MOST_AT_ONCE),
        (rest.chunks(OPERATION).collect(), MOST_AT_ONCE),
    ] {
        let fast = Fast::default();
        let mut stream = BudgetedStream::new(fast.clone());
        let writing = async {
            let mut slices: Vec<_> = parts.iter().map(|part| IoSlice::new(part)).collect();
            let mut left = &mut slices[..];
            while !left.is_empty() {
                let written = poll_fn(|cx| Pin::new(&mut stream).poll_write_vectored(cx, left));
                let written = written.await.unwrap();
                assert!(written > 0);
                IoSlice::advance_slices(&mut left, written);
            }
            stream.write_all(&rest).await.unwrap();
        };
        let ((), most) = most_at_once(&fast.moved, writing).await;
        assert!(most <= 2 * MOST_AT_ONCE, "{most}");
        assert!(fast.longest.load(Ordering::Relaxed) <= longest);
        let all = parts.iter().map(|part| part.len()).sum::<usize>();
        assert_eq!(fast.moved.load(Ordering::Relaxed), all + ALL);
    }
}

/// A request of a few KiB is one operation, whatever its bytes.
#[tokio::test]
async fn small_operations_are_charged_as_one() {
    let fast = Fast::default();
    let mut stream = BudgetedStream::new(fast.clone());
    let small = vec![0; UNIT - 1];
    let writing = async {
        for _ in 0..1000 {
            stream.write_all(&small).await.unwrap();
        }
    };
    let ((), most) = most_at_once(&fast.moved, writing).await;
    assert_eq!(most, 128 * small.len());
}

/// A task that wakes itself would be polled many times between two looks at timers and sockets.
#[tokio::test]
async fn a_worker_looks_at_its_timers_after_every_turn() {
    let turns = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&turns);
    let busy = tokio::spawn(poll_fn(move |cx| {
        counted.fetch_add(1, Ordering::Relaxed);
        while poll_turn(cx).is_ready() {}
        Poll::<()>::Pending
    }));
    for _ in 0..100 {
        // Woken by such a look.
        tokio::task::yield_now().await;
    }
    let turns = turns.load(Ordering::Relaxed);
    assert!((50..=200).contains(&turns), "{turns}");
    busy.abort();
}

#[tokio::test]
async fn of_many_futures_in_a_task_only_some_go_on_in_a_turn() {
    let polls = AtomicUsize::new(0);
    let all = (0..1_000).map(|_| {
        let count = || std::future::ready(polls.fetch_add(1, Ordering::Relaxed));
        Rationed::new(Box::pin(async move { _ = count().await }), 16)
    });
    let all: FuturesUnordered<_> = all.collect();
    let ((), most) = most_at_once(&polls, all.collect()).await;
    assert_eq!((polls.load(Ordering::Relaxed), most), (1_000, 16));
}
