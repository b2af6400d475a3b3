//! The number of retries that a catalog should have to bear, and the wait before each.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crate::backend::transport::coarse_clock::Moment;
use crate::config;

/// The number of retries that are added each second whatever the traffic, so that a quiet catalog has some …
const FLOOR: f64 = 1.0;
/// … and the largest number that can be saved up while a catalog is well.
const MOST: f64 = 100.0;
/// The number of retries at the start.
const FIRST: f64 = 10.0;
/// The shortest wait before the first retry at the same address. It doubles with each retry.
const WAIT: Duration = Duration::from_millis(25);

/// Returns the wait before retry number `again` (from 1) at the same address: a random time between half of the limit
/// and all of it.
pub(in crate::backend) fn wait(again: u32) -> Duration {
    let most = WAIT * (1 << again.clamp(1, 5));
    most.mul_f64(0.5 + 0.5 * fastrand::f64())
}

/// The budget of retries: at most a share of the answers. A catalog that is down answers nothing and adds nothing, so
/// that retries do not pile up on a failing catalog.
pub(in crate::backend) struct RetryBudget {
    share: f64,
    purse: Mutex<TokenBucket>,
}

#[derive(Debug)]
struct TokenBucket {
    tries: f64,
    answers: u64,
    at: Moment,
}

impl RetryBudget {
    /// Returns a budget that fills from `now` on.
    pub(in crate::backend) fn new(config: &config::Retry, now: Moment) -> Self {
        Self {
            share: f64::from(config.budget_percent) / 100.0,
            purse: Mutex::new(TokenBucket {
                tries: FIRST,
                answers: 0,
                at: now,
            }),
        }
    }

    /// Takes one retry out, if there is one. `answers` is the number of all answers so far. It is read only here, so
    /// that requests without a retry pay nothing.
    pub(in crate::backend) fn take(&self, answers: u64, now: Moment) -> bool {
        if self.share == 0.0 {
            return false;
        }
        let mut purse = self.purse.lock().unwrap_or_else(PoisonError::into_inner);
        let earned = answers.saturating_sub(purse.answers) as f64 * self.share;
        let seconds = now.saturating_sub(purse.at) as f64 / 1e6;
        purse.tries = (purse.tries + earned + seconds * FLOOR).min(MOST);
        // Both values were read before the lock was taken, so an older one must not set them back.
        purse.answers = purse.answers.max(answers);
        purse.at = purse.at.max(now);
        let enough = purse.tries >= 1.0;
        if enough {
            purse.tries -= 1.0;
        }
        enough
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Moment = 1_000_000;

    fn budget(percent: u32) -> RetryBudget {
        let config = config::Retry {
            attempts: 2,
            budget_percent: percent,
        };
        RetryBudget::new(&config, SECOND)
    }

    fn taken(budget: &RetryBudget, answers: u64, now: Moment) -> usize {
        (0..10_000).filter(|_| budget.take(answers, now)).count()
    }

    #[test]
    fn tries_are_a_share_of_the_answers_above_a_floor() {
        let budget = budget(20);
        assert_eq!(taken(&budget, 0, SECOND), 10, "what there is at the start");
        assert_eq!(taken(&budget, 200, SECOND), 40);
        assert_eq!(taken(&budget, 200, SECOND), 0, "counted once");
        // Of two threads that count at once, the one with the older values may come later.
        assert_eq!(taken(&budget, 150, SECOND - 9), 0);
        assert_eq!(taken(&budget, 200, SECOND), 0, "counted once");
        assert_eq!(taken(&budget, 200, 4 * SECOND), 3, "one a second");
        assert_eq!(taken(&budget, 100_000, 4 * SECOND), 100, "bounded");
    }

    #[test]
    fn none_is_none() {
        assert_eq!(taken(&budget(0), 1_000, 60 * SECOND), 0);
    }

    #[test]
    fn the_wait_is_short_and_bounded() {
        for again in 0..40 {
            let wait = wait(again);
            assert!(wait >= WAIT && wait <= WAIT * 32, "{again}: {wait:?}");
        }
    }
}
