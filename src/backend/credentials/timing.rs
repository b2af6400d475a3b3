//! Decides when a token of a token server is renewed, and how long to wait after a failure: pure functions with the
//! time as a parameter.

use std::time::Duration;

use tokio::time::Instant;

/// The longest time for a fetch, and so for a request's wait for one.
pub(super) const FETCH_TIMEOUT: Duration = Duration::from_secs(5);
/// The shortest time between two fetches that a catalog's refusals cause: if the newest token is refused, another is
/// no better.
pub(super) const REFETCH: Duration = Duration::from_secs(10);
/// The life of a token if its server does not name it.
const DEFAULT_LIFE: Duration = Duration::from_secs(300);
const MAX_LIFE: Duration = Duration::from_secs(24 * 3600);
/// The time that a request may take to the catalog, if a token's life is long enough.
const MARGIN: Duration = Duration::from_secs(10);
const MAX_BACKOFF: Duration = Duration::from_secs(10);

/// The times of one token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TokenLifetime {
    /// The time from which a new token is fetched while this one is still used.
    pub(super) refresh: Instant,
    /// The time until which it is used.
    pub(super) until: Instant,
}

impl TokenLifetime {
    /// Returns the times of a token that was requested at `asked` and lives for `said`, as its server says. It is used
    /// for `most` at most, because the token that it is bound to lives no longer.
    pub(super) fn new(asked: Instant, said: Option<Duration>, most: Option<Duration>) -> Self {
        let life = said.unwrap_or(DEFAULT_LIFE).min(MAX_LIFE);
        let used = life - MARGIN.min(life / 10);
        let used = most.map_or(used, |most| used.min(most));
        Self {
            refresh: asked + used.mul_f64(0.8),
            until: asked + used,
        }
    }
}

/// The wait after consecutive failures: 1 s, 2 s, 4 s, 8 s, then 10 s.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Backoff {
    failures: u32,
    /// The time of the last failure.
    last: Option<Instant>,
    not_before: Option<Instant>,
}

impl Backoff {
    /// True if it is too soon after a failure.
    pub(super) fn is_closed(&self, now: Instant) -> bool {
        self.not_before.is_some_and(|open| now < open)
    }

    /// Returns true if a fetch may begin. After a failure only one at a time may, as a test.
    pub(super) fn admit(&mut self, now: Instant) -> bool {
        if self.is_closed(now) {
            return false;
        }
        if self.failures > 0 {
            self.not_before = Some(now + FETCH_TIMEOUT);
        }
        true
    }

    pub(super) fn failed(&mut self, now: Instant) {
        self.failures = self.failures.saturating_add(1);
        let wait = Duration::from_secs(1) * 2u32.pow(self.failures.min(8) - 1);
        self.not_before = Some(now + wait.min(MAX_BACKOFF));
        self.last = Some(now);
    }

    /// Counts a failure of one fetch among many, which began at `began`. Fetches that were under way when another one
    /// failed do not count as further consecutive failures.
    pub(super) fn failed_since(&mut self, began: Instant, now: Instant) {
        if self.last.is_none_or(|last| last < began) {
            self.failed(now);
        }
    }

    pub(super) fn succeeded(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn s(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn a_token_is_renewed_well_before_it_ends_and_never_used_after() {
        let cases = [
            (Some(s(3600)), None, s(2872), s(3590)),
            (Some(s(100)), None, s(72), s(90)),
            (
                Some(s(1)),
                None,
                Duration::from_millis(720),
                Duration::from_millis(900),
            ),
            (Some(s(0)), None, s(0), s(0)),
            (None, None, s(232), s(290)),
            (Some(s(u64::MAX)), None, s(69_112), s(86_390)),
            // This token is bound to a caller's token with less time left.
            (Some(s(3600)), Some(s(60)), s(48), s(60)),
            (
                Some(s(60)),
                Some(s(3600)),
                Duration::from_millis(43_200),
                s(54),
            ),
            (Some(s(60)), Some(s(0)), s(0), s(0)),
        ];
        let now = Instant::now();
        for (said, most, refresh, until) in cases {
            let life = TokenLifetime::new(now, said, most);
            assert_eq!(life.refresh - now, refresh, "{said:?} {most:?}");
            assert_eq!(life.until - now, until, "{said:?} {most:?}");
        }
    }

    #[test]
    fn failures_are_backed_off_and_one_tries_for_all() {
        let start = Instant::now();
        let mut backoff = Backoff::default();
        assert!(backoff.admit(start) && backoff.admit(start));
        for wait in [1, 2, 4, 8, 10, 10] {
            backoff.failed(start);
            assert!(backoff.is_closed(start + s(wait) - Duration::from_millis(1)));
            assert!(!backoff.is_closed(start + s(wait)), "{wait}");
        }
        assert!(!backoff.admit(start + s(9)));
        assert!(backoff.admit(start + s(10)));
        assert!(!backoff.admit(start + s(10)), "one at a time");
        backoff.succeeded();
        assert!(backoff.admit(start) && backoff.admit(start));
    }
}
