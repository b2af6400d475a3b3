//! Generates the ids of new batches.

use std::sync::{Mutex, PoisonError};

use uuid::{Builder, ContextV7, Timestamp, Uuid};

use super::log::BatchId;
use super::run::WallClock;

/// Generates ids by the time, each higher than all before it. Recovery takes the order of ids as the order of
/// batches, so a clock that is set back, while the gateway runs or while it is down, must not reverse it.
pub(super) enum Ids {
    /// The system clock, and random bits.
    System(Mutex<ContextV7>),
    /// The clock of a simulation, and a count, so that a run can be repeated.
    Simulated {
        clock: WallClock,
        /// The last time in milliseconds, and the number of ids so far.
        last: Mutex<(u64, u64)>,
    },
}

impl Default for Ids {
    fn default() -> Self {
        Self::System(Mutex::default())
    }
}

impl Ids {
    /// Creates the ids of a simulation.
    pub(super) fn simulated(clock: WallClock) -> Self {
        let last = Mutex::default();
        Self::Simulated { clock, last }
    }

    /// Returns an id that is higher than all others.
    pub(super) fn next(&self) -> BatchId {
        match self {
            Self::System(context) => at(context, |context| Timestamp::now(context)),
            Self::Simulated { clock, last } => {
                let mut last = last.lock().unwrap_or_else(PoisonError::into_inner);
                *last = (clock().max(last.0), last.1 + 1);
                let mut counted = [0; 10];
                counted[2..].copy_from_slice(&last.1.to_be_bytes());
                Builder::from_unix_timestamp_millis(last.0, &counted).into_uuid()
            }
        }
    }

    /// Makes all later ids higher than this one, too.
    pub(super) fn begin_after(&self, id: BatchId) {
        let Some(time) = id.get_timestamp() else {
            return;
        };
        let (seconds, nanos) = time.to_unix();
        let millis = seconds * 1000 + u64::from(nanos / 1_000_000) + 1;
        let nanos = u32::try_from(millis % 1000).unwrap_or_default() * 1_000_000;
        match self {
            Self::System(context) => {
                at(context, |context| {
                    Timestamp::from_unix(context, millis / 1000, nanos)
                });
            }
            Self::Simulated { last, .. } => {
                let mut last = last.lock().unwrap_or_else(PoisonError::into_inner);
                last.0 = last.0.max(millis);
            }
        }
    }
}

/// Generates an id. The context never goes back behind a time that it has seen.
fn at(context: &Mutex<ContextV7>, time: impl FnOnce(&ContextV7) -> Timestamp) -> BatchId {
    let context = context.lock().unwrap_or_else(PoisonError::into_inner);
    Uuid::new_v7(time(&context))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_go_on_after_the_last_one_though_the_clock_was_set_back() {
        let (before, ids) = (Mutex::default(), Ids::default());
        let in_an_hour = at(&before, |context| {
            let (seconds, nanos) = Timestamp::now(context).to_unix();
            Timestamp::from_unix(context, seconds + 3600, nanos)
        });
        assert!(ids.next() < in_an_hour, "by the clock alone");
        ids.begin_after(in_an_hour);
        let mut last = in_an_hour;
        for _ in 0..10_000 {
            let next = ids.next();
            assert!(next > last, "{next} after {last}");
            last = next;
        }
    }
}
