//! The right of this process to write to the log, until another one takes it over.

use std::sync::{Mutex, OnceLock, PoisonError};

use tokio::sync::watch;
use uuid::Uuid;

use crate::batch::log::LogError;

pub(super) type OnFailure = Box<dyn FnOnce(LogError) + Send>;

/// The ownership of the log.
pub(super) struct Fence {
    address: String,
    me: Uuid,
    number: i64,
    lost: OnceLock<Lost>,
    is_lost: watch::Sender<bool>,
    on_failure: Mutex<Option<OnFailure>>,
}

/// The reason why this process may not write any more.
enum Lost {
    TakenOver(String),
    Failed(String),
}

impl Fence {
    pub(super) fn new(address: &str, me: Uuid, number: i64, on_failure: OnFailure) -> Self {
        Self {
            address: address.to_owned(),
            me,
            number,
            lost: OnceLock::new(),
            is_lost: watch::Sender::new(false),
            on_failure: Mutex::new(Some(on_failure)),
        }
    }

    pub(super) fn me(&self) -> Uuid {
        self.me
    }

    pub(super) fn number(&self) -> i64 {
        self.number
    }

    /// Records that another process owns the log. Nothing is written after this.
    pub(super) fn taken_over(&self, by: &str) {
        self.lose(Lost::TakenOver(by.to_owned()));
    }

    /// Records that the log cannot be written by this process.
    pub(super) fn failed(&self, words: &str) {
        self.lose(Lost::Failed(words.to_owned()));
    }

    fn lose(&self, why: Lost) {
        if self.lost.set(why).is_err() {
            return;
        }
        self.is_lost.send_replace(true);
        let on_failure = self.on_failure.lock();
        let on_failure = on_failure.unwrap_or_else(PoisonError::into_inner).take();
        if let Some(on_failure) = on_failure {
            on_failure(self.to_error());
        }
    }

    /// Returns the error for a server that does not answer.
    pub(super) fn away(&self, cause: &str) -> LogError {
        LogError::Away {
            path: self.address.clone(),
            cause: cause.to_owned(),
        }
    }

    /// Returns when this process may not write any more.
    pub(super) async fn is_lost(&self) {
        let mut lost = self.is_lost.subscribe();
        // The sender is a part of this.
        let _ = lost.wait_for(|lost| *lost).await;
    }

    /// Returns the error for a write that was not made.
    pub(super) fn to_error(&self) -> LogError {
        let path = self.address.clone();
        match self.lost.get() {
            Some(Lost::TakenOver(by)) => LogError::TakenOver {
                path,
                by: by.clone(),
            },
            Some(Lost::Failed(words)) => LogError::Unusable {
                path,
                cause: words.clone(),
            },
            None => LogError::Unusable {
                path,
                cause: "it is closed".into(),
            },
        }
    }
}
