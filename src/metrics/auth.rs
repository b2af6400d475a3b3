//! What is counted about tokens and keys.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use prometheus::{GaugeVec, IntCounter, IntCounterVec};

use super::families::Families;
use super::shards::{Count, Shards};

/// The counters of authentication. Clones count together.
#[derive(Clone)]
pub struct Auth {
    failures: IntCounterVec,
    looked_up: Arc<Shards<[Count; 2]>>,
    hits: IntCounter,
    misses: IntCounter,
    refreshes: IntCounterVec,
    ages: GaugeVec,
    issuers: Arc<Mutex<Vec<Arc<Age>>>>,
}

/// What looking a token up among the verified ones found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CacheLookup {
    /// It was there.
    Hit,
    /// It had to be verified.
    Miss,
}

/// The counters of one issuer's keys.
#[derive(Clone)]
pub struct Issuer {
    succeeded: IntCounter,
    failed: IntCounter,
    age: Arc<Age>,
}

struct Age {
    issuer: String,
    got: Mutex<Option<Instant>>,
}

impl Auth {
    pub(super) fn new(families: &Families) -> Self {
        Self {
            failures: families.authentication_failures.clone(),
            looked_up: Arc::default(),
            hits: families.token_cache.with_label_values(&["hit"]),
            misses: families.token_cache.with_label_values(&["miss"]),
            refreshes: families.key_refreshes.clone(),
            ages: families.keys_age.clone(),
            issuers: Arc::default(),
        }
    }

    /// These are the words that [`Auth::refused`] is told: each is counted from zero.
    pub fn know_reasons(&self, reasons: &[&str]) {
        for reason in reasons {
            self.failures.with_label_values(&[reason]);
        }
    }

    /// A request was refused; `reason` is one of a few fixed words.
    pub fn refused(&self, reason: &'static str) {
        self.failures.with_label_values(&[reason]).inc();
    }

    /// A token was looked up.
    pub fn looked_up(&self, found: CacheLookup) {
        let (counts, writer) = self.looked_up.own();
        counts[found as usize].add(1, writer);
    }

    /// The handle of a configured issuer.
    pub fn issuer(&self, issuer: &str) -> Issuer {
        let age = Arc::new(Age {
            issuer: issuer.to_owned(),
            got: Mutex::default(),
        });
        let mut issuers = self.issuers.lock().unwrap_or_else(PoisonError::into_inner);
        // One that is asked for again has been configured anew: the last handle is the one in use.
        issuers.retain(|known| Arc::strong_count(known) > 1);
        issuers.push(Arc::clone(&age));
        Issuer {
            succeeded: self.refreshes.with_label_values(&[issuer, "success"]),
            failed: self.refreshes.with_label_values(&[issuer, "failure"]),
            age,
        }
    }

    /// Brings everything up to now.
    pub(super) fn refresh(&self) {
        for [hits, misses] in self.looked_up.all() {
            self.hits.inc_by(hits.unread());
            self.misses.inc_by(misses.unread());
        }
        self.refresh_ages();
    }

    fn refresh_ages(&self) {
        let mut issuers = self.issuers.lock().unwrap_or_else(PoisonError::into_inner);
        // An issuer that is not configured any more has no keys that could be old.
        issuers.retain(|known| Arc::strong_count(known) > 1);
        self.ages.reset();
        for age in issuers.iter() {
            let got = *age.got.lock().unwrap_or_else(PoisonError::into_inner);
            // Keys that are not there are as old as can be.
            let seconds = got.map_or(f64::INFINITY, |got| got.elapsed().as_secs_f64());
            let gauge = self.ages.with_label_values(&[&age.issuer]);
            gauge.set(seconds);
        }
    }
}

impl Issuer {
    /// The keys are those that `other` got.
    pub fn inherit(&self, other: &Self) {
        let got = *other.age.got.lock().unwrap_or_else(PoisonError::into_inner);
        *self.age.got.lock().unwrap_or_else(PoisonError::into_inner) = got;
    }

    /// New keys came, or did not.
    pub fn refreshed(&self, success: bool) {
        if success {
            self.succeeded.inc();
            let mut got = self.age.got.lock().unwrap_or_else(PoisonError::into_inner);
            *got = Some(Instant::now());
        } else {
            self.failed.inc();
        }
    }

    /// There is none to verify with.
    pub fn without_keys(&self) {
        *self.age.got.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}
