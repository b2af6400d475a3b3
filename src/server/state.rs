//! What a connection is doing, as seen by whoever keeps the connections: a few atomics and no clock.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use super::streams::Streams;

/// The state of one connection, written by it and read by its keeper.
#[derive(Debug)]
pub struct ConnectionState {
    /// Requests whose response has not been handed over whole.
    serving: AtomicU32,
    /// Bytes of a request's headers have come, or the first are still awaited.
    reading: AtomicBool,
    /// Goes up with every sign of life that starts a wait anew.
    activity: AtomicU32,
    /// Something is still to go to the client, which does not take it.
    blocked: AtomicBool,
    /// It is being put to rest this moment.
    resting: AtomicBool,
    last: AtomicBool,
    rest: AtomicBool,
    finish: AtomicBool,
    cut: AtomicBool,
    /// Of the connection's task.
    waker: Mutex<Option<Waker>>,
    streams: Streams,
}

/// A request that is being served, until dropped.
#[derive(Debug)]
pub(in crate::server) struct Serving(Arc<ConnectionState>);

/// What the keeper knows of a connection besides its pulse.
#[derive(Debug)]
pub struct IdleTracker {
    activity: u32,
    since: Instant,
    resting: bool,
    finishing: bool,
}

/// How long connections may take.
#[derive(Clone, Copy, Debug)]
pub struct Timeouts {
    /// To send the headers of a request.
    pub headers: Duration,
    /// To send the next request after an answer, before what was kept for it is given up.
    pub buffer_retention: Duration,
    /// To send the next request after an answer.
    pub idle: Duration,
    /// Without a byte either way while a request is being served: a client that is gone without a word.
    pub stalled: Duration,
}

/// What becomes of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Directive {
    /// It goes on.
    Continue,
    /// The request that is served, or else the next one, is its last.
    CloseAfterResponse,
    /// It keeps nothing but its socket until the next request.
    ReleaseBuffers,
    /// It ends when what runs has ended.
    Drain,
    /// It ends now.
    Abort,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Reading,
    Serving,
    Idle,
}

impl ConnectionState {
    /// Of a connection that has just been accepted: its first headers are awaited.
    pub fn new() -> Arc<Self> {
        Arc::new(Self {
            serving: AtomicU32::new(0),
            reading: AtomicBool::new(true),
            activity: AtomicU32::new(0),
            blocked: AtomicBool::new(false),
            resting: AtomicBool::new(false),
            last: AtomicBool::new(false),
            rest: AtomicBool::new(false),
            finish: AtomicBool::new(false),
            cut: AtomicBool::new(false),
            waker: Mutex::default(),
            streams: Streams::default(),
        })
    }

    /// Carries an order out.
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

    /// Bytes came from the client: of a request's body, or of the next one's headers.
    pub(in crate::server) fn on_read(&self) {
        let idle = self.serving.load(Ordering::Relaxed) == 0;
        if idle && self.reading.swap(true, Ordering::Relaxed) {
            return;
        }
        self.note_activity();
    }

    /// Bytes went to the client.
    pub(in crate::server) fn on_write(&self) {
        self.note_activity();
    }

    /// Whether there is something that the client does not take.
    pub(in crate::server) fn blocks(&self, blocked: bool) {
        if self.blocked.load(Ordering::Relaxed) != blocked {
            self.blocked.store(blocked, Ordering::Relaxed);
        }
    }

    /// A request's headers are complete.
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

    /// What `doing` comes to; `None` when the connection is to end now.
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

    /// What `doing` comes to, before there is a request; `None` when the connection is to end before that.
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

    /// True once, when the connection is to end after what runs. Whoever asks is woken through [`ConnectionState::unless_cut`].
    pub(in crate::server) fn should_finish(&self) -> bool {
        self.finish.load(Ordering::Acquire) && self.finish.swap(false, Ordering::AcqRel)
    }

    /// True once, when the connection is to rest, nothing has come since, and nothing is still to go.
    pub(in crate::server) fn should_rest(&self) -> bool {
        self.rest.load(Ordering::Acquire)
            && self.rest.swap(false, Ordering::AcqRel)
            && self.phase() == Phase::Idle
            && !self.blocked.load(Ordering::Relaxed)
    }

    /// Changes with every sign of life.
    pub(in crate::server) fn activity(&self) -> u32 {
        self.activity.load(Ordering::Relaxed)
    }

    /// Does what puts the connection to rest.
    pub(in crate::server) fn resting<T>(&self, doing: impl FnOnce() -> T) -> T {
        self.resting.store(true, Ordering::Relaxed);
        let done = doing();
        self.resting.store(false, Ordering::Relaxed);
        done
    }

    /// Whether the end of HTTP is not the end of the connection.
    pub(in crate::server) fn is_resting(&self) -> bool {
        self.resting.load(Ordering::Relaxed)
    }

    /// Whether the client is to be told to send no more requests.
    pub(in crate::server) fn is_last(&self) -> bool {
        self.last.load(Ordering::Acquire)
    }

    /// Has orders wake the task that asks. A task has the same waker whenever it runs, which is `known` after the first
    /// time.
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

    /// One thread does all that a connection does; if ever two did, a beat that is lost is one of several.
    fn note_activity(&self) {
        let activity = self.activity();
        self.activity
            .store(activity.wrapping_add(1), Ordering::Relaxed);
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
    /// Whether this is the last request of its connection.
    pub(in crate::server) fn is_last(&self) -> bool {
        self.0.is_last()
    }

    /// Of the connection.
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
    /// Of a connection that has just been accepted.
    pub fn new(now: Instant) -> Self {
        Self {
            activity: 0,
            since: now,
            resting: false,
            finishing: false,
        }
    }

    /// What becomes of the connection; to be asked from time to time. Requests that stall in one that goes on are given
    /// up.
    pub fn look(&mut self, pulse: &ConnectionState, patience: Timeouts, now: Instant) -> Directive {
        pulse.streams.give_up(patience.stalled, now);
        let activity = pulse.activity();
        if activity != self.activity {
            self.activity = activity;
            self.since = now;
            self.resting = false;
        }
        let quiet = now.duration_since(self.since);
        match next_directive(pulse.phase(), self.finishing, quiet, patience) {
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

/// The rule: headers have `headers`, a pause between requests has `idle`, a goodbye has `headers` once more; an answer
/// has all the time it needs while anything moves. Most pauses are either very short or long: after `buffer_retention` it is the
/// latter.
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
