//! The circuit breaker: when requests to a failing address stop, and when they resume.
//!
//! Consecutive failures open it: nothing is sent for `open_for`. Then one request goes through as a probe, and its
//! outcome decides. Two words hold the whole state, so a closed breaker costs a request one load, and no request waits
//! for another. A probe sets the time of the next one before it is sent, so a probe that hangs delays the next by
//! `open_for` and no more. If no request comes to be the probe for a while, an answer to a health check closes the
//! breaker, and one failure opens it again: an address without requests must not be reported as down forever.
//!
//! The breaker of the last address needs more: failures that one caller or one table may have caused do not open it
//! (`failure_row.rs`). And if every breaker is open, a share of the requests goes through (`panic_share.rs`).

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::failure_row::{FailureRow, FailureSource};
use crate::backend::transport::coarse_clock::Moment;
use crate::config;

/// The time in microseconds between two of the gateway's own requests (undo, recovery) that pass an open breaker: their
/// progress must not depend on callers' requests.
const OWN_PACE: u64 = 1_000_000;
/// A health check may close the breaker once a probe has been due for this many times `open_for`, …
const QUIET: u64 = 10;
/// … or for this long, in microseconds: well before an operator looks into a catalog that is down.
const MAX_QUIET: u64 = 120_000_000;

/// The breaker of one address.
pub(in crate::backend) struct Breaker {
    failures: u32,
    open_for: u64,
    /// The number of failures in `row`; 0 if a request was answered since, so that a success costs one load.
    in_a_row: AtomicU32,
    row: Mutex<FailureRow>,
    /// The time when the next probe is allowed; 0 if the breaker is closed.
    next: AtomicU64,
    /// The time when the next request of the gateway itself is allowed.
    next_own: AtomicU64,
    /// The number of requests under way that went through as a share.
    sharing: AtomicU32,
}

/// The reason why the breaker let a request through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::backend) enum BreakerPass {
    /// The breaker was closed.
    Free,
    /// The request is the probe, until this moment.
    Probe(Moment),
    /// The request is one of the gateway itself.
    Own,
    /// The request is in the share that goes through if every breaker is open.
    Share,
}

/// The effect of a failure on the breaker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::backend) enum FailureEffect {
    /// The breaker is as it was.
    Counted,
    /// The failures would have opened it, but one caller or one table may have caused them all, and there is no other
    /// address. True for the first of a row.
    Spared(bool),
    /// The breaker opened.
    Opened,
}

/// The state of a breaker, in words for an operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::backend) enum State {
    /// All requests go through.
    Closed,
    /// No request goes through before this moment.
    Open(Moment),
    /// The next request is the probe.
    Due,
}

impl Breaker {
    /// Returns a closed breaker.
    pub(in crate::backend) fn new(config: &config::Breaker) -> Self {
        Self {
            failures: config.failures,
            open_for: u64::try_from(config.open_for.as_micros()).unwrap_or(u64::MAX / 2),
            in_a_row: AtomicU32::new(0),
            row: Mutex::default(),
            next: AtomicU64::new(0),
            next_own: AtomicU64::new(0),
            sharing: AtomicU32::new(0),
        }
    }

    /// True if all requests go through.
    pub(in crate::backend) fn is_closed(&self) -> bool {
        self.next.load(Ordering::Relaxed) == 0
    }

    /// Returns the state.
    pub(in crate::backend) fn state(&self, now: Moment) -> State {
        match self.next.load(Ordering::Relaxed) {
            0 => State::Closed,
            next if next > now => State::Open(next),
            _ => State::Due,
        }
    }

    /// Returns how long a probe has been due, in microseconds; `None` while the breaker is closed or no probe is due.
    pub(in crate::backend) fn overdue(&self, now: Moment) -> Option<u64> {
        let next = self.next.load(Ordering::Relaxed);
        (next != 0).then(|| now.checked_sub(next)).flatten()
    }

    /// Returns how long it stays open, in microseconds.
    pub(in crate::backend) fn open_for(&self) -> u64 {
        self.open_for
    }

    /// Returns how many consecutive failures open it.
    pub(in crate::backend) fn failures(&self) -> u32 {
        self.failures
    }

    /// Makes the request the probe, if one is due and no other request took it.
    pub(in crate::backend) fn probe(&self, now: Moment) -> Option<BreakerPass> {
        let next = self.next.load(Ordering::Relaxed);
        if next == 0 || next > now {
            return None;
        }
        let until = now + self.open_for;
        self.swap(next, until).then_some(BreakerPass::Probe(until))
    }

    /// Lets a request of the gateway itself through; `None` if the last one was too recent.
    pub(in crate::backend) fn own(&self, now: Moment) -> Option<BreakerPass> {
        let next = self.next_own.load(Ordering::Relaxed);
        let swapped = next <= now
            && self
                .next_own
                .compare_exchange(next, now + OWN_PACE, Ordering::Relaxed, Ordering::Relaxed)
                .is_ok();
        swapped.then_some(BreakerPass::Own)
    }

    /// Lets a request of the share through; `None` if as many of them are under way as failures open the breaker: on
    /// a catalog that hangs they wait long.
    pub(in crate::backend) fn share(&self) -> Option<BreakerPass> {
        let more = |sharing| (sharing < self.failures).then_some(sharing + 1);
        let taken = self
            .sharing
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, more);
        taken.is_ok().then_some(BreakerPass::Share)
    }

    /// Records that the address answered. Returns true if that closes the breaker.
    ///
    /// An answer to a request that was sent before the breaker opened changes nothing.
    pub(in crate::backend) fn succeeded(&self, pass: BreakerPass) -> bool {
        if self.in_a_row.load(Ordering::Relaxed) != 0 {
            self.in_a_row.store(0, Ordering::Relaxed);
        }
        match pass {
            BreakerPass::Free => false,
            BreakerPass::Probe(until) => self.swap(until, 0),
            BreakerPass::Own => self.next.swap(0, Ordering::Relaxed) != 0,
            BreakerPass::Share => {
                self.end_share();
                self.next.swap(0, Ordering::Relaxed) != 0
            }
        }
    }

    fn end_share(&self) {
        self.sharing.fetch_sub(1, Ordering::Relaxed);
    }

    /// Records that the address answered a health check. Returns true if that closes the breaker.
    ///
    /// A health check says less than a request. But the next request would go through anyway, and if it fails, the
    /// breaker opens again.
    pub(in crate::backend) fn found_well(&self, now: Moment) -> bool {
        let next = self.next.load(Ordering::Relaxed);
        let quiet = self.open_for.saturating_mul(QUIET).min(MAX_QUIET);
        if next == 0 || now.saturating_sub(next) < quiet || !self.swap(next, 0) {
            return false;
        }
        let one_less = self.failures.saturating_sub(1);
        *self.row() = FailureRow::of_address(one_less);
        self.in_a_row.store(one_less, Ordering::Relaxed);
        true
    }

    /// Records that the address failed. `last` is true if requests have no other address.
    pub(in crate::backend) fn failed(
        &self,
        pass: BreakerPass,
        source: FailureSource,
        last: bool,
        now: Moment,
    ) -> FailureEffect {
        match pass {
            BreakerPass::Own => {}
            BreakerPass::Share => self.end_share(),
            BreakerPass::Probe(until) => {
                self.swap(until, now + self.open_for);
            }
            // The failure of a request that was sent before it opened says nothing new.
            BreakerPass::Free if self.is_closed() => return self.add_failure(source, last, now),
            BreakerPass::Free => {}
        }
        FailureEffect::Counted
    }

    fn add_failure(&self, source: FailureSource, last: bool, now: Moment) -> FailureEffect {
        let mut row = self.row();
        if self.in_a_row.load(Ordering::Relaxed) == 0 {
            *row = FailureRow::default();
        }
        row.add(source);
        self.in_a_row.store(row.count(), Ordering::Relaxed);
        if row.count() < self.failures {
            FailureEffect::Counted
        } else if last && row.may_be_one_requests() {
            FailureEffect::Spared(row.count() == self.failures)
        } else {
            drop(row);
            if self.trip(now) {
                FailureEffect::Opened
            } else {
                FailureEffect::Counted
            }
        }
    }

    /// Records that a health check failed, so one caller or one table is not the cause of the failures. Returns true if
    /// that opens the breaker.
    pub(in crate::backend) fn found_ill(&self, now: Moment) -> bool {
        if self.in_a_row.load(Ordering::Relaxed) < self.failures {
            return false;
        }
        self.row().blame_address();
        self.trip(now)
    }

    /// Records that a request ended without a verdict: dropped, or answered so that another address must tell. The next
    /// request can be the probe at once.
    pub(in crate::backend) fn abandoned(&self, pass: BreakerPass, now: Moment) {
        match pass {
            BreakerPass::Probe(until) => {
                self.swap(until, now);
            }
            BreakerPass::Share => self.end_share(),
            BreakerPass::Free | BreakerPass::Own => {}
        }
    }

    /// Opens the breaker, whatever the count is. Returns false if it was open.
    pub(in crate::backend) fn trip(&self, now: Moment) -> bool {
        let opened = self.swap(0, now + self.open_for);
        if opened {
            self.in_a_row.store(0, Ordering::Relaxed);
        }
        opened
    }

    fn row(&self) -> MutexGuard<'_, FailureRow> {
        self.row.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn swap(&self, from: Moment, to: Moment) -> bool {
        self.next
            .compare_exchange(from, to, Ordering::Relaxed, Ordering::Relaxed)
            .is_ok()
    }
}

#[cfg(test)]
mod tests;
