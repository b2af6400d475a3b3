//! The readiness to serve requests, and the reasons against it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::auth::keys::Keys;

/// The time after the start in which the keys of all issuers are waited for: a gateway that cannot reach one must not replace
/// another that can.
const START: Duration = Duration::from_secs(30);

/// The reasons why requests cannot be served yet. The gateway is ready if there are none and the keys of some issuer have
/// come: one that is down must not keep out the callers of the others.
pub struct Readiness {
    /// The reasons that the composition root has set and not lifted.
    reasons: Mutex<Vec<&'static str>>,
    begun: Instant,
    /// True once it was ready.
    was_ready: AtomicBool,
}

impl Default for Readiness {
    fn default() -> Self {
        Self {
            reasons: Mutex::default(),
            begun: Instant::now(),
            was_ready: AtomicBool::new(false),
        }
    }
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
        let starts = !self.was_ready.load(Ordering::Relaxed) && self.begun.elapsed() < START;
        let serves = !starts && issuers.iter().any(|issuer| issuer.has_keys());
        let without = issuers
            .iter()
            .filter(|issuer| !serves && !issuer.has_keys());
        let keys = without.map(|issuer| {
            let name = issuer.policy().issuer();
            if issuer.known().is_some() {
                format!("the key set of {name} has no key that can verify a token")
            } else {
                format!("the keys of {name} have not been fetched yet")
            }
        });
        let missing: Vec<String> = held.chain(keys).collect();
        if missing.is_empty() {
            self.was_ready.store(true, Ordering::Relaxed);
        }
        missing
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests say what they expect")]

    use std::sync::Arc;

    use super::*;
    use crate::auth::keys::{Clock, SystemClock};
    use crate::config::{Auth, Issuer, KeySource};
    use crate::metrics::Metrics;

    #[tokio::test]
    async fn one_issuer_is_enough_but_not_at_the_start() {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str| folder.path().join(name);
        let key = r#"{"keys":[{"kty":"OKP","crv":"Ed25519","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}]}"#;
        std::fs::write(file("one.json"), key).unwrap();
        let issuer = |name: &str| {
            let mut issuer = Issuer::new(&format!("https://{name}"), "catalog");
            issuer.algorithms = vec![crate::config::Algorithm::EdDSA];
            issuer.keys.source = KeySource::File(file(&format!("{name}.json")));
            issuer
        };
        let auth = Auth {
            issuers: vec![issuer("one"), issuer("two")],
            anonymous: false,
        };
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::default());
        let keys = Keys::new(&auth, &clock, Metrics::new().auth()).unwrap();
        let mut readiness = Readiness::default();
        assert_eq!(readiness.missing(&keys).len(), 2);
        for issuer in keys.issuers() {
            issuer.refresh().await;
        }
        let waits = readiness.missing(&keys);
        assert_eq!(waits.len(), 1);
        assert!(waits[0].contains("https://two"), "{waits:?}");
        readiness.begun = Instant::now().checked_sub(START).unwrap();
        assert_eq!(readiness.missing(&keys), [""; 0]);
        readiness.begun = Instant::now();
        assert_eq!(readiness.missing(&keys), [""; 0], "it was ready before");
        readiness.hold("a reason");
        assert_eq!(readiness.missing(&keys), ["a reason"]);
    }
}
