//! The index of the batches that have not ended, so that a start reads these and not the whole log.
//!
//! The table is written with INTENT and with the end. A log of an older version has none, and the table lacks batches if
//! an older version has written to the log since. In both cases it is rebuilt when the log is opened.

use redb::{Database, ReadableDatabase, ReadableTable, Table, TableDefinition, WriteTransaction};

use super::{ENDED, LINES};

/// Batch → itself; the row [`LATEST`] → the latest batch that the table covers.
const UNFINISHED: TableDefinition<'_, u128, u128> = TableDefinition::new("unfinished");
/// The row with the latest batch that the table covers. No batch has the nil id.
const LATEST: u128 = 0;

/// The table of unfinished batches within one transaction.
pub(super) struct Unfinished<'t> {
    table: Table<'t, u128, u128>,
    /// The latest batch that began in this transaction; `None` if none did.
    latest: Option<u128>,
}

impl<'t> Unfinished<'t> {
    pub(super) fn open(transaction: &'t WriteTransaction) -> Result<Self, redb::Error> {
        Ok(Self {
            table: transaction.open_table(UNFINISHED)?,
            latest: None,
        })
    }

    /// Adds a batch that begins.
    pub(super) fn begin(&mut self, id: u128) -> Result<(), redb::Error> {
        self.table.insert(id, id)?;
        self.latest = self.latest.max(Some(id));
        Ok(())
    }

    /// Removes a batch that ends or is forgotten.
    pub(super) fn end(&mut self, id: u128) -> Result<(), redb::Error> {
        self.table.remove(id)?;
        Ok(())
    }

    /// Updates the latest batch. Must be called at the end of the transaction.
    pub(super) fn finish(mut self) -> Result<(), redb::Error> {
        let before = self.covered()?;
        match self.latest {
            Some(latest) if Some(latest) > before => {
                self.table.insert(LATEST, latest)?;
            }
            _ => {}
        }
        Ok(())
    }

    fn covered(&self) -> Result<Option<u128>, redb::Error> {
        Ok(self.table.get(LATEST)?.map(|latest| latest.value()))
    }
}

/// Rebuilds the table if it does not cover all batches.
pub(super) fn complete(transaction: &WriteTransaction) -> Result<(), redb::Error> {
    let lines = transaction.open_table(LINES)?;
    let mut unfinished = Unfinished::open(transaction)?;
    let latest = lines.last()?.map(|(line, _)| line.value().0);
    if latest <= unfinished.covered()? {
        return Ok(());
    }
    unfinished.table.retain(|_, _| false)?;
    for line in lines.iter()? {
        if let (id, 0) = line?.0.value() {
            unfinished.begin(id)?;
        }
    }
    for row in transaction.open_table(ENDED)?.iter()? {
        let (_, id) = row?.0.value();
        unfinished.end(id)?;
    }
    unfinished.finish()
}

/// Returns the first unfinished batch; `None` if all have ended.
pub(super) fn first(database: &Database) -> Result<Option<u128>, redb::Error> {
    let table = database.begin_read()?.open_table(UNFINISHED)?;
    let first = table.range(LATEST + 1..)?.next().transpose()?;
    Ok(first.map(|(id, _)| id.value()))
}
