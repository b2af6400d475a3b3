//! The index from each `Idempotency-Key` to its batch.
//!
//! The table is written with INTENT, and its rows are forgotten with the batch. A log of an older version has none, and
//! the table is out of date if an older version has written to the log since. In both cases it is rebuilt when the log
//! is opened.

use std::borrow::Cow;

use redb::{
    Database, ReadableDatabase, ReadableTable, Table, TableDefinition, TableError, WriteTransaction,
};
use serde::Deserialize;

use super::LINES;
use crate::batch::log::BatchId;

/// Fingerprint of caller and key → the last batch that began with it.
const KEYS: TableDefinition<'_, &str, u128> = TableDefinition::new("keys");
/// The row with the latest batch that the table covers. No fingerprint is empty.
const LATEST: &str = "";

/// The table of keys within one transaction.
pub(super) struct Keys<'t> {
    table: Table<'t, &'static str, u128>,
    /// The latest batch that began in this transaction; `None` if none did.
    latest: Option<u128>,
}

impl<'t> Keys<'t> {
    pub(super) fn open(transaction: &'t WriteTransaction) -> Result<Self, redb::Error> {
        Ok(Self {
            table: transaction.open_table(KEYS)?,
            latest: None,
        })
    }

    /// Adds a batch that begins.
    pub(super) fn begin(&mut self, id: u128, key: Option<&str>) -> Result<(), redb::Error> {
        if let Some(key) = key {
            self.table.insert(key, id)?;
        }
        self.latest = self.latest.max(Some(id));
        Ok(())
    }

    /// Removes the key of a batch that is forgotten, unless a later batch began with the same key. `line` is the first
    /// line of the batch.
    pub(super) fn forget(&mut self, id: u128, line: &[u8]) -> Result<(), redb::Error> {
        let Some(key) = key_in(line) else {
            return Ok(());
        };
        let of = self.table.get(&*key)?.map(|of| of.value());
        if of == Some(id) {
            self.table.remove(&*key)?;
        }
        Ok(())
    }

    /// Updates the latest batch. Must be called at the end of the transaction.
    pub(super) fn finish(mut self) -> Result<(), redb::Error> {
        let before = self.table.get(LATEST)?.map(|latest| latest.value());
        match self.latest {
            Some(latest) if Some(latest) > before => {
                self.table.insert(LATEST, latest)?;
            }
            _ => {}
        }
        Ok(())
    }
}

/// Rebuilds the table if it does not hold the keys of all batches.
pub(super) fn complete(transaction: &WriteTransaction) -> Result<(), redb::Error> {
    let lines = transaction.open_table(LINES)?;
    let mut keys = Keys::open(transaction)?;
    let latest = lines.last()?.map(|(line, _)| line.value().0);
    let complete_to = keys.table.get(LATEST)?.map(|latest| latest.value());
    if latest <= complete_to {
        return Ok(());
    }
    keys.table.retain(|_, _| false)?;
    for line in lines.iter()? {
        let (place, line) = line?;
        if let (id, 0) = place.value() {
            keys.begin(id, key_in(line.value()).as_deref())?;
        }
    }
    keys.finish()
}

/// Finds the last batch that began with a key.
pub(super) fn find(database: &Database, key: &str) -> Result<Option<BatchId>, redb::Error> {
    let table = match database.begin_read()?.open_table(KEYS) {
        Ok(table) => table,
        Err(TableError::TableDoesNotExist(_)) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let id = table.get(key)?.map(|id| id.value());
    Ok(id.map(BatchId::from_u128))
}

/// Returns the key in the line of an INTENT. A line that is not an INTENT is detected when the whole log is read.
fn key_in(line: &[u8]) -> Option<Cow<'_, str>> {
    #[derive(Deserialize)]
    struct IntentLine<'a> {
        #[serde(rename = "Intent", borrow)]
        intent: Key<'a>,
    }
    #[derive(Deserialize)]
    struct Key<'a> {
        #[serde(borrow)]
        idempotency: Option<Cow<'a, str>>,
    }
    let line: IntentLine<'_> = serde_json::from_slice(line).ok()?;
    line.intent.idempotency
}
