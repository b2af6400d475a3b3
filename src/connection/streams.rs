//! The requests of one HTTP/2 connection, each in a task of its own: where nothing moves in one, it alone is given up.
//!
//! HTTP/1.1 needs none of it, since there a request is all that a connection does.

use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use futures_util::task::AtomicWaker;
use hyper::rt::Executor;
use pin_project_lite::pin_project;

use super::pulse::Pulse;

/// The tasks of a connection's requests, for whoever keeps the connections.
#[derive(Debug, Default)]
pub(super) struct Streams(Mutex<Vec<Watched>>);

/// Spawns them.
#[derive(Clone)]
pub(super) struct Spawn(Arc<Pulse>);

#[derive(Debug)]
struct Watched {
    stream: Weak<Stream>,
    beats: u32,
    since: Option<Instant>,
}

#[derive(Debug, Default)]
struct Stream {
    /// Goes up whenever the task runs, which it does only for a reason: bytes came, the client took some, the answer
    /// goes on.
    beats: AtomicU32,
    given_up: AtomicBool,
    waker: AtomicWaker,
}

pin_project! {
    /// A task that can be given up.
    struct Moving<F> {
        #[pin]
        inner: F,
        stream: Arc<Stream>,
    }
}

impl Streams {
    /// Gives up those in which nothing has moved for so long; to be asked from time to time.
    pub(super) fn give_up(&self, stalled: Duration, now: Instant) {
        self.lock().retain_mut(|watched| {
            let Some(stream) = watched.stream.upgrade() else {
                return false;
            };
            let beats = stream.beats.load(Ordering::Relaxed);
            if beats != watched.beats {
                (watched.beats, watched.since) = (beats, None);
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
        // Those that are over are left until there is no room, which then is made for as many as there are.
        if all.len() == all.capacity() {
            all.retain(|watched| watched.stream.strong_count() > 0);
            let room = all.len().max(8);
            all.reserve(room);
        }
        all.push(Watched {
            stream: Arc::downgrade(&stream),
            beats: 0,
            since: None,
        });
        stream
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Watched>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Spawn {
    /// For the connection of this pulse.
    pub(super) fn new(pulse: &Arc<Pulse>) -> Self {
        Self(Arc::clone(pulse))
    }
}

impl<F> Executor<F> for Spawn
where
    F: Future<Output = ()> + Send + 'static,
{
    fn execute(&self, inner: F) {
        let stream = self.0.streams().open();
        tokio::spawn(Moving { inner, stream });
    }
}

impl<F: Future<Output = ()>> Future for Moving<F> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = self.project();
        this.stream.waker.register(cx.waker());
        if this.stream.given_up.load(Ordering::Acquire) {
            return Poll::Ready(());
        }
        this.stream.beats.fetch_add(1, Ordering::Relaxed);
        this.inner.poll(cx)
    }
}

#[cfg(test)]
mod tests;
