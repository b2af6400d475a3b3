//! Whether requests can be served, and if not, why.

use std::sync::{Mutex, PoisonError};

use crate::auth::keys::Keys;

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
        let without = keys.issuers().iter().filter(|issuer| !issuer.has_keys());
        let keys = without.map(|issuer| {
            let name = issuer.policy().issuer();
            match issuer.known().is_some() {
                true => format!("the key set of {name} has no key that can verify a token"),
                false => format!("the keys of {name} have not been fetched yet"),
            }
        });
        held.chain(keys).collect()
    }
}
