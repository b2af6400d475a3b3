//! Decides when keys are fetched, how long a fetch may take, and how long to wait after a failure: pure, with the time
//! given by the caller.

use std::time::Duration;

/// The least time between two fetches that tokens with an unknown key cause.
pub(super) const REFETCH: Duration = Duration::from_secs(10);
/// The longest time that a fetch may take, and that a request waits for one.
pub(super) const FETCH_TIMEOUT: Duration = Duration::from_secs(5);
/// The interval in which a key file is read.
pub(super) const POLL_FILE: Duration = Duration::from_secs(5);
/// The longest wait after a failed fetch.
const MAX_BACKOFF: Duration = Duration::from_secs(10);
/// The lifetime of keys whose issuer states none.
const DEFAULT_AGE: Duration = Duration::from_secs(300);
const MIN_AGE: Duration = Duration::from_secs(60);
const MAX_AGE: Duration = Duration::from_secs(24 * 3600);

/// Limits the fetches that tokens with an unknown key cause.
#[derive(Debug, Default)]
pub(super) struct RefreshPolicy {
    /// The time of the last such fetch.
    searched: Option<Duration>,
}

impl RefreshPolicy {
    /// Returns true if a token with an unknown key may cause a fetch at `now`, a steady time, and notes it.
    pub(super) fn may_search(&mut self, now: Duration) -> bool {
        let is_soon = self.searched.is_some_and(|last| now < last + REFETCH);
        if !is_soon {
            self.searched = Some(now);
        }
        !is_soon
    }
}

/// Returns the wait after a fetch. `age` is the lifetime of keys that the issuer states, `failures` the number
/// of consecutive fetches that failed.
pub(super) fn wait(age: Option<Duration>, failures: u32) -> Duration {
    if failures > 0 {
        return MAX_BACKOFF.min(Duration::from_secs(1) * 2u32.pow(failures.min(8) - 1));
    }
    // The wait ends before the keys expire, so that a slow fetch does not leave stale keys in use.
    age.unwrap_or(DEFAULT_AGE)
        .clamp(MIN_AGE, MAX_AGE)
        .mul_f64(0.9)
}

/// Returns `max-age` of a `Cache-Control` header (RFC 9111, section 5.2.2), or zero if caching is forbidden;
/// `None` if it states none.
pub(super) fn max_age(cache_control: &str) -> Option<Duration> {
    let mut age = None;
    for directive in cache_control.split(',') {
        let (name, value) = directive.split_once('=').unwrap_or((directive, ""));
        match name.trim().to_ascii_lowercase().as_str() {
            "no-store" | "no-cache" => return Some(Duration::ZERO),
            "max-age" => {
                age = value
                    .trim()
                    .trim_matches('"')
                    .parse()
                    .ok()
                    .map(Duration::from_secs)
            }
            _ => {}
        }
    }
    age
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn s(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn unknown_keys_cause_one_fetch_in_ten_seconds() {
        let mut policy = RefreshPolicy::default();
        assert!(policy.may_search(s(100)));
        assert!(!policy.may_search(s(101)));
        assert!(!policy.may_search(s(109)));
        assert!(policy.may_search(s(110)));
    }

    #[test]
    fn keys_are_fetched_again_before_they_expire_and_soon_after_a_failure() {
        assert_eq!(wait(None, 0), s(270));
        assert_eq!(wait(Some(s(1)), 0), s(54));
        assert_eq!(wait(Some(s(1000)), 0), s(900));
        assert_eq!(wait(Some(s(u64::MAX)), 0), s(77_760));
        let waits: Vec<_> = (1..=6)
            .map(|failures| wait(Some(s(1000)), failures))
            .collect();
        assert_eq!(waits, [s(1), s(2), s(4), s(8), s(10), s(10)]);
        assert_eq!(wait(None, u32::MAX), s(10));
    }

    #[test]
    fn the_issuer_says_how_long_its_keys_live() {
        let cases = [
            ("max-age=600", Some(s(600))),
            ("public, Max-Age=\"600\", must-revalidate", Some(s(600))),
            ("max-age=600, no-store", Some(s(0))),
            ("s-maxage=5", None),
            ("max-age=-1", None),
            ("", None),
        ];
        for (header, expected) in cases {
            assert_eq!(max_age(header), expected, "{header}");
        }
    }
}
