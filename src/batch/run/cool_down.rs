//! The rest of a version number after an undo has freed it, in which no writer may make it.

use std::pin::pin;
use std::time::Duration;

use futures_util::FutureExt as _;
use tokio::time::{Instant, sleep_until, timeout};

use super::Coordinator;
use crate::batch::LOCKED;
use crate::batch::locks::{Hold, LockError, UNACKNOWLEDGED, UNGUARDED};
use crate::batch::plan::Plan;
use crate::batch::step::Refusal;
use crate::batch::visibility::Pause;

/// The time that guards may take, which is a round trip to the log. Beyond it, the batch waits for what other gateways do
/// on its tables, or for a log that is away.
const GUARDING: Duration = Duration::from_secs(1);

impl Coordinator {
    /// The configured lengths of a cool-down.
    pub fn pause(&self) -> Pause {
        let settings = self.settings();
        Pause {
            number: settings.undone_rest,
            above: settings.slot_cooldown.max(settings.undone_rest),
        }
    }

    /// Locks the tables of a batch, when none of its version numbers is in cool-down, and guards them against other
    /// gateways. `waits` is called before it waits for a table, and returns false if there is no room to.
    ///
    /// # Errors
    ///
    /// `Crowded` if there is no room to wait; or the error of the lock or of the guards.
    pub async fn lock(&self, plan: &Plan, waits: impl Fn() -> bool) -> Result<Hold, LockError> {
        // Before the tables are locked: until other gateways have finished what they serve, readers here need not wait.
        let mut guarding = pin!(self.guard_plan(plan));
        match timeout(GUARDING, guarding.as_mut()).await {
            Ok(guarded) => guarded?,
            Err(_) if waits() => guarding.await?,
            Err(_) => return Err(LockError::Crowded),
        }
        let lock = |wait| self.locks.for_batch(plan.tables(), wait);
        let mut locking = pin!(self.lock_at_rest(lock, || self.rests(plan)));
        let hold = match locking.as_mut().now_or_never() {
            Some(hold) => hold?,
            None if waits() => locking.await?,
            None => return Err(LockError::Crowded),
        };
        // A guard may have been released since. While the tables are held, it stays.
        self.guard_plan(plan).await?;
        Ok(hold)
    }

    /// Takes locks with `lock`, which gets the longest time to wait for them. If `rests` returns the end of a cool-down
    /// of a number that the write may use, releases the locks, waits for it, and takes them again.
    ///
    /// # Errors
    ///
    /// The error of `lock`; or `TimedOut` if undo follows undo for longer than `batch.lock_timeout` and one cool-down.
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

    /// Returns the refusal of a batch that could not lock its tables, with the first of them that is locked now.
    pub fn unlocked(&self, plan: &Plan, error: LockError) -> Refusal {
        let tables = plan.entries.iter().map(|entry| &entry.line.table);
        Refusal {
            locked: self.locks.blocking(tables),
            ..Refusal::unavailable(match error {
                LockError::TimedOut => LOCKED,
                LockError::Crowded => "too many batches wait for locked tables; retry later",
                LockError::Unguarded => UNGUARDED,
                LockError::Unacknowledged => UNACKNOWLEDGED,
            })
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
