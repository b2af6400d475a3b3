//! The callers that send the most requests, estimated from a sample of them in bounded memory.
//!
//! One request of 61 on each thread is noted, so that the others pay for no more than a comparison. The sketch is
//! Space-Saving (Metwally, Agrawal, El Abbadi, 2005): a caller with more than 1/64 of the noted requests is in it.

use std::sync::{Arc, Mutex, PoisonError, TryLockError};

/// One request of so many is noted. A prime number, so that a pattern of requests does not hide a caller.
pub(super) const SAMPLED: u64 = 61;
/// The number of callers that are kept.
const KEPT: usize = 64;

/// The callers that send the most requests.
#[derive(Default)]
pub struct BusiestCallers(Mutex<Vec<BusyCaller>>);

/// A caller, and the estimate of its requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BusyCaller {
    /// The subject of the caller; empty for the anonymous one.
    pub subject: Arc<str>,
    /// The issuer of its tokens; empty without a token.
    pub issuer: Arc<str>,
    /// The number of its noted requests, the old ones less and less.
    pub noted: u64,
}

impl BusiestCallers {
    /// Notes a request of a caller. Does nothing while another thread is here: a sample need not be complete.
    pub fn note(&self, subject: &Arc<str>, issuer: &Arc<str>) {
        let mut kept = match self.0.try_lock() {
            Ok(kept) => kept,
            Err(TryLockError::Poisoned(kept)) => kept.into_inner(),
            Err(TryLockError::WouldBlock) => return,
        };
        let same = |one: &&mut BusyCaller| one.subject == *subject && one.issuer == *issuer;
        if let Some(known) = kept.iter_mut().find(same) {
            known.noted += 1;
            return;
        }
        let new = |noted| BusyCaller {
            subject: Arc::clone(subject),
            issuer: Arc::clone(issuer),
            noted,
        };
        if kept.len() < KEPT {
            kept.push(new(1));
        } else if let Some(least) = kept.iter_mut().min_by_key(|one| one.noted) {
            *least = new(least.noted + 1);
        }
    }

    /// Lets the past count half. Called once a minute, it makes the figures those of the last minutes.
    pub fn fade(&self) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.retain_mut(|one| {
            one.noted /= 2;
            one.noted > 0
        });
    }

    /// Returns the callers, the busiest first, and the number of all noted requests.
    pub fn busiest(&self) -> (Vec<BusyCaller>, u64) {
        let mut callers = self
            .0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        callers.sort_by_key(|one| std::cmp::Reverse(one.noted));
        let all = callers.iter().map(|one| one.noted).sum();
        (callers, all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_busy_caller_stays_however_many_others_come() {
        let callers = BusiestCallers::default();
        let issuer: Arc<str> = "idp".into();
        for round in 0..10_000 {
            callers.note(&format!("once-{round}").into(), &issuer);
            if round % 10 == 0 {
                callers.note(&"busy".into(), &issuer);
            }
        }
        let (busiest, all) = callers.busiest();
        assert_eq!((busiest.len(), &*busiest[0].subject), (KEPT, "busy"));
        assert!(busiest[0].noted >= 1000, "{busiest:?}");
        assert_eq!(all, 11_000);
    }

    #[test]
    fn a_caller_that_has_gone_fades_away() {
        let callers = BusiestCallers::default();
        for _ in 0..5 {
            callers.note(&"ada".into(), &"idp".into());
        }
        callers.fade();
        assert_eq!(callers.busiest().1, 2);
        callers.fade();
        callers.fade();
        assert_eq!(callers.busiest(), (Vec::new(), 0));
    }
}
