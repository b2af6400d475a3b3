//! The copy of the log that this gateway reaches, and whether it may lack what an earlier one had.

use std::sync::{Mutex, PoisonError};

use tokio::sync::Notify;
use uuid::Uuid;

/// The log in one run of one server. A server that was restarted, a standby that was promoted, and a log that was installed
/// again may have forgotten batches.
#[derive(Default)]
pub struct LogCopy {
    known: Mutex<Known>,
    /// Told when the number has changed.
    changed: Notify,
}

#[derive(Default)]
struct Known {
    log: Option<Uuid>,
    run: Option<String>,
    runs: u64,
    number: u64,
}

impl LogCopy {
    /// Records the random id of the log.
    pub(in crate::batch) fn is_of(&self, log: Uuid) {
        self.known(|known| {
            let before = known.log.replace(log);
            known.number += u64::from(before.is_some_and(|before| before != log));
        });
    }

    /// Records the run of the server, by when it began. Returns its number among those that were seen.
    pub(in crate::batch) fn is_in(&self, run: String) -> u64 {
        self.known(|known| {
            let is_other = known.run.as_ref().is_some_and(|before| *before != run);
            known.run = Some(run);
            known.runs += u64::from(is_other);
            known.number += u64::from(is_other);
            known.runs
        })
    }

    /// The random id of the log, which only the gateways that share it know; `None` before it is known.
    pub fn log(&self) -> Option<Uuid> {
        self.known(|known| known.log)
    }

    /// The number of this copy. One with a higher number may have forgotten batches.
    pub fn number(&self) -> u64 {
        self.known(|known| known.number)
    }

    /// Waits for a copy with a higher number than this one, and returns its number.
    pub(in crate::batch) async fn later_than(&self, number: u64) -> u64 {
        loop {
            let changed = self.changed.notified();
            let now = self.number();
            if now > number {
                return now;
            }
            changed.await;
        }
    }

    fn known<T>(&self, of: impl FnOnce(&mut Known) -> T) -> T {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let before = known.number;
        let found = of(&mut known);
        if known.number != before {
            self.changed.notify_waiters();
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_log_and_another_run_of_the_server_are_other_copies() {
        let copy = LogCopy::default();
        let (one, other) = (Uuid::from_u128(1), Uuid::from_u128(2));
        let (mut numbers, mut runs) = (vec![copy.number()], Vec::new());
        let mut see = |log, run: &str| {
            runs.push(copy.is_in(run.to_owned()));
            copy.is_of(log);
            numbers.push(copy.number());
        };
        see(one, "monday");
        see(one, "monday");
        see(one, "tuesday");
        see(other, "tuesday");
        see(one, "monday");
        assert_eq!(numbers, [0, 0, 0, 1, 2, 4]);
        assert_eq!(runs, [0, 0, 1, 1, 2]);
        assert_eq!(copy.log(), Some(one));
    }
}
