//! The counters of tokens and keys.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use prometheus::{GaugeVec, IntCounter, IntCounterVec};

use super::families::Families;
use super::shards::{Count, Shards};

/// The counters of authentication. Clones share them.
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

/// The result of looking a token up in the cache of verified ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CacheLookup {
    /// The token was in the cache.
    Hit,
    /// The token had to be verified.
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

    /// Registers the reasons for [`Auth::refused`], so that each is exported with zero from the
    /// start.
    pub fn know_reasons(&self, reasons: &[&str]) {
        for reason in reasons {
            self.failures.with_label_values(&[reason]);
        }
    }

    /// Counts a refused request; `reason` is one of a few fixed words.
    pub fn refused(&self, reason: &'static str) {
        self.failures.with_label_values(&[reason]).inc();
    }

    /// Counts a look-up of a token.
    pub fn looked_up(&self, found: CacheLookup) {
        let (counts, writer) = self.looked_up.own();
        counts[found as usize].add(1, writer);
    }

    /// Returns the handle of a configured issuer.
    pub fn issuer(&self, issuer: &str) -> Issuer {
        let age = Arc::new(Age {
            issuer: issuer.to_owned(),
            got: Mutex::default(),
        });
        let mut issuers = self.issuers.lock().unwrap_or_else(PoisonError::into_inner);
        // Replaces the handle of an issuer that is configured again: the last handle is the one in
        // use.
        issuers.retain(|known| Arc::strong_count(known) > 1);
        issuers.push(Arc::clone(&age));
        Issuer {
            succeeded: self.refreshes.with_label_values(&[issuer, "success"]),
            failed: self.refreshes.with_label_values(&[issuer, "failure"]),
            age,
        }
    }

    /// Updates all metrics to the present values.
    pub(super) fn refresh(&self) {
        for [hits, misses] in self.looked_up.all() {
            self.hits.inc_by(hits.unread());
            self.misses.inc_by(misses.unread());
        }
        self.refresh_ages();
    }

    fn refresh_ages(&self) {
        let mut issuers = self.issuers.lock().unwrap_or_else(PoisonError::into_inner);
        // An issuer that is no longer configured has no keys whose age matters.
        issuers.retain(|known| Arc::strong_count(known) > 1);
        self.ages.reset();
        for age in issuers.iter() {
            let got = *age.got.lock().unwrap_or_else(PoisonError::into_inner);
            // The age of missing keys is infinite.
            let seconds = got.map_or(f64::INFINITY, |got| got.elapsed().as_secs_f64());
            let gauge = self.ages.with_label_values(&[&age.issuer]);
            gauge.set(seconds);
        }
    }
}

impl Issuer {
    /// Takes the age of the keys over from `other`.
    pub fn inherit(&self, other: &Self) {
        let got = *other.age.got.lock().unwrap_or_else(PoisonError::into_inner);
        *self.age.got.lock().unwrap_or_else(PoisonError::into_inner) = got;
    }

    /// Counts a refresh of the keys, and restarts their age if it succeeded.
    pub fn refreshed(&self, success: bool) {
        if success {
            self.succeeded.inc();
            let mut got = self.age.got.lock().unwrap_or_else(PoisonError::into_inner);
            *got = Some(Instant::now());
        } else {
            self.failed.inc();
        }
    }

    /// The time since the keys were last fetched; `None` if there are none.
    pub fn age(&self) -> Option<Duration> {
        let got = *self.age.got.lock().unwrap_or_else(PoisonError::into_inner);
        got.map(|got| got.elapsed())
    }

    /// Records that there are no keys to verify tokens with.
    pub fn without_keys(&self) {
        *self.age.got.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}
