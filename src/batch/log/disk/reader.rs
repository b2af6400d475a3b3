//! Reads the whole log, or one batch.

use redb::{Database, Range, ReadOnlyTable, ReadableDatabase, ReadableTable};
use tokio::sync::mpsc;

use super::{LINES, PAGE, keys, unfinished};
use crate::batch::log::{BatchId, Line, Record, cause_of_unread, replay};

type Lines = ReadOnlyTable<(u128, u32), &'static [u8]>;

fn lines(database: &Database) -> Result<Lines, redb::Error> {
    Ok(database.begin_read()?.open_table(LINES)?)
}

/// Finds one batch.
pub(super) fn find(database: &Database, id: BatchId) -> Result<Option<Record>, String> {
    let table = lines(database).map_err(|error| error.to_string())?;
    let of_batch = (id.as_u128(), 0)..=(id.as_u128(), u32::MAX);
    let mut batch: Vec<Line> = Vec::new();
    let lines = table.range(of_batch).map_err(|error| error.to_string())?;
    for line in lines {
        let (_, value) = line.map_err(|error| error.to_string())?;
        let line = Line::from_bytes(value.value());
        batch.push(line.map_err(|error| cause_of_unread(id, &error))?);
    }
    if batch.is_empty() {
        return Ok(None);
    }
    replay(id, batch).map(Some)
}

/// Finds the last batch that began with a key.
pub(super) fn find_by_key(database: &Database, key: &str) -> Result<Option<Record>, String> {
    match keys::find(database, key).map_err(|error| error.to_string())? {
        Some(id) => find(database, id),
        None => Ok(None),
    }
}

/// Reads the whole log in pages. The receiver may be slower, and may be dropped.
pub(super) fn all(database: &Database, pages: &mpsc::Sender<Vec<Record>>) -> Result<(), String> {
    let table = lines(database).map_err(|error| error.to_string())?;
    let lines = table.iter().map_err(|error| error.to_string())?;
    read(lines, pages)
}

/// Reads every batch from the first unfinished one on, and the last one.
pub(super) fn needed(database: &Database, pages: &mpsc::Sender<Vec<Record>>) -> Result<(), String> {
    let text = |error: redb::Error| error.to_string();
    let table = lines(database).map_err(text)?;
    let last = table.last().map_err(|error| error.to_string())?;
    let Some(last) = last.map(|(line, _)| line.value().0) else {
        return Ok(());
    };
    let first = unfinished::first(database).map_err(text)?;
    let lines = table.range((first.unwrap_or(last), 0)..);
    read(lines.map_err(|error| error.to_string())?, pages)
}

fn read(
    lines: Range<'_, (u128, u32), &'static [u8]>,
    pages: &mpsc::Sender<Vec<Record>>,
) -> Result<(), String> {
    let mut page = Vec::with_capacity(PAGE);
    let mut batch: Vec<Line> = Vec::new();
    let mut of = None;
    for line in lines {
        let (key, value) = line.map_err(|error| error.to_string())?;
        let id = BatchId::from_u128(key.value().0);
        if let Some(before) = of.replace(id)
            && before != id
        {
            page.push(replay(before, batch.drain(..))?);
        }
        let line = Line::from_bytes(value.value());
        batch.push(line.map_err(|error| cause_of_unread(id, &error))?);
        if page.len() == PAGE {
            let whole = std::mem::replace(&mut page, Vec::with_capacity(PAGE));
            if pages.blocking_send(whole).is_err() {
                return Ok(());
            }
        }
    }
    if let Some(last) = of {
        page.push(replay(last, batch)?);
    }
    // A receiver that was dropped no longer needs the page.
    let _ = pages.blocking_send(page);
    Ok(())
}
