//! Limits how much one caller may write into the batch log, which keeps it for `batch.remember_outcomes`: the log of all must
//! not fill its disk with the batches of one.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::batch::busy;
use crate::error::Error;
use crate::error::retry_after::RetryAfter;
use crate::metrics::Limit;

/// The bytes that the log keeps of a batch, or of one of its entries, besides what the client has sent.
const BESIDES: usize = 512;
/// The most callers that are counted: about 10 MB. Further ones are not.
const CALLERS: usize = 1 << 16;

/// The bytes that each caller has written lately.
#[derive(Default)]
pub(in crate::batch) struct LogShare(Mutex<HashMap<String, Written>>);

/// The bytes of one caller that the log is taken to keep at a moment.
#[derive(Clone, Copy)]
struct Written {
    bytes: f64,
    at: Instant,
}

impl Written {
    /// Returns what is left of it by `now`, if the log forgets `share` bytes within `remember`.
    fn by(self, now: Instant, share: usize, remember: Duration) -> f64 {
        let elapsed = now.saturating_duration_since(self.at).as_secs_f64();
        (self.bytes - elapsed * share as f64 / remember.as_secs_f64()).max(0.0)
    }
}

impl LogShare {
    /// Counts a batch of `entries` changes, for which its client has sent so many bytes.
    ///
    /// Returns the bytes that are counted.
    ///
    /// # Errors
    /// 503: the log keeps as much of the caller as its `share` already.
    pub(in crate::batch) fn take(
        &self,
        caller: &str,
        (bytes, entries): (usize, usize),
        (share, remember): (usize, Duration),
    ) -> Result<f64, Error> {
        if remember.is_zero() {
            return Ok(0.0);
        }
        let now = Instant::now();
        let mut all = self.written();
        let before = all
            .get(caller)
            .map_or(0.0, |it| it.by(now, share, remember));
        let counted = (bytes + BESIDES * (1 + entries)) as f64;
        let bytes = before + counted;
        // A first batch may have any size.
        if before > 0.0 && bytes > share as f64 {
            drop(all);
            let over = (bytes - share as f64) / share as f64;
            return Err(full(share, remember.mul_f64(over.min(1.0))));
        }
        let written = Written { bytes, at: now };
        if let Some(known) = all.get_mut(caller) {
            *known = written;
        } else if all.len() < CALLERS {
            all.insert(caller.to_owned(), written);
        }
        Ok(counted)
    }

    /// Gives back what was counted of a batch of which nothing was written.
    pub(in crate::batch) fn give_back(&self, caller: &str, counted: f64) {
        if let Some(written) = self.written().get_mut(caller) {
            written.bytes = (written.bytes - counted).max(0.0);
        }
    }

    /// Forgets the callers of whom the log keeps nothing any more.
    pub(in crate::batch) fn sweep(&self, share: usize, remember: Duration) {
        let now = Instant::now();
        let is_kept = |it: &Written| !remember.is_zero() && it.by(now, share, remember) > 0.0;
        self.written().retain(|_, written| is_kept(written));
    }

    fn written(&self) -> MutexGuard<'_, HashMap<String, Written>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn full(share: usize, wait: Duration) -> Error {
    let mib = share >> 20;
    let error = busy(&format!(
        "the batch log keeps {mib} MiB of this caller's batches, which is its share (`batch.log_share`); send fewer or smaller ones"
    ));
    error
        .because(Limit::Batches.as_str())
        .with_retry_after(RetryAfter::rest(wait))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that panics fails")]

    use super::*;

    const DAY: Duration = Duration::from_secs(24 * 3600);
    const SHARE: (usize, Duration) = (1 << 20, DAY);

    #[tokio::test(start_paused = true)]
    async fn a_caller_has_its_share_again_when_the_log_has_forgotten() {
        let log = LogShare::default();
        let quarter = ((1 << 18) - 2 * BESIDES, 1);
        for _ in 0..4 {
            log.take("ann", quarter, SHARE).unwrap();
        }
        let full = log.take("ann", quarter, SHARE).unwrap_err();
        assert_eq!(full.status(), 503);
        let counted = log.take("bob", quarter, SHARE).unwrap();
        for _ in 0..9 {
            log.give_back("bob", counted);
            log.take("bob", quarter, SHARE).unwrap();
        }
        tokio::time::advance(DAY / 4 + Duration::from_secs(1)).await;
        log.take("ann", quarter, SHARE).unwrap();
        assert!(log.take("ann", quarter, SHARE).is_err());
        tokio::time::advance(DAY).await;
        log.sweep(SHARE.0, SHARE.1);
        assert!(log.written().is_empty(), "nothing is left behind");
    }

    #[tokio::test(start_paused = true)]
    async fn one_batch_may_be_larger_than_the_share() {
        let log = LogShare::default();
        log.take("ann", (8 << 20, 1), SHARE).unwrap();
        assert!(log.take("ann", (0, 1), SHARE).is_err());
        log.take("eve", (8 << 20, 1), (1 << 20, Duration::ZERO))
            .unwrap();
        log.take("eve", (8 << 20, 1), (1 << 20, Duration::ZERO))
            .unwrap();
    }
}
