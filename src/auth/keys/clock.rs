//! The time, so that tests can set it.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Two clocks, for two questions.
pub trait Clock: Send + Sync {
    /// Since the epoch: what a token's dates are compared with. It can be set back.
    fn wall(&self) -> Duration;

    /// Since some moment: never goes back. For waits and rates.
    fn steady(&self) -> Duration;
}

/// The system's clocks.
#[derive(Debug)]
pub struct SystemClock(Instant);

impl Default for SystemClock {
    fn default() -> Self {
        Self(Instant::now())
    }
}

impl Clock for SystemClock {
    fn wall(&self) -> Duration {
        // A clock before 1970 makes every token "not yet valid" or, without nbf, valid until its exp.
        SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default()
    }

    fn steady(&self) -> Duration {
        self.0.elapsed()
    }
}
