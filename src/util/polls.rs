//! Counts what a future does during one poll, for tests: nothing else runs on its thread meanwhile.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Runs a future to its end. Returns the number of its polls, too.
pub(crate) async fn counted<F: Future>(future: F) -> (F::Output, usize) {
    let (mut future, mut polls) = (pin!(future), 0);
    let output = poll_fn(|cx| {
        polls += 1;
        future.as_mut().poll(cx)
    })
    .await;
    (output, polls)
}

/// Runs a future to its end. Returns the most by which `count` grew during one poll, too.
pub(crate) async fn most_at_once<F: Future>(count: &AtomicUsize, future: F) -> (F::Output, usize) {
    let (mut future, mut most) = (pin!(future), 0);
    let output = poll_fn(|cx| {
        let before = count.load(Ordering::Relaxed);
        let polled = future.as_mut().poll(cx);
        most = most.max(count.load(Ordering::Relaxed) - before);
        polled
    })
    .await;
    (output, most)
}
