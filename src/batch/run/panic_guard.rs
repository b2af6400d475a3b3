//! A batch whose task panics: a fault of the gateway, which only the next start gets over, from the log.
//!
//! Until then nothing of it is given back: its tables stay locked, and hidden what it made. Whoever waits for it is
//! told that its end is not known.

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
            "a batch stopped because of a fault of the gateway (see the panic before this line); its tables stay locked and its changes hidden. Restart the gateway: it recovers the batch from its log"
        );
        let locks = &self.coordinator.locks;
        std::mem::forget(std::mem::replace(&mut self.hold, Hold::none(locks)));
        // Also one that the log may not know yet: somebody will ask what has its tables.
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
