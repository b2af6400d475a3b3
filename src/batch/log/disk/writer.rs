//! The writer thread: takes the waiting writes, commits them in one transaction, and answers them.

use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use redb::{Database, ReadableTable, Table};
use tokio::sync::oneshot;

use super::keys::Keys;
use super::mark::LogMarker;
use super::unfinished::Unfinished;
use super::{ENDED, LINES};
use crate::batch::log::{BatchId, Line};
use crate::batch::step::Decision;

/// The largest number of writes that share one fsync.
const GROUP: usize = 1024;
/// The largest number of batches that are forgotten in one write, so that other writes do not wait long.
const FORGOTTEN: usize = 1000;

/// The time for which an end waits for another write to share its fsync with. No request waits for an end, and a batch
/// without one is only checked once more at the next start.
pub(super) const LINGER: Duration = Duration::from_millis(20);

type Lines<'t> = Table<'t, (u128, u32), &'static [u8]>;
type Ended<'t> = Table<'t, (u64, u128), ()>;

/// One write, and the channel for its answer.
pub(super) struct Write {
    pub(super) id: BatchId,
    pub(super) what: WriteKind,
    pub(super) done: oneshot::Sender<Answer>,
}

impl Write {
    fn is_end(&self) -> bool {
        matches!(self.what, WriteKind::Line(Line::End(_)))
    }
}

pub(super) enum WriteKind {
    Line(Line),
    /// Forgets some of the batches that ended before `before`.
    Forget {
        before: u64,
    },
    /// Ends the writer after this group.
    Close,
}

/// The answer to a durable write.
#[derive(Default)]
pub(super) struct Answer {
    /// The decision that was in the log before this one; `None` if there was none.
    pub(super) standing: Option<Decision>,
    /// True if more batches can be forgotten.
    pub(super) has_more: bool,
}

/// Writes until the log is closed or dropped, or until a write fails.
pub(super) fn write_all(
    database: &Database,
    queue: &Receiver<Write>,
    mut marker: Option<LogMarker>,
    linger: Duration,
) -> Result<(), redb::Error> {
    let mut closes = false;
    while !closes {
        let next = match marker.as_ref().and_then(LogMarker::due) {
            Some(wait) => queue.recv_timeout(wait),
            None => queue.recv().map_err(RecvTimeoutError::from),
        };
        match next {
            Ok(first) => {
                let group = gather(first, queue, linger);
                closes = group
                    .iter()
                    .any(|write| matches!(write.what, WriteKind::Close));
                write(database, group, marker.as_mut())?;
            }
            Err(RecvTimeoutError::Timeout) => write(database, Vec::new(), marker.as_mut())?,
            Err(RecvTimeoutError::Disconnected) => closes = true,
        }
    }
    match marker {
        Some(mut marker) if marker.due().is_some() => {
            write(database, Vec::new(), Some(&mut marker))
        }
        _ => Ok(()),
    }
}

/// Collects a group: the writes that already wait, and, as long as all of them are ends, also those that arrive soon.
fn gather(first: Write, queue: &Receiver<Write>, linger: Duration) -> Vec<Write> {
    let until = Instant::now() + linger;
    let mut group = vec![first];
    group.extend(queue.try_iter().take(GROUP - 1));
    while group.len() < GROUP && group.iter().all(Write::is_end) {
        match queue.recv_timeout(until.saturating_duration_since(Instant::now())) {
            Ok(next) => group.push(next),
            Err(_) => break,
        }
        group.extend(queue.try_iter().take(GROUP - group.len()));
    }
    group
}

/// Writes a group in one transaction. With an empty group, it only updates the count.
fn write(
    database: &Database,
    group: Vec<Write>,
    mut marker: Option<&mut LogMarker>,
) -> Result<(), redb::Error> {
    let mut answers = Vec::with_capacity(group.len());
    let mut writes_lines = false;
    let transaction = database.begin_write()?;
    {
        let mut lines = transaction.open_table(LINES)?;
        let mut ended = transaction.open_table(ENDED)?;
        let mut keys = Keys::open(&transaction)?;
        let mut unfinished = Unfinished::open(&transaction)?;
        for Write { id, what, done } in group {
            let answer = match what {
                WriteKind::Line(line) => {
                    writes_lines = true;
                    match &line {
                        Line::Intent(intent) => {
                            keys.begin(id.as_u128(), intent.idempotency.as_deref())?;
                            unfinished.begin(id.as_u128())?;
                        }
                        Line::End(_) => unfinished.end(id.as_u128())?,
                        _ => {}
                    }
                    let standing = append(&mut lines, &mut ended, id.as_u128(), &line)?;
                    Answer {
                        standing,
                        has_more: false,
                    }
                }
                WriteKind::Close => Answer::default(),
                WriteKind::Forget { before } => Answer {
                    standing: None,
                    has_more: forget(&mut lines, &mut ended, &mut keys, before)?,
                },
            };
            answers.push((done, answer));
        }
        keys.finish()?;
        unfinished.finish()?;
    }
    let counted = match &mut marker {
        Some(marker) => marker.count(&transaction, writes_lines)?,
        None => false,
    };
    transaction.commit()?;
    for (done, answer) in answers {
        // The write is durable even if its request was dropped.
        let _ = done.send(answer);
    }
    if let Some(marker) = marker.filter(|_| counted) {
        marker.counted()?;
    }
    Ok(())
}

/// Appends a line. Does not append a second decision: returns the first one instead. Skips notes about a batch that has
/// ended or is forgotten.
fn append(
    lines: &mut Lines<'_>,
    ended: &mut Ended<'_>,
    id: u128,
    line: &Line,
) -> Result<Option<Decision>, redb::Error> {
    if matches!(line, Line::Verdict(_)) {
        for earlier in lines.range((id, 0)..=(id, u32::MAX))? {
            let (_, earlier) = earlier?;
            if let Ok(Line::Verdict(verdict)) = Line::from_bytes(earlier.value()) {
                return Ok(Some(verdict.decision()));
            }
        }
    }
    let last = lines.range((id, 0)..=(id, u32::MAX))?.next_back();
    let (number, over) = match last.transpose()? {
        Some((key, last)) => {
            let ended = || matches!(Line::from_bytes(last.value()), Ok(Line::End(_)));
            (key.value().1 + 1, matches!(line, Line::Note(..)) && ended())
        }
        None => (0, matches!(line, Line::Note(..))),
    };
    if over {
        return Ok(None);
    }
    let bytes = line
        .to_bytes()
        .map_err(|error| redb::Error::Io(error.into()))?;
    lines.insert((id, number), bytes.as_slice())?;
    if let Line::End(at) = line {
        ended.insert((*at, id), ())?;
    }
    Ok(None)
}

/// Forgets some batches that ended before `before`, the oldest first. Returns true if there may be more.
fn forget(
    lines: &mut Lines<'_>,
    ended: &mut Ended<'_>,
    keys: &mut Keys<'_>,
    before: u64,
) -> Result<bool, redb::Error> {
    let mut old = Vec::new();
    for entry in ended.range(..(before, 0))?.take(FORGOTTEN) {
        old.push(entry?.0.value());
    }
    for (at, id) in &old {
        ended.remove((*at, *id))?;
        if let Some(first) = lines.get((*id, 0))? {
            keys.forget(*id, first.value())?;
        }
        lines.retain_in((*id, 0)..=(*id, u32::MAX), |_, _| false)?;
    }
    Ok(old.len() == FORGOTTEN)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that panics fails")]

    use std::sync::mpsc::sync_channel;

    use super::*;

    /// A time that is longer than any test runs.
    const LONG: Duration = Duration::from_secs(3600);

    fn write(what: WriteKind) -> Write {
        let (done, _) = oneshot::channel();
        let id = BatchId::nil();
        Write { id, what, done }
    }

    fn end() -> Write {
        write(WriteKind::Line(Line::End(1)))
    }

    fn close() -> Write {
        write(WriteKind::Close)
    }

    #[test]
    fn an_end_goes_with_what_comes_next() {
        let (writes, queue) = sync_channel(9);
        writes.send(end()).unwrap();
        let later = std::thread::spawn(move || {
            writes.send(end()).unwrap();
            writes.send(close()).unwrap();
            writes
        });
        assert_eq!(gather(end(), &queue, LONG).len(), 4);
        assert_eq!(gather(end(), &queue, Duration::ZERO).len(), 1);
        drop(later.join().unwrap());
        assert_eq!(
            gather(end(), &queue, LONG).len(),
            1,
            "nothing comes any more"
        );
    }

    #[test]
    fn what_somebody_waits_for_waits_for_nothing() {
        let (writes, queue) = sync_channel(GROUP);
        assert_eq!(gather(close(), &queue, LONG).len(), 1);
        writes.send(end()).unwrap();
        assert_eq!(gather(close(), &queue, LONG).len(), 2);
        for _ in 0..GROUP {
            writes.send(end()).unwrap();
        }
        assert_eq!(gather(end(), &queue, LONG).len(), GROUP);
    }
}
