//! Which batch was begun with which `Idempotency-Key`.
//!
//! The table is written with INTENT and forgotten with the batch. A log of an older version has none, and where an older
//! version has written to the log since, it is out of date: then it is made anew when the log is opened.

use std::borrow::Cow;

use redb::{
    Database, ReadableDatabase, ReadableTable, Table, TableDefinition, TableError, WriteTransaction,
};
use serde::Deserialize;

use super::LINES;
use crate::batch::log::BatchId;

/// Fingerprint of caller and key → the batch that was begun with it last.
const KEYS: TableDefinition<'_, &str, u128> = TableDefinition::new("keys");
/// The row with the latest batch whose key, if it has one, is in the table. No fingerprint is empty.
const LATEST: &str = "";

/// The keys within one transaction.
pub(super) struct Keys<'t> {
    table: Table<'t, &'static str, u128>,
    /// The latest batch that began in this transaction.
    latest: Option<u128>,
}

impl<'t> Keys<'t> {
    pub(super) fn open(transaction: &'t WriteTransaction) -> Result<Self, redb::Error> {
        Ok(Self {
            table: transaction.open_table(KEYS)?,
            latest: None,
        })
    }

    /// A batch begins.
    pub(super) fn begin(&mut self, id: u128, key: Option<&str>) -> Result<(), redb::Error> {
        if let Some(key) = key {
            self.table.insert(key, id)?;
        }
        self.latest = self.latest.max(Some(id));
        Ok(())
    }

    /// A batch is forgotten, and its key with it unless a later one was begun with it. `line`: its first.
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

    /// To be called at the end of the transaction.
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

/// Makes the table anew where it does not have the keys of all batches.
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

/// Finds the batch that was begun last with a key.
pub(super) fn find(database: &Database, key: &str) -> Result<Option<BatchId>, redb::Error> {
    let table = match database.begin_read()?.open_table(KEYS) {
        Ok(table) => table,
        Err(TableError::TableDoesNotExist(_)) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let id = table.get(key)?.map(|id| id.value());
    Ok(id.map(BatchId::from_u128))
}

/// The key in the line of an INTENT. What is no such line is found when the whole log is read.
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
