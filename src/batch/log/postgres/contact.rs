//! The contact of the keeper of the guards to the log, which a gateway must have to show that it lives.

use std::cell::{Cell, RefCell};
use std::time::Duration;

use tokio::time::Instant;

/// The last time that the keeper of the guards got through to the log, on its own connection.
pub(super) struct Contact {
    last: Cell<Instant>,
    /// The reason why it does not get through; empty while it does.
    cause: RefCell<String>,
    is_told: Cell<bool>,
}

impl Contact {
    pub(super) fn new() -> Self {
        Self {
            last: Cell::new(Instant::now()),
            cause: RefCell::default(),
            is_told: Cell::new(false),
        }
    }

    /// Records that the keeper got through.
    pub(super) fn made(&self) {
        self.last.set(Instant::now());
        self.cause.borrow_mut().clear();
        if self.is_told.take() {
            tracing::info!("this gateway learns again which tables batches are on");
        }
    }

    /// Records that it did not.
    pub(super) fn failed(&self, cause: String) {
        self.cause.replace(cause);
    }

    /// True if the keeper has not got through for longer than `patience`. Reports it once.
    pub(super) fn is_lost_for(&self, patience: Duration) -> bool {
        let is_lost = self.last.get().elapsed() > patience;
        if is_lost && !self.is_told.replace(true) {
            let cause = self.cause.borrow();
            let cause = if cause.is_empty() {
                "the server does not answer"
            } else {
                &cause
            };
            tracing::warn!(
                cause,
                "this gateway does not learn which tables batches are on, so it stops showing the others that it lives: after `batch.lease` they go on without it. Its other connections to PostgreSQL may work; check the number of connections that PostgreSQL allows, and what is between the two"
            );
        }
        is_lost
    }
}
