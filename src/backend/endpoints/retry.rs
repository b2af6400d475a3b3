//! Whether what failed is tried again: what an answer says about the address it came from, and how many further tries
//! the catalog can be asked to bear.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use http::StatusCode;

use crate::backend::transport::coarse_clock::Moment;
use crate::config;

/// Further tries that are allowed each second whatever the traffic, so that a quiet catalog has some …
const FLOOR: f64 = 1.0;
/// … and that a catalog which was well may be asked for at once.
const MOST: f64 = 100.0;
/// What there is at the start.
const FIRST: f64 = 10.0;
/// The wait before the same address is asked again; doubles with each try.
const WAIT: Duration = Duration::from_millis(25);

/// What an answer says about who gave it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::backend) enum AnswerVerdict {
    /// It works, even where the answer is a refusal.
    Well,
    /// The fault may lie with it or with the request: catalogs answer 500 and 503 to both. Another address tells.
    Doubtful,
    /// What should stand behind it does not.
    Broken,
}

/// By its status alone: bodies stream.
pub(in crate::backend) fn judge(status: StatusCode) -> AnswerVerdict {
    match status {
        StatusCode::INTERNAL_SERVER_ERROR | StatusCode::SERVICE_UNAVAILABLE => {
            AnswerVerdict::Doubtful
        }
        StatusCode::BAD_GATEWAY | StatusCode::GATEWAY_TIMEOUT => AnswerVerdict::Broken,
        _ => AnswerVerdict::Well,
    }
}

/// How long to wait before the same address is asked for the `again`th time (from 1): half of it, up to all of it.
pub(in crate::backend) fn wait(again: u32) -> Duration {
    let most = WAIT * (1 << again.clamp(1, 5));
    most.mul_f64(0.5 + 0.5 * fastrand::f64())
}

/// Further tries, at most a share of the answers. A catalog that is down answers nothing and earns nothing, so that
/// tries do not pile up on what fails already.
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
    /// `now` is when it begins to fill.
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

    /// Takes one try out, if there is one. `answers` is how many there were in all so far: looked at only here, so
    /// that requests which need no second try pay nothing.
    pub(in crate::backend) fn take(&self, answers: u64, now: Moment) -> bool {
        if self.share == 0.0 {
            return false;
        }
        let mut purse = self.purse.lock().unwrap_or_else(PoisonError::into_inner);
        let earned = answers.saturating_sub(purse.answers) as f64 * self.share;
        let seconds = now.saturating_sub(purse.at) as f64 / 1e6;
        purse.tries = (purse.tries + earned + seconds * FLOOR).min(MOST);
        // Both were looked at before the purse was there: whoever comes late must not turn it back.
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
        // Of two that count at once, the earlier may come later.
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

    #[test]
    fn a_refusal_is_no_failure() {
        for status in [200, 304, 404, 406, 409, 429, 501, 507] {
            assert_eq!(
                StatusCode::from_u16(status).map(judge).ok(),
                Some(AnswerVerdict::Well)
            );
        }
    }
}
