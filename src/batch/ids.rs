//! Generates the ids of new batches.

use std::sync::{Mutex, PoisonError};

use uuid::{ContextV7, Timestamp, Uuid};

use super::log::BatchId;

/// Generates ids by the time, each higher than all before it. Recovery takes the order of ids as the order of
/// batches, so a clock that is set back, while the gateway runs or while it is down, must not reverse it.
#[derive(Default)]
pub(super) struct Ids(Mutex<ContextV7>);

impl Ids {
    /// Returns an id that is higher than all others.
    pub(super) fn next(&self) -> BatchId {
        self.at(|context| Timestamp::now(context))
    }

    /// Makes all later ids higher than this one, too.
    pub(super) fn begin_after(&self, id: BatchId) {
        let Some(time) = id.get_timestamp() else {
            return;
        };
        let (seconds, nanos) = time.to_unix();
        let millis = seconds * 1000 + u64::from(nanos / 1_000_000) + 1;
        let nanos = u32::try_from(millis % 1000).unwrap_or_default() * 1_000_000;
        self.at(|context| Timestamp::from_unix(context, millis / 1000, nanos));
    }

    /// Generates an id. The context never goes back behind a time that it has seen.
    fn at(&self, time: impl FnOnce(&ContextV7) -> Timestamp) -> BatchId {
        let context = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        Uuid::new_v7(time(&context))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_go_on_after_the_last_one_though_the_clock_was_set_back() {
        let (before, ids) = (Ids::default(), Ids::default());
        let in_an_hour = before.at(|context| {
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
