//! When a token is used, when it is fetched anew, and when a server is left alone: pure, with the time given.

use std::time::Duration;

use tokio::time::Instant;

/// How long a fetch may take, and so how long a request waits for one.
pub(super) const FETCH_TIMEOUT: Duration = Duration::from_secs(5);
/// Between two fetches that a catalog's refusals cause: where the newest token is refused, another is no better.
pub(super) const REFETCH: Duration = Duration::from_secs(10);
/// How long a token lives when its server does not say.
const DEFAULT_LIFE: Duration = Duration::from_secs(300);
const MAX_LIFE: Duration = Duration::from_secs(24 * 3600);
/// The time a request may take to the catalog, where a token's life is long enough.
const MARGIN: Duration = Duration::from_secs(10);
const MAX_BACKOFF: Duration = Duration::from_secs(10);

/// The times of one token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TokenLifetime {
    /// From when on a new one is fetched while this one is still used.
    pub(super) refresh: Instant,
    /// Until when it is used.
    pub(super) until: Instant,
}

impl TokenLifetime {
    /// Of a token that was asked for at `asked` and lives for `said`, as its server says; `most`: what it is bound to
    /// lives no longer.
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

/// After failures in a row: 1 s, 2 s, 4 s, 8 s, then 10 s.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Backoff {
    failures: u32,
    /// When the last of them was.
    last: Option<Instant>,
    not_before: Option<Instant>,
}

impl Backoff {
    /// Whether it is too soon after a failure.
    pub(super) fn is_closed(&self, now: Instant) -> bool {
        self.not_before.is_some_and(|open| now < open)
    }

    /// Whether one may go ahead. After a failure only one at a time does, to see how it goes.
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

    /// The same of one among many, which began then: those that were under way when one failed are no further failures
    /// in a row.
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
            // Bound to a caller's token with less time left.
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
