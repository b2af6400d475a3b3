//! The cool-down after an undo, in which no writer makes a freed version number again.

use std::time::Duration;

use tokio::time::{Instant, sleep_until};

use super::Coordinator;
use crate::batch::locks::{Hold, LockError};
use crate::batch::plan::Plan;
use crate::batch::visibility::Pause;

impl Coordinator {
    /// Returns the cool-down after an undo, as it is configured now.
    pub fn pause(&self) -> Pause {
        let settings = self.settings();
        Pause {
            number: settings.undone_rest,
            above: settings.slot_cooldown.max(settings.undone_rest),
        }
    }

    /// Locks the tables of a batch once no version number that it makes is in cool-down.
    pub async fn lock(&self, plan: &Plan) -> Result<Hold, LockError> {
        let lock = |wait| self.locks.for_batch(plan.tables(), wait);
        self.lock_at_rest(lock, || self.rests(plan)).await
    }

    /// Takes locks with `lock`, which gets the time to wait for them. While `rests` tells until when a number that
    /// the write may make is in cool-down, waits for that without holding anything, and takes the locks again. Fails
    /// with `TimedOut` if undo follows undo for longer than `batch.lock_timeout` and one cool-down.
    pub async fn lock_at_rest<F>(
        &self,
        lock: impl Fn(Duration) -> F,
        rests: impl Fn() -> Option<Instant>,
    ) -> Result<Hold, LockError>
    where
        F: Future<Output = Result<Hold, LockError>>,
    {
        let settings = self.settings();
        let deadline = Instant::now() + settings.lock_timeout + settings.undone_rest;
        loop {
            let hold = lock(settings.lock_timeout).await?;
            match rests() {
                None => return Ok(hold),
                Some(until) if until > deadline => return Err(LockError::TimedOut),
                Some(until) => {
                    drop(hold);
                    sleep_until(until).await;
                }
            }
        }
    }

    fn rests(&self, plan: &Plan) -> Option<Instant> {
        let rests = plan.entries.iter().filter_map(|entry| {
            let made = entry.version().map(|version| (&entry.line, version));
            self.visibility.rests(&entry.line.table, made)
        });
        rests.max()
    }
}
