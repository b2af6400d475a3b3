//! The moment in which nobody makes a number again that an undo has set free.

use std::time::Duration;

use tokio::time::{Instant, sleep_until};

use super::Coordinator;
use crate::batch::locks::{Hold, LockError};
use crate::batch::plan::Plan;
use crate::batch::visibility::Pause;

impl Coordinator {
    /// The pause after an undo, as it is configured now.
    pub fn pause(&self) -> Pause {
        let settings = self.settings();
        Pause {
            number: settings.undone_rest,
            above: settings.slot_cooldown.max(settings.undone_rest),
        }
    }

    /// Locks the tables of a batch, once no number rests that it makes.
    pub async fn lock(&self, plan: &Plan) -> Result<Hold, LockError> {
        let lock = |wait| self.locks.for_batch(plan.tables(), wait);
        self.lock_at_rest(lock, || self.rests(plan)).await
    }

    /// Takes locks with `lock`, given how long to wait for them. While a number `rests` that the write may make, waits for
    /// that, holding nothing, and takes them again; `TimedOut` where undo follows undo for longer than
    /// `batch.lock_timeout` and one rest.
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
