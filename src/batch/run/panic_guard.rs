//! Guards a batch whose task panics: a bug in the gateway, from which only the next start recovers, out of the log.
//!
//! The batch releases nothing until then: its tables stay locked, and what it made stays hidden. Requests that wait
//! for it are answered that its end is not known.

use super::{BatchRun, resolve::ABANDONED};
use crate::batch::api::outcomes::BatchAnswer;
use crate::batch::locks::Hold;

impl Drop for BatchRun {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            return;
        }
        tracing::error!(
            batch = %self.id,
            "the gateway failed at a batch (see the panic before this): its tables stay locked and what it made hidden until the gateway is started again, which takes it over from the log"
        );
        let locks = &self.coordinator.locks;
        std::mem::forget(std::mem::replace(&mut self.hold, Hold::none(locks)));
        // Opens also a batch that the log may not know yet: operators will look for what locks its tables.
        if !self.written {
            self.open();
        }
        let open = &self.coordinator.open;
        open.trouble(self.id, Some(ABANDONED.into()));
        if self.outcome.get().is_none() {
            self.coordinator.metrics.unknown();
            self.outcome.set(BatchAnswer::Unknown);
        }
    }
}

#[cfg(test)]
mod tests;
