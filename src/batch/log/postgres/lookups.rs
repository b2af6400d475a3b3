//! The lookups of batches in the log, one at a time or page by page.

use tokio::sync::oneshot;
use tokio::time::{Instant, timeout};

use super::PostgresLog;
use super::reader::{Lookup, PAGE_SIZE, PATIENCE, RawBatch, Wanted};
use crate::batch::log::{BatchId, LogError, Record};

impl PostgresLog {
    /// Asks the reader.
    async fn look_up(&self, what: Wanted) -> Result<Vec<RawBatch>, LogError> {
        let lookups = self.open_queues()?.lookups;
        let (done, found) = oneshot::channel();
        let until = Instant::now() + PATIENCE;
        let sent = lookups.send(Lookup { what, until, done }).await;
        sent.map_err(|_| self.to_error())?;
        let found = found.await.map_err(|_| self.to_error())?;
        found.map_err(|cause| self.away(cause))
    }

    /// Calls `each` with the batches of all pages. Returns the last one's id.
    pub(super) async fn pages(
        &self,
        after: impl Fn(BatchId) -> Wanted,
        each: &mut (dyn FnMut(Record) + Send),
    ) -> Result<BatchId, LogError> {
        let mut read = BatchId::nil();
        loop {
            let page = self.look_up(after(read)).await?;
            let is_last = page.len() < PAGE_SIZE;
            for batch in page {
                read = batch.id();
                each(batch.record().map_err(|cause| self.unreadable(cause))?);
            }
            if is_last {
                return Ok(read);
            }
        }
    }

    /// Does what [`Self::look_up_one`] does, for [`PATIENCE`] at most: a client waits for it.
    pub(super) async fn look_up_soon(&self, what: Wanted) -> Result<Option<Record>, LogError> {
        let found = timeout(PATIENCE, self.look_up_one(what)).await;
        found.unwrap_or_else(|_| Err(self.away("it has not answered in time".to_owned())))
    }

    /// Returns the batch, or the last of several.
    pub(super) async fn look_up_one(&self, what: Wanted) -> Result<Option<Record>, LogError> {
        let found = self.look_up(what).await?.pop().map(RawBatch::record);
        found.transpose().map_err(|cause| self.unreadable(cause))
    }
}
