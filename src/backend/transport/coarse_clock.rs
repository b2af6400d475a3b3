//! The time as one word, for values in atomics.

use std::sync::LazyLock;
use std::time::{Duration, Instant};

/// A time in microseconds since the clock was first used; never 0.
pub(in crate::backend) type Moment = u64;

static START: LazyLock<Instant> = LazyLock::new(Instant::now);

/// Returns the current time.
pub(in crate::backend) fn now() -> Moment {
    u64::try_from(START.elapsed().as_micros()).unwrap_or(u64::MAX / 2) + 1
}

/// Returns `time`, changed at random by up to a tenth, so that tasks that begin together do not
/// stay together.
pub(in crate::backend) fn jittered(time: Duration) -> Duration {
    time.mul_f64(0.9 + 0.2 * fastrand::f64())
}
