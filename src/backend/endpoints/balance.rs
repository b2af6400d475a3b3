//! The load of each address, and the choice between them.
//!
//! Power of two choices: two addresses are picked at random, and the one with less load gets the request. That keeps
//! the load even without a look at all addresses, and never sends all requests to the same one. The load is the number
//! of requests times the time for one, so a slow address gets fewer. Three things make an address look slow at once,
//! and fast again only with time: an answer that took longer, a failure (which would otherwise look like the fastest
//! answer of all), and silence while requests wait.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::backend::transport::coarse_clock::Moment;

/// The time constant, in milliseconds, with which slowness is forgotten.
const FORGET: f32 = 5_000.0;
/// The time, in milliseconds, below which differences are noise: there only the number of requests counts.
const NOISE: f32 = 1.0;
/// The time, in milliseconds, that a failure counts as.
const FAILURE: f32 = 1_000.0;

const WAITING: u64 = 1 << 32;

/// The load of one address.
#[derive(Default)]
pub(in crate::backend) struct Load {
    /// The lower half counts requests whose answer has not ended, the upper half those among them that wait for its
    /// headers.
    requests: AtomicU64,
    /// The number of answers.
    answered: AtomicU64,
    /// The time of the last answer or failure, or the time when the first of the waiting requests began.
    heard: AtomicU64,
    /// The current [`LatencyEstimate`].
    pace: AtomicU64,
}

/// The time for an answer (upper half: milliseconds, `f32`), and when it was measured (lower half: milliseconds).
#[derive(Clone, Copy, Debug, PartialEq)]
struct LatencyEstimate {
    millis: f32,
    at: u32,
}

impl Load {
    /// Counts a request that begins.
    pub(in crate::backend) fn begin(&self) {
        self.requests.fetch_add(WAITING + 1, Ordering::Relaxed);
    }

    /// Counts a request that begins at an address with alternatives: silence is measured from here.
    pub(in crate::backend) fn begin_at(&self, now: Moment) {
        let before = self.requests.fetch_add(WAITING + 1, Ordering::Relaxed);
        if before < WAITING {
            self.heard.store(now, Ordering::Relaxed);
        }
    }

    /// Counts a request that no longer waits for headers.
    pub(in crate::backend) fn stop_waiting(&self) {
        self.requests.fetch_sub(WAITING, Ordering::Relaxed);
    }

    /// Counts a request that has ended.
    pub(in crate::backend) fn end(&self) {
        self.requests.fetch_sub(1, Ordering::Relaxed);
    }

    /// Counts an answer.
    pub(in crate::backend) fn answered(&self) {
        self.answered.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns the number of answers so far.
    pub(in crate::backend) fn answers(&self) -> u64 {
        self.answered.load(Ordering::Relaxed)
    }

    /// Records the time of the last answer of any kind, from which the silence of the address is counted.
    pub(in crate::backend) fn hear(&self, now: Moment) {
        self.heard.store(now, Ordering::Relaxed);
    }

    /// Records the time for an answer to a small request.
    pub(in crate::backend) fn took(&self, time: Duration, now: Moment) {
        self.learn(time.as_secs_f32() * 1_000.0, now);
    }

    /// Records a failure.
    pub(in crate::backend) fn failed(&self, now: Moment) {
        self.learn(FAILURE, now);
    }

    /// Forgets the estimate, because its past says nothing about an address that works again.
    pub(in crate::backend) fn reset(&self) {
        self.pace.store(0, Ordering::Relaxed);
    }

    /// Returns the number of requests whose answer has not ended.
    pub(in crate::backend) fn in_flight(&self) -> u32 {
        #[expect(clippy::cast_possible_truncation, reason = "the lower half is meant")]
        let requests = self.requests.load(Ordering::Relaxed) as u32;
        requests
    }

    /// Returns the number of requests that wait for their answer's headers.
    pub(in crate::backend) fn waiting(&self) -> u32 {
        (self.requests.load(Ordering::Relaxed) >> 32) as u32
    }

    /// Returns the wait that one more request would have: less is better.
    pub(in crate::backend) fn cost(&self, now: Moment) -> f32 {
        let pace = LatencyEstimate::from(self.pace.load(Ordering::Relaxed)).by(now);
        let silence = match self.waiting() {
            0 => 0.0,
            _ => now.saturating_sub(self.heard.load(Ordering::Relaxed)) as f32 / 1_000.0,
        };
        pace.max(silence).max(NOISE) * (self.in_flight() as f32 + 1.0)
    }

    fn learn(&self, millis: f32, now: Moment) {
        // If two updates happen at once, one of them is enough.
        let before = self.pace.load(Ordering::Relaxed);
        let after = LatencyEstimate::from(before).learn(millis, now);
        let _ =
            self.pace
                .compare_exchange(before, after.into(), Ordering::Relaxed, Ordering::Relaxed);
    }
}

impl LatencyEstimate {
    /// Returns what is left of the estimate at `now`.
    fn by(self, now: Moment) -> f32 {
        self.millis * (-(self.age(now)) / FORGET).exp()
    }

    /// Adds a measurement. A longer time counts at once, a shorter one only with time.
    fn learn(self, millis: f32, now: Moment) -> Self {
        let kept = (-(self.age(now)) / FORGET).exp();
        let blended = self.millis * kept + millis * (1.0 - kept);
        Self {
            millis: blended.max(millis),
            at: stamp(now),
        }
    }

    /// Returns the age in milliseconds; 0 if an earlier time arrives later, because two threads read the clock at once.
    fn age(self, now: Moment) -> f32 {
        stamp(now).wrapping_sub(self.at).cast_signed().max(0) as f32
    }
}

/// Returns milliseconds that wrap around after seven weeks.
fn stamp(now: Moment) -> u32 {
    #[expect(clippy::cast_possible_truncation, reason = "a circle")]
    let stamp = (now / 1_000) as u32;
    stamp
}

impl From<u64> for LatencyEstimate {
    fn from(word: u64) -> Self {
        #[expect(clippy::cast_possible_truncation, reason = "the lower half is meant")]
        let at = word as u32;
        Self {
            millis: f32::from_bits((word >> 32) as u32),
            at,
        }
    }
}

impl From<LatencyEstimate> for u64 {
    fn from(pace: LatencyEstimate) -> Self {
        (Self::from(pace.millis.to_bits()) << 32) | Self::from(pace.at)
    }
}

/// Picks two set bits at random, and returns the one that costs less; `None` if no bit is set.
pub(in crate::backend) fn choose(among: u64, cost: impl Fn(usize) -> f32) -> Option<usize> {
    let count = among.count_ones();
    match count {
        0 => None,
        1 => nth(among, 0),
        _ => {
            let first = fastrand::u32(..count);
            let second = (first + fastrand::u32(1..count)) % count;
            let (first, second) = (nth(among, first)?, nth(among, second)?);
            Some(if cost(second) < cost(first) {
                second
            } else {
                first
            })
        }
    }
}

/// Returns the position of the bit that has `before` set bits below it.
fn nth(mut bits: u64, before: u32) -> Option<usize> {
    for _ in 0..before {
        bits &= bits.wrapping_sub(1);
    }
    (bits != 0).then(|| bits.trailing_zeros() as usize)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test says what it expects")]
    use super::*;

    const SECOND: Moment = 1_000_000;

    fn shares(loads: &[Load], rounds: usize, now: Moment) -> Vec<usize> {
        let all = (1 << loads.len()) - 1;
        let mut shares = vec![0; loads.len()];
        for _ in 0..rounds {
            let chosen = choose(all, |index| loads[index].cost(now)).unwrap();
            shares[chosen] += 1;
        }
        shares
    }

    fn three() -> Vec<Load> {
        (0..3).map(|_| Load::default()).collect()
    }

    #[test]
    fn equals_get_equal_shares() {
        for share in shares(&three(), 9_000, SECOND) {
            assert!((2_500..3_500).contains(&share), "{share}");
        }
    }

    #[test]
    fn only_those_with_their_bit_set_are_chosen() {
        let mut seen = 0_u64;
        for _ in 0..1_000 {
            seen |= 1 << choose(0b1010_0100, |_| 1.0).unwrap();
        }
        assert_eq!(seen, 0b1010_0100);
        assert_eq!(choose(1 << 63, |_| 1.0), Some(63));
        assert_eq!(choose(0, |_| 1.0), None);
    }

    #[test]
    fn a_busy_a_slow_a_failing_and_a_silent_one_lose_every_comparison() {
        let spoil: [fn(&Load); 4] = [
            |load| load.begin_at(SECOND),
            |load| load.took(Duration::from_millis(50), SECOND),
            |load| load.failed(SECOND),
            |load| load.begin_at(SECOND / 2),
        ];
        for spoil in spoil {
            let loads = three();
            spoil(&loads[1]);
            assert_eq!(shares(&loads, 1_000, SECOND)[1], 0);
        }
    }

    #[test]
    fn a_slow_one_is_forgiven_with_time_or_by_quick_answers() {
        let load = Load::default();
        let idle = load.cost(SECOND);
        load.took(Duration::from_millis(500), SECOND);
        assert!(load.cost(SECOND) > 400.0 * idle);
        load.took(Duration::from_millis(1), SECOND + 1_000);
        assert!(load.cost(SECOND) > 400.0 * idle, "one answer is not enough");
        load.took(Duration::from_millis(1), SECOND - 1_000);
        assert!(load.cost(SECOND) > 400.0 * idle, "nor one from before");
        assert!((load.cost(60 * SECOND) - idle).abs() < f32::EPSILON);
        for milli in 0..20_000 {
            load.took(Duration::from_millis(1), SECOND + milli * 1_000);
        }
        assert!(load.cost(21 * SECOND) < 15.0 * idle);
        load.failed(21 * SECOND);
        load.reset();
        assert!((load.cost(21 * SECOND) - idle).abs() < f32::EPSILON);
    }

    #[test]
    fn requests_are_counted_until_their_answer_ends() {
        let load = Load::default();
        load.begin();
        load.begin();
        assert_eq!((load.in_flight(), load.waiting()), (2, 2));
        load.stop_waiting();
        load.end();
        load.stop_waiting();
        assert_eq!((load.in_flight(), load.waiting()), (1, 0));
    }
}
