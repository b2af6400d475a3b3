//! Whether requests can be served, and if not, why.

use std::sync::{Mutex, PoisonError};

/// What stands in the way of serving. Empty: ready.
#[derive(Default)]
pub struct Readiness {
    /// Set and lifted by the composition root.
    reasons: Mutex<Vec<&'static str>>,
    /// Asked each time.
    probes: Vec<Probe>,
}

/// Answers with what is missing, in words for an operator.
type Probe = Box<dyn Fn() -> Vec<String> + Send + Sync>;

impl Readiness {
    /// Ready, unless `probe` finds something missing.
    pub fn new(probe: impl Fn() -> Vec<String> + Send + Sync + 'static) -> Self {
        Self {
            reasons: Mutex::default(),
            probes: vec![Box::new(probe)],
        }
    }

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

    /// Everything that is missing.
    pub fn missing(&self) -> Vec<String> {
        let reasons = self.reasons.lock().unwrap_or_else(PoisonError::into_inner);
        let held = reasons.iter().map(|reason| (*reason).to_owned());
        held.chain(self.probes.iter().flat_map(|probe| probe()))
            .collect()
    }
}
