//! The record of outages of the server, for the log of the process and for requests that need not wait.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use super::cause::Trouble;

/// The time for which the same cause is not logged again: a server can refuse one thing and do another, in turn.
const QUIET: Duration = Duration::from_secs(60);

/// The time without a refusal after which the server counts as one that does what it is asked.
const SETTLED: Duration = Duration::from_secs(5);

/// The cause of an outage in which the server commits nothing.
const STANDBY: &str =
    "PostgreSQL commits nothing, because it waits for a synchronous standby that does not confirm";

/// The outage of the server, if there is one.
pub(super) struct Outage {
    address: String,
    now: Mutex<Option<Now>>,
    told: Mutex<Option<Told>>,
}

struct Now {
    since: Instant,
    cause: String,
}

/// The failure that was logged last.
struct Told {
    cause: String,
    at: Instant,
    /// The time of the last failure, logged or not.
    last: Instant,
    /// The statement that the server refuses, while it answers others; `None` if it answers nothing.
    refused: Option<&'static str>,
    is_over: bool,
}

impl Outage {
    pub(super) fn new(address: &str) -> Self {
        Self {
            address: address.to_owned(),
            now: Mutex::new(None),
            told: Mutex::new(None),
        }
    }

    /// Records a request that failed.
    pub(super) fn noticed(&self, sql: &'static str, trouble: &Trouble) {
        let cause = &trouble.words;
        let refused = trouble.is_refusal().then_some(sql);
        match &mut *self.now() {
            Some(now) if now.cause == STANDBY && refused.is_none() => {}
            Some(now) => cause.clone_into(&mut now.cause),
            now => {
                *now = Some(Now {
                    since: Instant::now(),
                    cause: cause.clone(),
                });
            }
        }
        if !self.is_news(cause, refused) {
            return;
        }
        let (log, cause) = (&self.address, trouble.explained());
        if refused.is_some() {
            tracing::error!(
                log,
                cause,
                "PostgreSQL refuses a request of the batch log; no batch begins meanwhile, and what is under way waits. Mend the cause in PostgreSQL"
            );
        } else {
            tracing::error!(
                log,
                cause,
                "the batch log does not answer; no batch begins, and what is under way waits. Check PostgreSQL and the way to it"
            );
        }
    }

    /// Records that a write waits for a synchronous standby, if that explains the outage.
    pub(super) fn waits_for_standby(&self) {
        let Some(now) = &mut *self.now() else { return };
        STANDBY.clone_into(&mut now.cause);
        let mut told = self.told();
        let is_known =
            |told: &Told| told.cause == STANDBY && (!told.is_over || told.at.elapsed() < QUIET);
        if told.as_ref().is_some_and(is_known) {
            return;
        }
        let before = told.as_ref().filter(|told| !told.is_over);
        *told = Some(Told {
            cause: STANDBY.to_owned(),
            at: before.map_or(now.since, |told| told.at),
            last: Instant::now(),
            refused: None,
            is_over: false,
        });
        tracing::error!(
            log = self.address,
            cause = STANDBY,
            "the batch log cannot be written; no batch begins, and tables are refused after `batch.lease`. Start the standby again, or take it out of `synchronous_standby_names` and reload PostgreSQL: a failover could then lose what was acknowledged"
        );
    }

    /// Records a write that was answered.
    pub(super) fn answered(&self, sql: &'static str) {
        self.now().take();
        let mut told = self.told();
        let Some(told) = told.as_mut().filter(|told| !told.is_over) else {
            return;
        };
        // A full disk has room for some. What was refused may never be asked again.
        let silence = match told.refused {
            None => Duration::ZERO,
            Some(refused) if refused == sql => SETTLED,
            Some(_) => QUIET,
        };
        if told.last.elapsed() < silence {
            return;
        }
        told.is_over = true;
        let seconds = told.at.elapsed().as_secs_f64();
        tracing::info!(log = self.address, seconds, "the batch log answers again");
    }

    /// Returns the cause of an outage that has lasted for `at_least`.
    pub(super) fn cause(&self, at_least: Duration) -> Option<String> {
        let now = self.now();
        let now = now.as_ref().filter(|now| now.since.elapsed() >= at_least);
        now.map(|now| now.cause.clone())
    }

    /// Returns true if this cause must be logged.
    fn is_news(&self, cause: &str, refused: Option<&'static str>) -> bool {
        let mut told = self.told();
        let now = Instant::now();
        if let Some(told) = &mut *told {
            told.last = now;
            let is_known = if told.is_over {
                told.cause == cause && now.duration_since(told.at) < QUIET
            } else {
                // A server that refused and now answers nothing is in a worse state.
                told.refused.is_none() || refused.is_some()
            };
            if is_known {
                return false;
            }
        }
        *told = Some(Told {
            cause: cause.to_owned(),
            at: now,
            last: now,
            refused,
            is_over: false,
        });
        true
    }

    fn told(&self) -> MutexGuard<'_, Option<Told>> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now(&self) -> MutexGuard<'_, Option<Now>> {
        self.now.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test says what it expects")]
    use super::*;

    const WRITE: &str = "SELECT write()";
    const BEAT: &str = "SELECT beat()";

    /// An outage of which this was logged.
    fn after(trouble: &Trouble) -> Outage {
        let outage = Outage::new("postgres://here");
        outage.noticed(WRITE, trouble);
        assert!(is_told(&outage));
        outage
    }

    fn full() -> Trouble {
        Trouble::refused("the disk is full")
    }

    fn silent() -> Trouble {
        Trouble::silent("the server does not answer")
    }

    fn is_told(outage: &Outage) -> bool {
        outage.told().as_ref().is_some_and(|told| !told.is_over)
    }

    #[tokio::test(start_paused = true)]
    async fn a_refused_write_is_not_over_while_heartbeats_are_answered() {
        let outage = after(&full());
        for _ in 0..10 {
            outage.noticed(WRITE, &full());
            tokio::time::advance(QUIET / 4).await;
            outage.answered(BEAT);
            assert!(is_told(&outage), "only the heartbeat was answered");
            assert_eq!(outage.cause(Duration::ZERO), None, "a write may be tried");
        }
        outage.noticed(WRITE, &full());
        outage.answered(WRITE);
        assert!(is_told(&outage), "there was room for one");
        tokio::time::advance(SETTLED).await;
        outage.answered(WRITE);
        assert!(!is_told(&outage));
    }

    #[tokio::test(start_paused = true)]
    async fn a_refusal_that_is_not_repeated_is_over_in_the_end() {
        let outage = after(&full());
        tokio::time::advance(QUIET).await;
        outage.answered(BEAT);
        assert!(!is_told(&outage));
    }

    #[tokio::test(start_paused = true)]
    async fn silence_is_over_with_any_write() {
        let outage = after(&silent());
        outage.answered(BEAT);
        assert!(!is_told(&outage));
    }

    #[tokio::test(start_paused = true)]
    async fn a_standby_that_is_away_is_the_cause_until_something_is_written() {
        let outage = Outage::new("postgres://here");
        outage.waits_for_standby();
        assert!(outage.told().is_none(), "a write may wait for a moment");
        outage.noticed(WRITE, &silent());
        outage.waits_for_standby();
        let told = |outage: &Outage| outage.told().as_ref().unwrap().cause.clone();
        assert_eq!(told(&outage), STANDBY);
        outage.noticed(BEAT, &silent());
        assert_eq!(told(&outage), STANDBY, "once is enough");
        assert_eq!(outage.cause(Duration::ZERO).as_deref(), Some(STANDBY));
        outage.answered(BEAT);
        assert!(!is_told(&outage));
        assert_eq!(outage.cause(Duration::ZERO), None);
    }

    #[tokio::test(start_paused = true)]
    async fn silence_after_a_refusal_is_told_and_a_refusal_in_silence_is_not() {
        let outage = after(&full());
        outage.noticed(BEAT, &silent());
        let told = |outage: &Outage| outage.told().as_ref().unwrap().cause.clone();
        assert_eq!(told(&outage), silent().words);
        outage.noticed(WRITE, &full());
        assert_eq!(told(&outage), silent().words);
    }
}
