//! Keeps the batch whose task panics, which is a bug in the gateway: the batch continues from the log after the next
//! start.
//!
//! The batch keeps everything until then: its tables stay locked, and the versions that it made stay hidden. Clients
//! that wait for it get the answer that its end is not known.

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
        // Open also a batch that the log may not know yet, because an operator will look for the holder of the locks.
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
