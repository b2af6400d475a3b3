//! Decides what becomes of a quiet client connection (waiting for headers, idle, stalled): its activity, and the orders
//! of the listener that follow from it, with a few atomics and no clock. The times are in `config/limits.rs` and
//! `server/listener.rs`.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use super::stream_tasks::Streams;

/// The state of one connection. The connection writes its activity here; the listener reads it and gives orders.
#[derive(Debug)]
pub struct ConnectionState {
    /// The number of requests whose response has not been handed over whole.
    serving: AtomicU32,
    /// True while a request's headers are coming in, or the first ones are awaited.
    reading: AtomicBool,
    /// A counter that goes up with each activity that restarts a wait.
    activity: AtomicU32,
    /// True while the client does not take bytes that are to be sent.
    blocked: AtomicBool,
    /// True at the moment when the buffers are being released.
    resting: AtomicBool,
    /// True if a response was given before its request was read.
    unread: AtomicBool,
    last: AtomicBool,
    rest: AtomicBool,
    finish: AtomicBool,
    cut: AtomicBool,
    /// The waker of the connection's task.
    waker: Mutex<Option<Waker>>,
    streams: Streams,
}

/// A request that is being served, until this is dropped.
#[derive(Debug)]
pub(in crate::server) struct Serving(Arc<ConnectionState>);

/// Tracks for the listener how long a connection has been quiet.
#[derive(Debug)]
pub struct IdleTracker {
    activity: u32,
    since: Instant,
    resting: bool,
    finishing: bool,
}

/// The timeouts of connections.
#[derive(Clone, Copy, Debug)]
pub struct Timeouts {
    /// The time to send the headers of a request.
    pub headers: Duration,
    /// The time to send the next request after a response, before the buffers are released.
    pub buffer_retention: Duration,
    /// The time to send the next request after a response, before the connection is closed.
    pub idle: Duration,
    /// The time without a byte in either direction while a request is being served. It finds clients that vanished
    /// without closing.
    pub stalled: Duration,
}

/// The next action for a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Directive {
    /// The connection goes on.
    Continue,
    /// The request being served is the last; if there is none, the next one is.
    CloseAfterResponse,
    /// The connection keeps nothing but its socket until the next request.
    ReleaseBuffers,
    /// The connection ends when the requests being served have ended.
    Drain,
    /// The connection ends now.
    Abort,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Reading,
    Serving,
    Idle,
}

impl ConnectionState {
    /// Creates the state of a connection that was just accepted; its first headers are awaited.
    pub fn new() -> Arc<Self> {
        Arc::new(Self {
            serving: AtomicU32::new(0),
            reading: AtomicBool::new(true),
            activity: AtomicU32::new(0),
            blocked: AtomicBool::new(false),
            resting: AtomicBool::new(false),
            unread: AtomicBool::new(false),
            last: AtomicBool::new(false),
            rest: AtomicBool::new(false),
            finish: AtomicBool::new(false),
            cut: AtomicBool::new(false),
            waker: Mutex::default(),
            streams: Streams::default(),
        })
    }

    /// Gives an order, and wakes the connection's task to carry it out.
    pub fn order(&self, order: Directive) {
        match order {
            Directive::Continue => return,
            Directive::CloseAfterResponse => self.last.store(true, Ordering::Release),
            Directive::ReleaseBuffers => self.rest.store(true, Ordering::Release),
            Directive::Drain => self.finish.store(true, Ordering::Release),
            Directive::Abort => self.cut.store(true, Ordering::Release),
        }
        let waker = self.waker.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(waker) = &*waker {
            waker.wake_by_ref();
        }
    }

    /// Notes that bytes came from the client: of a request's body, or of the next request's headers.
    pub(in crate::server) fn on_read(&self) {
        let idle = self.serving.load(Ordering::Relaxed) == 0;
        if idle && self.reading.swap(true, Ordering::Relaxed) {
            return;
        }
        self.note_activity();
    }

    /// Notes that bytes went to the client: of an answer, or the rest of one that the client was slow to take. The pings
    /// of an idle HTTP/2 connection do not count, or it would never be closed.
    pub(in crate::server) fn on_write(&self) {
        if self.serving.load(Ordering::Relaxed) > 0 || self.blocked.load(Ordering::Relaxed) {
            self.note_activity();
        }
    }

    /// Notes whether there are bytes that the client does not take.
    pub(in crate::server) fn blocks(&self, blocked: bool) {
        if self.blocked.load(Ordering::Relaxed) != blocked {
            self.blocked.store(blocked, Ordering::Relaxed);
        }
    }

    /// Notes that a request's headers are complete.
    pub(in crate::server) fn began(self: &Arc<Self>) -> Serving {
        self.serving.fetch_add(1, Ordering::Relaxed);
        self.reading.store(false, Ordering::Relaxed);
        self.note_activity();
        Serving(Arc::clone(self))
    }

    /// The requests of an HTTP/2 connection.
    pub(in crate::server) fn streams(&self) -> &Streams {
        &self.streams
    }

    /// Runs `doing` to its end; `None` if the connection is aborted before that.
    pub(in crate::server) async fn unless_aborted<F: Future>(
        &self,
        mut doing: Pin<&mut F>,
    ) -> Option<F::Output> {
        let mut known = None;
        poll_fn(|cx| {
            self.wake_at_directives(&mut known, cx);
            if self.cut.load(Ordering::Acquire) {
                Poll::Ready(None)
            } else {
                doing.as_mut().poll(cx).map(Some)
            }
        })
        .await
    }

    /// Runs `doing` to its end, before there is a request; `None` if the connection is to end before that.
    pub(crate) async fn until_ended<T>(&self, doing: impl Future<Output = T>) -> Option<T> {
        let mut doing = pin!(doing);
        let mut known = None;
        poll_fn(|cx| {
            self.wake_at_directives(&mut known, cx);
            if self.cut.load(Ordering::Acquire) || self.should_finish() {
                Poll::Ready(None)
            } else {
                doing.as_mut().poll(cx).map(Some)
            }
        })
        .await
    }

    /// True once, when the connection is to end after the requests being served. [`ConnectionState::unless_aborted`]
    /// wakes the task that polls this.
    pub(in crate::server) fn should_finish(&self) -> bool {
        self.finish.load(Ordering::Acquire) && self.finish.swap(false, Ordering::AcqRel)
    }

    /// True once, when the connection is to release its buffers, nothing has come since, and nothing is left to send.
    pub(in crate::server) fn should_rest(&self) -> bool {
        self.rest.load(Ordering::Acquire)
            && self.rest.swap(false, Ordering::AcqRel)
            && self.phase() == Phase::Idle
            && !self.blocked.load(Ordering::Relaxed)
    }

    /// The activity counter, which changes with every activity.
    pub(in crate::server) fn activity(&self) -> u32 {
        self.activity.load(Ordering::Relaxed)
    }

    /// Runs `doing`, which ends hyper's connection to release its buffers.
    pub(in crate::server) fn resting<T>(&self, doing: impl FnOnce() -> T) -> T {
        self.resting.store(true, Ordering::Relaxed);
        let done = doing();
        self.resting.store(false, Ordering::Relaxed);
        done
    }

    /// True if the end of hyper's connection is not the end of the client's.
    pub(in crate::server) fn is_resting(&self) -> bool {
        self.resting.load(Ordering::Relaxed)
    }

    /// Notes that a response is given although its request's body is not read to the end.
    pub(in crate::server) fn leave_unread(&self) {
        self.unread.store(true, Ordering::Relaxed);
    }

    /// True if the client may still be sending a request that has its response.
    pub(in crate::server) fn has_unread(&self) -> bool {
        self.unread.load(Ordering::Relaxed)
    }

    /// True if the client is to be told to send no more requests.
    pub(in crate::server) fn is_last(&self) -> bool {
        self.last.load(Ordering::Acquire)
    }

    /// Makes orders wake the task of `cx`. A task has the same waker whenever it runs; after the first time `known`
    /// holds it, so that no lock is taken.
    fn wake_at_directives(&self, known: &mut Option<Waker>, cx: &Context<'_>) {
        if known
            .as_ref()
            .is_none_or(|known| !known.will_wake(cx.waker()))
        {
            *known = Some(cx.waker().clone());
            let mut waker = self.waker.lock().unwrap_or_else(PoisonError::into_inner);
            waker.clone_from(known);
        }
    }

    /// Counts one activity. One thread does all that a connection does; if two ever did, a lost count would be one of
    /// several.
    fn note_activity(&self) {
        let activity = self.activity();
        self.activity
            .store(activity.wrapping_add(1), Ordering::Relaxed);
    }

    /// True while a request is being served.
    pub(in crate::server) fn is_serving(&self) -> bool {
        self.phase() == Phase::Serving
    }

    fn phase(&self) -> Phase {
        if self.serving.load(Ordering::Relaxed) > 0 {
            Phase::Serving
        } else if self.reading.load(Ordering::Relaxed) {
            Phase::Reading
        } else {
            Phase::Idle
        }
    }
}

impl Serving {
    /// True if this is the last request of its connection.
    pub(in crate::server) fn is_last(&self) -> bool {
        self.0.is_last()
    }

    /// The state of the connection.
    pub(in crate::server) fn pulse(&self) -> &ConnectionState {
        &self.0
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        self.0.note_activity();
        self.0.serving.fetch_sub(1, Ordering::Relaxed);
    }
}

impl IdleTracker {
    /// Creates the tracker of a connection that was just accepted.
    pub fn new(now: Instant) -> Self {
        Self {
            activity: 0,
            since: now,
            resting: false,
            finishing: false,
        }
    }

    /// Returns the next action for the connection; to be called from time to time. Also gives up the stalled HTTP/2
    /// requests of a connection that goes on.
    pub fn look(&mut self, state: &ConnectionState, patience: Timeouts, now: Instant) -> Directive {
        state.streams.give_up(patience.stalled, now);
        let activity = state.activity();
        if activity != self.activity {
            self.activity = activity;
            self.since = now;
            self.resting = false;
        }
        let quiet = now.duration_since(self.since);
        match next_directive(state.phase(), self.finishing, quiet, patience) {
            Directive::ReleaseBuffers if std::mem::replace(&mut self.resting, true) => {
                Directive::Continue
            }
            Directive::Drain => {
                self.finishing = true;
                self.since = now;
                Directive::Drain
            }
            order => order,
        }
    }
}

/// Decides by the time that the connection has been quiet. Headers have `headers`, a pause between requests has `idle`,
/// and a connection that was told to end has `headers` once more. A response has all the time it needs while anything
/// moves. Most pauses are either very short or long; one of `buffer_retention` counts as long.
fn next_directive(phase: Phase, finishing: bool, quiet: Duration, patience: Timeouts) -> Directive {
    match phase {
        Phase::Serving if quiet >= patience.stalled => Directive::Abort,
        Phase::Reading if quiet >= patience.headers => Directive::Abort,
        Phase::Idle if finishing && quiet >= patience.headers => Directive::Abort,
        Phase::Idle if !finishing && quiet >= patience.idle => Directive::Drain,
        Phase::Idle if !finishing && quiet >= patience.buffer_retention => {
            Directive::ReleaseBuffers
        }
        Phase::Serving | Phase::Reading | Phase::Idle => Directive::Continue,
    }
}

#[cfg(test)]
mod tests;
