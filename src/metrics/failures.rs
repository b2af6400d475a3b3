//! The last requests that failed, were refused or waited long for a catalog, for operators. Other requests never come
//! here.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::{Duration, SystemTime};

/// The number of requests of each kind that are kept.
const KEPT: usize = 50;
/// The most lines of one refused caller; further refusals are counted in the oldest of them.
const OF_ONE_CALLER: usize = 10;
/// The time without a refusal after which a caller's refusals are counted anew.
const QUIET: Duration = Duration::from_secs(600);
/// The longest cause and name that are kept, in bytes.
const MAX_TEXT: usize = 512;

/// A request that failed, was refused or was slow.
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
    /// The address of the client; `None` if it is not recorded.
    pub client: Option<String>,
    /// The number of such requests in a row: only the last one is kept.
    pub count: u64,
}

/// The last requests of each kind. The memory is bounded: 150 requests.
#[derive(Default)]
pub struct RecentFailures {
    failed: Mutex<VecDeque<FailedRequest>>,
    refused: Mutex<VecDeque<FailedRequest>>,
    slow: Mutex<VecDeque<FailedRequest>>,
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
    /// are counted in few places, so that one caller does not push out all others. A request that comes while another
    /// thread is here is not kept: a flood of them must not wait for each other.
    pub fn keep(&self, mut request: FailedRequest) {
        let is_refusal = Self::is_refusal(request.status);
        let kept = if is_refusal {
            &self.refused
        } else {
            &self.failed
        };
        let Some(mut kept) = attempt(kept) else {
            return;
        };
        shorten(&mut request);
        if is_refusal && let Some(place) = place_of(&kept, &request) {
            let before = kept.remove(place).filter(|other| {
                let quiet = request.at.duration_since(other.at).unwrap_or_default();
                quiet < QUIET
            });
            let before = before.map_or(0, |other| other.count);
            request.count = before.saturating_add(request.count);
        }
        push(&mut kept, request);
    }

    /// Keeps a request that waited long for a catalog, likewise.
    pub fn keep_slow(&self, mut request: FailedRequest) {
        if let Some(mut kept) = attempt(&self.slow) {
            shorten(&mut request);
            push(&mut kept, request);
        }
    }

    /// Returns the last failures, the newest first.
    pub fn failed(&self) -> Vec<FailedRequest> {
        copy(&self.failed)
    }

    /// Returns the last refusals, the newest first.
    pub fn refused(&self) -> Vec<FailedRequest> {
        copy(&self.refused)
    }

    /// Returns the last requests that waited long for a catalog, the newest first.
    pub fn slow(&self) -> Vec<FailedRequest> {
        copy(&self.slow)
    }
}

/// Returns the place of the line in which a refusal is counted; `None` if it gets a line of its own.
fn place_of(kept: &VecDeque<FailedRequest>, request: &FailedRequest) -> Option<usize> {
    let is_callers =
        |other: &FailedRequest| other.status == request.status && other.caller == request.caller;
    let repeats = |other: &FailedRequest| {
        is_callers(other)
            && other.operation == request.operation
            && other.cause == request.cause
            && other.name == request.name
    };
    let oldest = || {
        let mut own = kept
            .iter()
            .enumerate()
            .filter(|(_, other)| is_callers(other));
        let (place, _) = own.by_ref().nth(OF_ONE_CALLER - 1)?;
        Some(own.next_back().map_or(place, |(place, _)| place))
    };
    kept.iter().position(repeats).or_else(oldest)
}

fn push(kept: &mut VecDeque<FailedRequest>, request: FailedRequest) {
    kept.truncate(KEPT - 1);
    kept.push_front(request);
}

/// Locks the list; `None` if another thread has it.
fn attempt(
    kept: &Mutex<VecDeque<FailedRequest>>,
) -> Option<MutexGuard<'_, VecDeque<FailedRequest>>> {
    match kept.try_lock() {
        Ok(kept) => Some(kept),
        Err(TryLockError::Poisoned(kept)) => Some(kept.into_inner()),
        Err(TryLockError::WouldBlock) => None,
    }
}

fn copy(kept: &Mutex<VecDeque<FailedRequest>>) -> Vec<FailedRequest> {
    let kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
    kept.iter().cloned().collect()
}

fn shorten(request: &mut FailedRequest) {
    for text in request.name.iter_mut().chain([&mut request.cause]) {
        text.truncate(text.floor_char_boundary(MAX_TEXT));
    }
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
            client: None,
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
    fn a_caller_that_is_refused_at_many_tables_leaves_room_for_others() {
        let recent = RecentFailures::default();
        recent.keep(request(1, 429, "too many requests"));
        for id in 2..1002 {
            let name = Some(format!("west$t{id}"));
            recent.keep(FailedRequest {
                name,
                ..request(id, 403, "write permission is required")
            });
        }
        let kept = recent.refused();
        assert_eq!(kept.len(), 1 + OF_ONE_CALLER);
        assert_eq!(kept.last().map(|last| last.status), Some(429));
        let counts = kept.iter().map(|line| line.count);
        assert_eq!(counts.sum::<u64>(), 1001);
        assert_eq!(kept[0].name.as_deref(), Some("west$t1001"));
    }

    #[test]
    fn after_ten_quiet_minutes_refusals_are_counted_anew() {
        let recent = RecentFailures::default();
        for (id, seconds) in [(1, 0), (2, 599), (3, 1199)] {
            recent.keep(FailedRequest {
                at: SystemTime::UNIX_EPOCH + Duration::from_secs(seconds),
                ..request(id, 403, "write permission is required")
            });
        }
        let kept = recent.refused();
        assert_eq!((kept.len(), kept[0].count), (1, 1));
    }

    #[test]
    fn slow_requests_have_a_list_of_their_own() {
        let recent = RecentFailures::default();
        for id in 0..60 {
            recent.keep_slow(request(id, 200, "waited 3.1 s"));
        }
        assert_eq!((recent.slow().len(), recent.failed().len()), (50, 0));
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
