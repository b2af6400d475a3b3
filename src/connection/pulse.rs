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
pub struct Pulse {
    /// Requests whose response has not been handed over whole.
    serving: AtomicU32,
    /// Bytes of a request's headers have come, or the first are still awaited.
    reading: AtomicBool,
    /// Goes up with every sign of life that starts a wait anew.
    beats: AtomicU32,
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
pub(super) struct Serving(Arc<Pulse>);

/// What the keeper knows of a connection besides its pulse.
#[derive(Debug)]
pub struct Watch {
    beats: u32,
    since: Instant,
    resting: bool,
    finishing: bool,
}

/// How long connections may take.
#[derive(Clone, Copy, Debug)]
pub struct Patience {
    /// To send the headers of a request.
    pub headers: Duration,
    /// To send the next request after an answer, before what was kept for it is given up.
    pub awake: Duration,
    /// To send the next request after an answer.
    pub idle: Duration,
    /// Without a byte either way while a request is being served: a client that is gone without a word.
    pub stalled: Duration,
}

/// What becomes of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// It goes on.
    Keep,
    /// The request that is served, or else the next one, is its last.
    Last,
    /// It keeps nothing but its socket until the next request.
    Rest,
    /// It ends when what runs has ended.
    Finish,
    /// It ends now.
    Cut,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Reading,
    Serving,
    Idle,
}

impl Pulse {
    /// Of a connection that has just been accepted: its first headers are awaited.
    pub fn new() -> Arc<Self> {
        Arc::new(Self {
            serving: AtomicU32::new(0),
            reading: AtomicBool::new(true),
            beats: AtomicU32::new(0),
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
    pub fn order(&self, order: Order) {
        match order {
            Order::Keep => return,
            Order::Last => self.last.store(true, Ordering::Release),
            Order::Rest => self.rest.store(true, Ordering::Release),
            Order::Finish => self.finish.store(true, Ordering::Release),
            Order::Cut => self.cut.store(true, Ordering::Release),
        }
        let waker = self.waker.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(waker) = &*waker {
            waker.wake_by_ref();
        }
    }

    /// Bytes came from the client: of a request's body, or of the next one's headers.
    pub(super) fn heard(&self) {
        let idle = self.serving.load(Ordering::Relaxed) == 0;
        if idle && self.reading.swap(true, Ordering::Relaxed) {
            return;
        }
        self.beat();
    }

    /// Bytes went to the client.
    pub(super) fn told(&self) {
        self.beat();
    }

    /// Whether there is something that the client does not take.
    pub(super) fn blocks(&self, blocked: bool) {
        if self.blocked.load(Ordering::Relaxed) != blocked {
            self.blocked.store(blocked, Ordering::Relaxed);
        }
    }

    /// A request's headers are complete.
    pub(super) fn began(self: &Arc<Self>) -> Serving {
        self.serving.fetch_add(1, Ordering::Relaxed);
        self.reading.store(false, Ordering::Relaxed);
        self.beat();
        Serving(Arc::clone(self))
    }

    /// The requests of an HTTP/2 connection.
    pub(super) fn streams(&self) -> &Streams {
        &self.streams
    }

    /// What `doing` comes to; `None` when the connection is to end now.
    pub(super) async fn unless_cut<F: Future>(&self, mut doing: Pin<&mut F>) -> Option<F::Output> {
        let mut known = None;
        poll_fn(|cx| {
            self.wake_at_orders(&mut known, cx);
            match self.cut.load(Ordering::Acquire) {
                true => Poll::Ready(None),
                false => doing.as_mut().poll(cx).map(Some),
            }
        })
        .await
    }

    /// What `doing` comes to, before there is a request; `None` when the connection is to end before that.
    pub(crate) async fn unless_over<T>(&self, doing: impl Future<Output = T>) -> Option<T> {
        let mut doing = pin!(doing);
        let mut known = None;
        poll_fn(|cx| {
            self.wake_at_orders(&mut known, cx);
            match self.cut.load(Ordering::Acquire) || self.should_finish() {
                true => Poll::Ready(None),
                false => doing.as_mut().poll(cx).map(Some),
            }
        })
        .await
    }

    /// True once, when the connection is to end after what runs. Whoever asks is woken through [`Pulse::unless_cut`].
    pub(super) fn should_finish(&self) -> bool {
        self.finish.load(Ordering::Acquire) && self.finish.swap(false, Ordering::AcqRel)
    }

    /// True once, when the connection is to rest, nothing has come since, and nothing is still to go.
    pub(super) fn should_rest(&self) -> bool {
        self.rest.load(Ordering::Acquire)
            && self.rest.swap(false, Ordering::AcqRel)
            && self.phase() == Phase::Idle
            && !self.blocked.load(Ordering::Relaxed)
    }

    /// Changes with every sign of life.
    pub(super) fn beats(&self) -> u32 {
        self.beats.load(Ordering::Relaxed)
    }

    /// Does what puts the connection to rest.
    pub(super) fn resting<T>(&self, doing: impl FnOnce() -> T) -> T {
        self.resting.store(true, Ordering::Relaxed);
        let done = doing();
        self.resting.store(false, Ordering::Relaxed);
        done
    }

    /// Whether the end of HTTP is not the end of the connection.
    pub(super) fn is_resting(&self) -> bool {
        self.resting.load(Ordering::Relaxed)
    }

    /// Whether the client is to be told to send no more requests.
    pub(super) fn is_last(&self) -> bool {
        self.last.load(Ordering::Acquire)
    }

    /// Has orders wake the task that asks. A task has the same waker whenever it runs, which is `known` after the first
    /// time.
    fn wake_at_orders(&self, known: &mut Option<Waker>, cx: &Context<'_>) {
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
    fn beat(&self) {
        let beats = self.beats();
        self.beats.store(beats.wrapping_add(1), Ordering::Relaxed);
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
    pub(super) fn is_last(&self) -> bool {
        self.0.is_last()
    }

    /// Of the connection.
    pub(super) fn pulse(&self) -> &Pulse {
        &self.0
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        self.0.beat();
        self.0.serving.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Watch {
    /// Of a connection that has just been accepted.
    pub fn new(now: Instant) -> Self {
        Self {
            beats: 0,
            since: now,
            resting: false,
            finishing: false,
        }
    }

    /// What becomes of the connection; to be asked from time to time. Requests that stall in one that goes on are given
    /// up.
    pub fn look(&mut self, pulse: &Pulse, patience: Patience, now: Instant) -> Order {
        pulse.streams.give_up(patience.stalled, now);
        let beats = pulse.beats();
        if beats != self.beats {
            self.beats = beats;
            self.since = now;
            self.resting = false;
        }
        let quiet = now.duration_since(self.since);
        match judge(pulse.phase(), self.finishing, quiet, patience) {
            Order::Rest if std::mem::replace(&mut self.resting, true) => Order::Keep,
            Order::Finish => {
                self.finishing = true;
                self.since = now;
                Order::Finish
            }
            order => order,
        }
    }
}

/// The rule: headers have `headers`, a pause between requests has `idle`, a goodbye has `headers` once more; an answer
/// has all the time it needs while anything moves. Most pauses are either very short or long: after `awake` it is the
/// latter.
fn judge(phase: Phase, finishing: bool, quiet: Duration, patience: Patience) -> Order {
    match phase {
        Phase::Serving if quiet >= patience.stalled => Order::Cut,
        Phase::Reading if quiet >= patience.headers => Order::Cut,
        Phase::Idle if finishing && quiet >= patience.headers => Order::Cut,
        Phase::Idle if !finishing && quiet >= patience.idle => Order::Finish,
        Phase::Idle if !finishing && quiet >= patience.awake => Order::Rest,
        Phase::Serving | Phase::Reading | Phase::Idle => Order::Keep,
    }
}

#[cfg(test)]
mod tests;
