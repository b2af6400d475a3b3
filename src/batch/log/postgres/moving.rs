//! Opens, marks and empties a log in PostgreSQL for `nsgate log move`; no gateway does that.

use std::sync::Arc;
use std::time::Duration;

use super::PostgresLog;
use super::connect::Connector;
use super::link::Link;
use super::outage_report::Outage;
use super::thread::{self, Use};
use super::writer::{Answer, WriteKind};
use crate::batch::log::move_note::MoveNote;
use crate::batch::log::{BatchId, LogError};
use crate::config::PostgresLogConfig;

impl PostgresLog {
    /// Opens the log for a move, which no gateway may use meanwhile. Waits just long enough to see whether one does.
    /// `accepts` is the only note that the log may have.
    ///
    /// # Errors
    /// As for [`open`](Self::open).
    pub(in crate::batch::log) async fn open_to_move(
        config: &PostgresLogConfig,
        name: &str,
        accepts: Option<&MoveNote>,
    ) -> Result<Self, LogError> {
        let usage = Use::Alone {
            patience: Duration::ZERO,
            accepts: accepts.map(ToString::to_string),
        };
        let started = thread::start(config, name, usage, None, Box::new(|_| {})).await;
        started.map(|(log, _)| log)
    }

    /// Writes where the batches are; `None` if they are in this log. No gateway uses it while it has a note.
    pub(in crate::batch::log) async fn put_note(
        &self,
        note: Option<&MoveNote>,
    ) -> Result<(), LogError> {
        let write = WriteKind::Moved(note.map(ToString::to_string));
        self.write(BatchId::nil(), write).await.map(drop)
    }

    /// Removes all batches.
    pub(in crate::batch::log) async fn clear(&self) -> Result<(), LogError> {
        let clear = || self.write(BatchId::nil(), WriteKind::Clear);
        while clear().await? == Answer::HasMore(true) {}
        Ok(())
    }
}

/// Reads where the batches of a log are; `None` if they are in it, or if it cannot be read.
pub(in crate::batch::log) async fn note(config: &PostgresLogConfig) -> Option<MoveNote> {
    let connector = Connector::new(config, None, Arc::default()).ok()?;
    let outage = Arc::new(Outage::new(&config.address));
    let mut link = Link::new(Arc::new(connector), outage);
    let rows = link.query("SELECT moved FROM log", &[]).await.ok()?;
    let words: Option<String> = rows.first()?.get(0);
    MoveNote::parse(&words?)
}
