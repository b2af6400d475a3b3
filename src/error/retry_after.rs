//! The values of `Retry-After` (RFC 9110, section 10.2.3): every wait that clients are asked for, with its reason.

use std::fmt;
use std::time::Duration;

use http::HeaderValue;

/// The time after which a client may retry, in whole seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RetryAfter(u64);

impl RetryAfter {
    /// The wait for a place, a lock or a token: most are there again within a second.
    pub const SOON: Self = Self(1);
    /// The wait for the keys of an issuer that could not be reached: they are fetched again in the background.
    pub const KEYS: Self = Self(5);

    /// The rest of a known time. It is rounded up to at least 1 s, because a client that comes back too early is
    /// refused again.
    pub fn rest(wait: Duration) -> Self {
        let started = u64::from(wait.subsec_nanos() > 0);
        Self(wait.as_secs().saturating_add(started).max(1))
    }

    /// Reads the header of a catalog; `None` if it has none, or one with a date.
    pub fn of(value: Option<&HeaderValue>) -> Option<Self> {
        value?.to_str().ok()?.parse().ok().map(Self)
    }
}

impl fmt::Display for RetryAfter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl From<RetryAfter> for HeaderValue {
    fn from(RetryAfter(seconds): RetryAfter) -> Self {
        seconds.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_is_rounded_up_to_whole_seconds() {
        let cases = [(0, 1), (1, 1), (1_000_000_000, 1), (1_000_000_001, 2)];
        for (nanos, expected) in cases {
            let wait = RetryAfter::rest(Duration::from_nanos(nanos));
            assert_eq!(wait, RetryAfter(expected));
        }
    }
}
