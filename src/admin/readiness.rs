//! Whether requests can be served, and if not, why.

use std::sync::{Mutex, PoisonError};

use crate::keys::Keys;

/// What stands in the way of serving. Empty: ready.
#[derive(Default)]
pub struct Readiness {
    /// Set and lifted by the composition root.
    reasons: Mutex<Vec<&'static str>>,
}

impl Readiness {
    /// Not ready from now on, for this reason.
    pub fn hold(&self, reason: &'static str) {
        let mut reasons = self.reasons.lock().unwrap_or_else(PoisonError::into_inner);
        reasons.push(reason);
    }

    /// The reason is gone.
    pub fn lift(&self, reason: &'static str) {
        let mut reasons = self.reasons.lock().unwrap_or_else(PoisonError::into_inner);
        reasons.retain(|held| *held != reason);
    }

    /// Everything that is missing, in words for an operator.
    pub fn missing(&self, keys: &Keys) -> Vec<String> {
        let reasons = self.reasons.lock().unwrap_or_else(PoisonError::into_inner);
        let held = reasons.iter().map(|reason| (*reason).to_owned());
        let keys = keys.missing();
        let keys = keys.map(|issuer| format!("the keys of {issuer} have not come yet"));
        held.chain(keys).collect()
    }
}
