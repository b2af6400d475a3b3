//! The clocks, behind a trait so that tests can set the time.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// The two clocks: one for dates, one for waits.
pub trait Clock: Send + Sync {
    /// The time since the epoch, with which a token's dates are compared. It can be set back.
    fn wall(&self) -> Duration;

    /// The time since some moment, for waits and rates. It never goes back.
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
