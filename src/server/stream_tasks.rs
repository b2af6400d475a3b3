//! The requests of one HTTP/2 connection, each in a task of its own, so that one that stalls is given up alone.
//!
//! HTTP/1.1 needs none of this, because there a request is all that a connection does.

use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use futures_util::task::AtomicWaker;
use hyper::rt::Executor;
use pin_project_lite::pin_project;

use crate::server::connection_state::ConnectionState;

/// The tasks of a connection's requests, as the listener checks them.
#[derive(Debug, Default)]
pub(in crate::server) struct Streams(Mutex<Vec<WatchedStream>>);

/// Spawns the tasks of a connection's requests.
#[derive(Clone)]
pub(in crate::server) struct StreamExecutor(Arc<ConnectionState>);

#[derive(Debug)]
struct WatchedStream {
    stream: Weak<Stream>,
    activity: u32,
    since: Option<Instant>,
}

#[derive(Debug, Default)]
struct Stream {
    /// A counter that goes up whenever the task runs. It runs only for a reason: bytes came, the client took some, or
    /// the response goes on.
    activity: AtomicU32,
    given_up: AtomicBool,
    waker: AtomicWaker,
}

pin_project! {
    /// A task that can be given up.
    struct AbortableTask<F> {
        #[pin]
        inner: F,
        stream: Arc<Stream>,
    }
}

impl Streams {
    /// Gives up the requests in which nothing has moved for `stalled`; to be called from time to time.
    pub(in crate::server) fn give_up(&self, stalled: Duration, now: Instant) {
        self.lock().retain_mut(|watched| {
            let Some(stream) = watched.stream.upgrade() else {
                return false;
            };
            let activity = stream.activity.load(Ordering::Relaxed);
            if activity != watched.activity {
                (watched.activity, watched.since) = (activity, None);
            }
            let quiet = now.duration_since(*watched.since.get_or_insert(now));
            let over = quiet >= stalled;
            if over {
                stream.given_up.store(true, Ordering::Release);
                stream.waker.wake();
            }
            !over
        });
    }

    fn open(&self) -> Arc<Stream> {
        let stream = Arc::new(Stream::default());
        let mut all = self.lock();
        // Finished tasks stay until the list is full. It then gets room for as many as remain, so that it is searched
        // rarely.
        if all.len() == all.capacity() {
            all.retain(|watched| watched.stream.strong_count() > 0);
            let room = all.len().max(8);
            all.reserve(room);
        }
        all.push(WatchedStream {
            stream: Arc::downgrade(&stream),
            activity: 0,
            since: None,
        });
        stream
    }

    fn lock(&self) -> MutexGuard<'_, Vec<WatchedStream>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl StreamExecutor {
    /// Creates an executor for the connection with this state.
    pub(in crate::server) fn new(state: &Arc<ConnectionState>) -> Self {
        Self(Arc::clone(state))
    }
}

impl<F> Executor<F> for StreamExecutor
where
    F: Future<Output = ()> + Send + 'static,
{
    fn execute(&self, inner: F) {
        let stream = self.0.streams().open();
        tokio::spawn(AbortableTask { inner, stream });
    }
}

impl<F: Future<Output = ()>> Future for AbortableTask<F> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = self.project();
        this.stream.waker.register(cx.waker());
        if this.stream.given_up.load(Ordering::Acquire) {
            return Poll::Ready(());
        }
        this.stream.activity.fetch_add(1, Ordering::Relaxed);
        this.inner.poll(cx)
    }
}

#[cfg(test)]
mod tests;
