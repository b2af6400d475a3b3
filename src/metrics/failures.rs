//! The last requests that failed or were refused, for operators. Other requests never come here.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError, TryLockError};
use std::time::SystemTime;

/// The number of requests of each kind that are kept.
const KEPT: usize = 50;
/// The longest cause and name that are kept, in bytes.
const MAX_TEXT: usize = 512;

/// A request that failed or was refused.
#[derive(Clone, Debug)]
pub struct FailedRequest {
    /// The time of its end.
    pub at: SystemTime,
    /// The id of the request, as the log has it.
    pub id: String,
    /// The status of the answer.
    pub status: u16,
    /// The name of the operation.
    pub operation: &'static str,
    /// The table or namespace in the path; `None` if there is none, or it is not recorded.
    pub name: Option<String>,
    /// The catalog that it was for; `None` if it got to none.
    pub catalog: Option<Arc<str>>,
    /// The cause, in words.
    pub cause: String,
    /// The subject and the issuer of the caller; `None` if they are not known.
    pub caller: Option<(Arc<str>, Arc<str>)>,
    /// The number of such requests in a row: only the last one is kept.
    pub count: u64,
}

/// The last requests of both kinds. The memory is bounded: 100 requests.
#[derive(Default)]
pub struct RecentFailures {
    failed: Mutex<VecDeque<FailedRequest>>,
    refused: Mutex<VecDeque<FailedRequest>>,
}

impl RecentFailures {
    /// True if requests with this status are kept: failures of the gateway or a catalog, and refusals of a caller.
    pub fn takes(status: u16) -> bool {
        status >= 500 || Self::is_refusal(status)
    }

    fn is_refusal(status: u16) -> bool {
        matches!(status, 401 | 403 | 429)
    }

    /// Keeps a request, and drops the oldest one if there are too many. Requests that a caller repeats after a refusal
    /// are counted in one place, so that one caller does not push out all others. A request that comes while another
    /// thread is here is not kept: a flood of them must not wait for each other.
    pub fn keep(&self, mut request: FailedRequest) {
        request.cause = cut(request.cause);
        request.name = request.name.map(cut);
        let is_refusal = Self::is_refusal(request.status);
        let kept = if is_refusal {
            &self.refused
        } else {
            &self.failed
        };
        let mut kept = match kept.try_lock() {
            Ok(kept) => kept,
            Err(TryLockError::Poisoned(kept)) => kept.into_inner(),
            Err(TryLockError::WouldBlock) => return,
        };
        let repeats = |other: &FailedRequest| {
            (other.status, other.operation) == (request.status, request.operation)
                && other.caller == request.caller
                && other.cause == request.cause
                && other.name == request.name
        };
        if is_refusal && let Some(place) = kept.iter().position(repeats) {
            let before = kept.remove(place).map_or(0, |other| other.count);
            request.count = before.saturating_add(request.count);
        }
        kept.truncate(KEPT - 1);
        kept.push_front(request);
    }

    /// Returns the last failures, the newest first.
    pub fn failed(&self) -> Vec<FailedRequest> {
        copy(&self.failed)
    }

    /// Returns the last refusals, the newest first.
    pub fn refused(&self) -> Vec<FailedRequest> {
        copy(&self.refused)
    }
}

fn copy(kept: &Mutex<VecDeque<FailedRequest>>) -> Vec<FailedRequest> {
    let kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
    kept.iter().cloned().collect()
}

fn cut(mut text: String) -> String {
    text.truncate(text.floor_char_boundary(MAX_TEXT));
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(id: usize, status: u16, cause: &str) -> FailedRequest {
        FailedRequest {
            at: SystemTime::UNIX_EPOCH,
            id: id.to_string(),
            status,
            operation: "describe_table",
            name: None,
            catalog: None,
            cause: cause.to_owned(),
            caller: None,
            count: 1,
        }
    }

    #[test]
    fn the_last_fifty_are_kept_the_newest_first() {
        let recent = RecentFailures::default();
        for id in 0..200 {
            recent.keep(request(id, 503, "down"));
        }
        let kept = recent.failed();
        assert_eq!(kept.len(), 50);
        assert_eq!((&*kept[0].id, &*kept[49].id), ("199", "150"));
        assert!(recent.refused().is_empty());
    }

    #[test]
    fn a_caller_that_is_refused_a_thousand_times_takes_one_place() {
        let recent = RecentFailures::default();
        recent.keep(request(1, 429, "too many requests"));
        for id in 2..1002 {
            recent.keep(request(id, 403, "write permission is required"));
        }
        let kept = recent.refused();
        assert_eq!(kept.len(), 2);
        assert_eq!((kept[0].count, &*kept[0].id), (1000, "1001"));
        assert_eq!(kept[1].count, 1);
    }

    #[test]
    fn long_texts_are_cut() {
        let recent = RecentFailures::default();
        recent.keep(request(1, 500, &"ü".repeat(5000)));
        assert_eq!(recent.failed()[0].cause.len(), MAX_TEXT);
    }

    #[test]
    fn answers_that_are_no_failure_are_not_taken() {
        let taken = [200, 400, 401, 403, 404, 409, 429, 500, 503];
        let taken = taken.map(RecentFailures::takes);
        let expected = [false, false, true, true, false, false, true, true, true];
        assert_eq!(taken, expected);
    }
}
