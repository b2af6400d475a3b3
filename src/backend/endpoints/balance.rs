//! How loaded an address is, and which of several a request goes to.
//!
//! Power of two choices: of two addresses picked by chance the one with less to do, which keeps the load even without
//! anybody looking at all of it, and never sends everybody to the same one. What an address has to do is its requests
//! times the time it takes for one: a slow one gets less. Three things make it look slow at once and fast again only
//! with time: an answer that took longer, a failure (which would else look like the quickest of all), and silence while
//! somebody waits.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::backend::transport::coarse_clock::Moment;

/// How quickly slowness is forgotten.
const FORGET: f32 = 5_000.0;
/// Differences below this are noise: there the number of requests alone decides. In milliseconds.
const NOISE: f32 = 1.0;
/// What a failure counts as.
const FAILURE: f32 = 1_000.0;

const WAITING: u64 = 1 << 32;

/// What one address has to do.
#[derive(Default)]
pub(in crate::backend) struct Load {
    /// The lower half: requests whose answer has not ended. The upper: those among them that wait for its headers.
    requests: AtomicU64,
    /// How many answered.
    answered: AtomicU64,
    /// When it was last heard of, or when the first of those that wait began to.
    heard: AtomicU64,
    /// A [`LatencyEstimate`].
    pace: AtomicU64,
}

/// How long an answer takes (upper half: milliseconds, `f32`), and when that was found (lower half: milliseconds).
#[derive(Clone, Copy, Debug, PartialEq)]
struct LatencyEstimate {
    millis: f32,
    at: u32,
}

impl Load {
    /// A request begins.
    pub(in crate::backend) fn begin(&self) {
        self.requests.fetch_add(WAITING + 1, Ordering::Relaxed);
    }

    /// A request begins where there is a choice: silence counts from here.
    pub(in crate::backend) fn begin_at(&self, now: Moment) {
        let before = self.requests.fetch_add(WAITING + 1, Ordering::Relaxed);
        if before < WAITING {
            self.heard.store(now, Ordering::Relaxed);
        }
    }

    /// It waits no longer.
    pub(in crate::backend) fn stop_waiting(&self) {
        self.requests.fetch_sub(WAITING, Ordering::Relaxed);
    }

    /// It is over.
    pub(in crate::backend) fn end(&self) {
        self.requests.fetch_sub(1, Ordering::Relaxed);
    }

    /// An answer came.
    pub(in crate::backend) fn answered(&self) {
        self.answered.fetch_add(1, Ordering::Relaxed);
    }

    /// How many have come so far.
    pub(in crate::backend) fn answers(&self) -> u64 {
        self.answered.load(Ordering::Relaxed)
    }

    /// Something was heard, whatever it was.
    pub(in crate::backend) fn hear(&self, now: Moment) {
        self.heard.store(now, Ordering::Relaxed);
    }

    /// An answer to a small question took so long.
    pub(in crate::backend) fn took(&self, time: Duration, now: Moment) {
        self.learn(time.as_secs_f32() * 1_000.0, now);
    }

    /// It failed.
    pub(in crate::backend) fn failed(&self, now: Moment) {
        self.learn(FAILURE, now);
    }

    /// It works again: what it was like before says nothing any more.
    pub(in crate::backend) fn reset(&self) {
        self.pace.store(0, Ordering::Relaxed);
    }

    /// Requests whose answer has not ended.
    pub(in crate::backend) fn in_flight(&self) -> u32 {
        #[expect(clippy::cast_possible_truncation, reason = "the lower half is meant")]
        let requests = self.requests.load(Ordering::Relaxed) as u32;
        requests
    }

    /// Requests that wait for their answer's headers.
    pub(in crate::backend) fn waiting(&self) -> u32 {
        (self.requests.load(Ordering::Relaxed) >> 32) as u32
    }

    /// What one more request would have to wait for: less is better.
    pub(in crate::backend) fn cost(&self, now: Moment) -> f32 {
        let pace = LatencyEstimate::from(self.pace.load(Ordering::Relaxed)).by(now);
        let silence = match self.waiting() {
            0 => 0.0,
            _ => now.saturating_sub(self.heard.load(Ordering::Relaxed)) as f32 / 1_000.0,
        };
        pace.max(silence).max(NOISE) * (self.in_flight() as f32 + 1.0)
    }

    fn learn(&self, millis: f32, now: Moment) {
        // Two that learn at once: one of them is enough.
        let before = self.pace.load(Ordering::Relaxed);
        let after = LatencyEstimate::from(before).learn(millis, now);
        let _ =
            self.pace
                .compare_exchange(before, after.into(), Ordering::Relaxed, Ordering::Relaxed);
    }
}

impl LatencyEstimate {
    /// What is left of it at `now`.
    fn by(self, now: Moment) -> f32 {
        self.millis * (-(self.age(now)) / FORGET).exp()
    }

    /// More is believed at once, less only with time.
    fn learn(self, millis: f32, now: Moment) -> Self {
        let kept = (-(self.age(now)) / FORGET).exp();
        let blended = self.millis * kept + millis * (1.0 - kept);
        Self {
            millis: blended.max(millis),
            at: stamp(now),
        }
    }

    /// Of two that look at the clock at once, the earlier may come later: then it is no time at all.
    fn age(self, now: Moment) -> f32 {
        stamp(now).wrapping_sub(self.at).cast_signed().max(0) as f32
    }
}

/// Milliseconds, in a circle of seven weeks.
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

/// Of those whose bit is set, two by chance, and of these the one that costs less.
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

/// The place of the bit that has `before` set ones below it.
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
