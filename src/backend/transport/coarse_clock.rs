//! The time as one word, for what is kept in atomics.

use std::sync::LazyLock;
use std::time::{Duration, Instant};

/// Microseconds since the first look at the clock; never 0.
pub(in crate::backend) type Moment = u64;

static START: LazyLock<Instant> = LazyLock::new(Instant::now);

/// Now.
pub(in crate::backend) fn now() -> Moment {
    u64::try_from(START.elapsed().as_micros()).unwrap_or(u64::MAX / 2) + 1
}

/// `time`, up to a tenth more or less, so that what begins together does not stay together.
pub(in crate::backend) fn jittered(time: Duration) -> Duration {
    time.mul_f64(0.9 + 0.2 * fastrand::f64())
}
