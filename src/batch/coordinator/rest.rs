//! The moment in which nobody makes a number again that an undo has set free.

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
        let wait = self.settings().lock_timeout;
        let patience = self.patience();
        loop {
            let hold = self.locks.for_batch(plan.tables(), wait).await?;
            if let Some(hold) = patience.rested(hold, self.rests(plan)).await? {
                return Ok(hold);
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

    /// A write begins to wait for its locks, and for numbers that rest.
    pub fn patience(&self) -> Patience {
        let settings = self.settings();
        Patience(Instant::now() + settings.lock_timeout + settings.undone_rest)
    }
}

/// The time until which a write waits for numbers that rest.
pub struct Patience(Instant);

impl Patience {
    /// The locks of a write where no number rests that it may make. Otherwise waits until then, holding nothing: `None`,
    /// take them again. `TimedOut` where undo follows undo.
    pub async fn rested(
        &self,
        hold: Hold,
        rests: Option<Instant>,
    ) -> Result<Option<Hold>, LockError> {
        match rests {
            None => Ok(Some(hold)),
            Some(until) if until > self.0 => Err(LockError::TimedOut),
            Some(until) => {
                drop(hold);
                sleep_until(until).await;
                Ok(None)
            }
        }
    }
}
