//! The readiness to serve requests, and the reasons against it.

use std::sync::{Mutex, PoisonError};

use crate::auth::keys::Keys;

/// The reasons why requests cannot be served yet. The gateway is ready if there are none and the keys of some issuer have
/// come: one that is down must not keep out the callers of the others.
#[derive(Default)]
pub struct Readiness {
    /// The reasons that the composition root has set and not lifted.
    reasons: Mutex<Vec<&'static str>>,
}

impl Readiness {
    /// Makes the gateway not ready, for this reason.
    pub fn hold(&self, reason: &'static str) {
        let mut reasons = self.reasons.lock().unwrap_or_else(PoisonError::into_inner);
        reasons.push(reason);
    }

    /// Removes the reason.
    pub fn lift(&self, reason: &'static str) {
        let mut reasons = self.reasons.lock().unwrap_or_else(PoisonError::into_inner);
        reasons.retain(|held| *held != reason);
    }

    /// Returns everything that is missing, in words for an operator.
    pub fn missing(&self, keys: &Keys) -> Vec<String> {
        let reasons = self.reasons.lock().unwrap_or_else(PoisonError::into_inner);
        let held = reasons.iter().map(|reason| (*reason).to_owned());
        let issuers = keys.issuers();
        let serves = issuers.iter().any(|issuer| issuer.has_keys());
        let without = issuers.iter().filter(|_| !serves);
        let keys = without.map(|issuer| {
            let name = issuer.policy().issuer();
            if issuer.known().is_some() {
                format!("the key set of {name} has no key that can verify a token")
            } else {
                format!("the keys of {name} have not been fetched yet")
            }
        });
        held.chain(keys).collect()
    }
}
