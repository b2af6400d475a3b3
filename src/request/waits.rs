//! Measures how long a request waits for catalogs; waits side by side count once.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

/// The time in which at least one catalog was waited for.
#[derive(Default)]
pub(super) struct WaitClock {
    /// The number of requests to catalogs that are running.
    open: AtomicU32,
    /// The time at which the first of them began, in nanoseconds since the client's request began.
    since: AtomicU64,
    /// The time of the waits that are over, in nanoseconds.
    total: AtomicU64,
}

impl WaitClock {
    /// Notes that one more request to a catalog runs, `now` after the client's request began.
    pub(super) fn began(&self, now: Duration) {
        if self.open.fetch_add(1, Ordering::AcqRel) == 0 {
            self.since.store(nanos(now), Ordering::Release);
        }
    }

    /// Notes that one of them has ended.
    pub(super) fn ended(&self, now: Duration) {
        let since = self.since.load(Ordering::Acquire);
        if self.open.fetch_sub(1, Ordering::AcqRel) == 1 {
            let waited = nanos(now).saturating_sub(since);
            self.total.fetch_add(waited, Ordering::Relaxed);
        }
    }

    /// Returns the time of all waits; one that still runs at `now` counts until then.
    pub(super) fn total(&self, now: Duration) -> Duration {
        let over = self.total.load(Ordering::Relaxed);
        let under_way = match self.open.load(Ordering::Acquire) {
            0 => 0,
            _ => nanos(now).saturating_sub(self.since.load(Ordering::Acquire)),
        };
        Duration::from_nanos(over.saturating_add(under_way))
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_asked_side_by_side_is_waited_for_once() {
        let at = Duration::from_millis;
        let waits = WaitClock::default();
        waits.began(at(10));
        waits.began(at(20));
        waits.ended(at(30));
        assert_eq!(waits.total(at(35)), at(25), "one is still under way");
        waits.ended(at(40));
        assert_eq!(waits.total(at(50)), at(30));
        waits.began(at(60));
        waits.ended(at(65));
        assert_eq!(waits.total(at(70)), at(35));
    }
}
