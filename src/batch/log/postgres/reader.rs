//! Reads single batches, and the whole log in pages.

use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, sleep};
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use super::link::Link;
use crate::batch::log::{BatchId, Line, Record, cause_of_unread, replay};

/// The columns of a batch: its id, and its lines in an order that they can have in a file.
macro_rules! select {
    ($rest:literal) => {
        concat!(
            "SELECT b.id, b.intent, b.body, b.ended,
             ARRAY(SELECT said FROM resolution WHERE batch = b.id ORDER BY n),
             ARRAY(SELECT settled FROM entry WHERE batch = b.id AND settled IS NOT NULL ORDER BY n)
             FROM batch b ",
            $rest
        )
    };
}

const FIND: &str = select!("WHERE b.id = $1");
const FIND_BY_KEY: &str = select!("WHERE b.key = $1 ORDER BY b.id DESC LIMIT 1");
const PAGE: &str = select!("WHERE b.id > $1 ORDER BY b.id LIMIT $2");
const OPEN_PAGE: &str = select!("WHERE b.ended IS NULL AND b.id > $1 ORDER BY b.id LIMIT $2");
const LAST: &str = select!("ORDER BY b.id DESC LIMIT 1");
/// The number of batches in one page of a scan.
pub(super) const PAGE_SIZE: usize = 256;
/// The time after which no other try begins, and the pause between two tries. One that is under way may take longer.
pub(super) const PATIENCE: Duration = Duration::from_secs(5);
const PAUSE: Duration = Duration::from_millis(100);

/// A request for batches.
pub(super) struct Lookup {
    pub(super) what: Wanted,
    /// The time until which it is tried again. It is always tried once.
    pub(super) until: Instant,
    /// Gets the batches, or the cause why they cannot be read.
    pub(super) done: oneshot::Sender<Result<Vec<RawBatch>, String>>,
}

pub(super) enum Wanted {
    Id(BatchId),
    Key(String),
    /// The batches after this one.
    PageAfter(BatchId),
    /// The batches after this one that have not ended.
    OpenAfter(BatchId),
    /// The batch that began last.
    Last,
}

/// A batch that is not parsed yet.
pub(super) struct RawBatch {
    id: BatchId,
    intent: Vec<u8>,
    body: Option<Vec<u8>>,
    ended: Option<i64>,
    resolutions: Vec<Vec<u8>>,
    settled: Vec<Vec<u8>>,
}

/// Answers lookups until the queue is closed.
pub(super) async fn read_all(mut link: Link, mut queue: mpsc::Receiver<Lookup>) {
    while let Some(Lookup { what, until, done }) = queue.recv().await {
        if !done.is_closed() {
            // A receiver that was dropped no longer needs the answer.
            let _ = done.send(read(&mut link, &what, until).await);
        }
    }
}

async fn read(link: &mut Link, what: &Wanted, until: Instant) -> Result<Vec<RawBatch>, String> {
    let page: &(dyn ToSql + Sync) = &(PAGE_SIZE as i64);
    loop {
        let rows = match what {
            Wanted::Id(id) => link.query(FIND, &[id]).await,
            Wanted::Key(key) => link.query(FIND_BY_KEY, &[key]).await,
            Wanted::PageAfter(id) => link.query(PAGE, &[id, page]).await,
            Wanted::OpenAfter(id) => link.query(OPEN_PAGE, &[id, page]).await,
            Wanted::Last => link.query(LAST, &[]).await,
        };
        match rows {
            Ok(rows) => return Ok(rows.iter().map(RawBatch::of).collect()),
            Err(trouble) if Instant::now() > until => return Err(trouble.explained()),
            Err(_) => sleep(PAUSE).await,
        }
    }
}

impl RawBatch {
    fn of(row: &Row) -> Self {
        Self {
            id: row.get(0),
            intent: row.get(1),
            body: row.get(2),
            ended: row.get(3),
            resolutions: row.get(4),
            settled: row.get(5),
        }
    }

    pub(super) fn id(&self) -> BatchId {
        self.id
    }

    /// Combines the lines of the batch.
    pub(super) fn record(self) -> Result<Record, String> {
        let mut lines = Vec::with_capacity(3 + self.settled.len());
        let before = std::iter::once(self.intent).chain(self.resolutions);
        for line in before.chain(self.body).chain(self.settled) {
            let line = Line::from_bytes(&line);
            lines.push(line.map_err(|error| cause_of_unread(self.id, &error))?);
        }
        lines.extend(self.ended.map(|at| Line::End(at.unsigned_abs())));
        replay(self.id, lines)
    }
}
