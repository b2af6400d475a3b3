//! The share of requests that go through although the breaker of every address is open.
//!
//! Envoy calls it the panic threshold: if the evidence is against every address, it may well be wrong, and refusing
//! everything makes a small fault total. Envoy then lets all requests through. Here it is a small share, because a
//! catalog that is really down must get few requests, and its clients a quick answer.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::backend::transport::coarse_clock::Moment;

/// The number of requests of which one goes through.
const SHARE: u64 = 10;
/// The shortest time between two that go through, in microseconds.
const PACE: Moment = 100_000;

/// The share of one catalog.
#[derive(Default)]
pub(in crate::backend) struct PanicShare {
    held_back: AtomicU64,
    /// The time when the next request may go through.
    next: AtomicU64,
}

impl PanicShare {
    /// True if the request goes through.
    pub(in crate::backend) fn take(&self, now: Moment) -> bool {
        let count = self.held_back.fetch_add(1, Ordering::Relaxed) + 1;
        let next = self.next.load(Ordering::Relaxed);
        count.is_multiple_of(SHARE)
            && next <= now
            && self
                .next
                .compare_exchange(next, now + PACE, Ordering::Relaxed, Ordering::Relaxed)
                .is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns how many requests of one second go through, if `count` come at equal distances.
    fn through(count: u64) -> usize {
        let share = PanicShare::default();
        let moments = (0..count).map(|each| 1_000_000 + each * 1_000_000 / count);
        moments.filter(|now| share.take(*now)).count()
    }

    #[test]
    fn one_in_ten_goes_through_and_at_most_ten_in_a_second() {
        assert_eq!(through(9), 0);
        assert_eq!(through(10), 1);
        assert_eq!(through(50), 5);
        assert_eq!(through(100), 10);
        assert_eq!(through(100_000), 10);
    }
}
