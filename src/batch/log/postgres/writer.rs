//! Writes groups to the server, each in one call, which is one transaction and one sync, and repeats a write whose
//! answer was lost.
//!
//! Whether a write whose answer was lost is in the log is found out by writing it again: each is idempotent, and waits
//! in the server for the first try, if that still runs. A first try that arrives later is refused by its number.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, sleep, timeout_at};
use uuid::Uuid;

use super::cause::Trouble;
use super::fence::Fence;
use super::link::Link;
use crate::batch::log::{BatchId, Line};
use crate::batch::step::Decision;

/// The largest number of writes that share one transaction.
const GROUP: usize = 256;
/// The time for which an end waits for another write to share its transaction with; see the log on disk.
const LINGER: Duration = Duration::from_millis(20);
/// The shortest and the longest pause before a group is written again.
const PAUSES: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(1));
/// The largest number of batches that are forgotten in one transaction.
const FORGOTTEN: i64 = 1000;

/// Removes some batches of the log that this process owns. Returns whether it does, and how many there were.
const CLEAR: &str = "WITH mine AS (SELECT FROM log WHERE owner = $1 AND fence = $2 FOR UPDATE),
    part AS (SELECT id FROM batch, mine LIMIT $3),
    settled AS (DELETE FROM entry USING part WHERE batch = part.id),
    said AS (DELETE FROM resolution USING part WHERE batch = part.id),
    gone AS (DELETE FROM batch USING part WHERE batch.id = part.id RETURNING 1)
    SELECT EXISTS (SELECT FROM mine), (SELECT count(*) FROM gone)";

/// One write, and the channel for its answer.
pub(super) struct Write {
    pub(super) id: BatchId,
    pub(super) what: WriteKind,
    pub(super) done: oneshot::Sender<Answer>,
    /// The channel on which to say that an INTENT that nobody waited for is not in the log; `None` for other writes.
    pub(super) gone: Option<oneshot::Sender<()>>,
}

pub(super) enum WriteKind {
    Line(Line),
    /// Records that a delete of this entry may leave.
    Sending(usize),
    /// Removes an INTENT that nobody waited for: nothing was sent for it.
    Withdraw,
    /// Forgets some of the batches that ended before `before`.
    Forget {
        before: u64,
    },
    /// Says where the batches of this log are; `None` if they are here.
    Moved(Option<String>),
    /// Removes some of the batches, ended or not.
    Clear,
}

/// The answer to a durable write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    Written,
    /// The decision that is in the log.
    Decision(Decision),
    /// The batch is not in the log.
    Unknown,
    /// True if more batches can be forgotten.
    HasMore(bool),
}

/// Writes what comes through one queue.
pub(super) struct Writer {
    /// The number of this writer, and of its last try.
    number: i32,
    tries: i64,
    link: Link,
    fence: Arc<Fence>,
    queue: mpsc::Receiver<Write>,
    /// The writes that come before those in the queue.
    first: Vec<Write>,
    /// A write that needs a transaction of its own, and comes after `first`.
    alone: Option<Write>,
}

/// The writes of a group as columns.
#[derive(Default)]
struct Columns {
    kinds: Vec<&'static str>,
    ids: Vec<Uuid>,
    numbers: Vec<Option<i64>>,
    lines: Vec<Option<Vec<u8>>>,
    keys: Vec<Option<String>>,
}

/// The reason why a group was not written.
enum Failed {
    /// Another process owns the log.
    Fenced,
    /// No answer: it is unknown whether the group is in the log.
    Unanswered,
    /// A line cannot be spelled as JSON.
    Unspelled(String),
}

impl From<Trouble> for Failed {
    /// The link has told what the trouble is.
    fn from(_: Trouble) -> Self {
        Self::Unanswered
    }
}

impl Write {
    fn is_intent(&self) -> bool {
        matches!(self.what, WriteKind::Line(Line::Intent(_)))
    }

    fn is_end(&self) -> bool {
        matches!(self.what, WriteKind::Line(Line::End(_)))
    }

    fn is_alone(&self) -> bool {
        matches!(
            self.what,
            WriteKind::Forget { .. } | WriteKind::Moved(_) | WriteKind::Clear
        )
    }
}

impl Writer {
    pub(super) fn new(
        number: i32,
        link: Link,
        fence: Arc<Fence>,
        queue: mpsc::Receiver<Write>,
    ) -> Self {
        Self {
            number,
            tries: 0,
            link,
            fence,
            queue,
            first: Vec::new(),
            alone: None,
        }
    }

    /// Writes until the queue is closed and empty, or until another process owns the log.
    pub(super) async fn run(mut self) {
        while let Some(group) = self.gather().await {
            if !self.write(group).await {
                return;
            }
        }
    }

    /// Collects a group: the writes that already wait, and, as long as all of them are ends, also those that arrive
    /// soon. Returns `None` if nothing will come any more.
    async fn gather(&mut self) -> Option<Vec<Write>> {
        let mut group = std::mem::take(&mut self.first);
        if group.is_empty() {
            match self.alone.take() {
                Some(alone) => return Some(vec![alone]),
                None => group.push(self.queue.recv().await?),
            }
        }
        let until = Instant::now() + LINGER;
        while group.len() < GROUP && self.alone.is_none() && !group[0].is_alone() {
            let next = match self.queue.try_recv() {
                Ok(next) => next,
                Err(_) if group.iter().all(Write::is_end) => {
                    match timeout_at(until, self.queue.recv()).await {
                        Ok(Some(next)) => next,
                        _ => break,
                    }
                }
                Err(_) => break,
            };
            if next.is_alone() {
                self.alone = Some(next);
            } else {
                group.push(next);
            }
        }
        Some(group)
    }

    /// Writes a group, however often it has to try. Returns false if another process owns the log.
    async fn write(&mut self, mut group: Vec<Write>) -> bool {
        let (mut pause, longest) = PAUSES;
        let mut is_first = true;
        loop {
            give_up_abandoned(&mut group, is_first);
            if group.is_empty() {
                return true;
            }
            let failed = match self.attempt(&group).await {
                Ok(answers) => {
                    self.answer(group, &answers);
                    return true;
                }
                Err(failed) => failed,
            };
            is_first = false;
            match failed {
                Failed::Fenced => {
                    let successor = super::owner::successor(&mut self.link).await;
                    self.fence.taken_over(&successor);
                    return false;
                }
                Failed::Unspelled(words) => {
                    self.fence.failed(&words);
                    return false;
                }
                Failed::Unanswered => {}
            }
            sleep(pause).await;
            pause = (pause * 2).min(longest);
        }
    }

    async fn attempt(&mut self, group: &[Write]) -> Result<Vec<Answer>, Failed> {
        let (me, fence) = (self.fence.me(), self.fence.number());
        if let [write] = group {
            match &write.what {
                WriteKind::Forget { before } => {
                    let before = i64::try_from(*before).unwrap_or(i64::MAX);
                    let sql = "SELECT forget_1($1, $2, $3, $4)";
                    let rows = self
                        .link
                        .query(sql, &[&me, &fence, &before, &FORGOTTEN])
                        .await?;
                    let more: Option<bool> = rows.first().and_then(|row| row.get(0));
                    return Ok(vec![Answer::HasMore(more.ok_or(Failed::Fenced)?)]);
                }
                WriteKind::Clear => {
                    let rows = self.link.query(CLEAR, &[&me, &fence, &FORGOTTEN]).await?;
                    let owns = rows.first().is_some_and(|row| row.get(0));
                    let removed: i64 = rows.first().map_or(0, |row| row.get(1));
                    return if owns {
                        Ok(vec![Answer::HasMore(removed > 0)])
                    } else {
                        Err(Failed::Fenced)
                    };
                }
                WriteKind::Moved(words) => {
                    let sql =
                        "UPDATE log SET moved = $3 WHERE owner = $1 AND fence = $2 RETURNING fence";
                    let rows = self.link.write(sql, &[&me, &fence, words]).await?;
                    rows.first().ok_or(Failed::Fenced)?;
                    return Ok(vec![Answer::Written]);
                }
                _ => {}
            }
        }
        let columns = Columns::of(group).map_err(Failed::Unspelled)?;
        self.tries += 1;
        let rows = self
            .link
            .write(
                "SELECT write_1($1, $2, $3, $4, $5, $6, $7, $8, $9)",
                &[
                    &me,
                    &fence,
                    &self.number,
                    &self.tries,
                    &columns.kinds,
                    &columns.ids,
                    &columns.numbers,
                    &columns.lines,
                    &columns.keys,
                ],
            )
            .await?;
        let letters: Option<String> = rows.first().and_then(|row| row.get(0));
        let letters = letters.ok_or(Failed::Fenced)?;
        Ok(letters
            .chars()
            .map(|letter| match letter {
                'c' => Answer::Decision(Decision::Commit),
                'a' => Answer::Decision(Decision::Abort),
                '?' => Answer::Unknown,
                _ => Answer::Written,
            })
            .collect())
    }

    /// Answers a durable group. An INTENT that nobody waits for any more is taken back.
    fn answer(&mut self, group: Vec<Write>, answers: &[Answer]) {
        for (mut write, answer) in group.into_iter().zip(answers) {
            let (id, is_intent) = (write.id, write.is_intent());
            let gone = write.gone.take();
            if !is_intent {
                say_gone(gone);
                let _ = write.done.send(*answer);
            } else if write.done.send(*answer).is_err() {
                self.first.push(withdrawal(id, gone));
            }
        }
    }
}

/// Takes the INTENTs out of the group that nobody waits for any more. One that may be in the log is removed there.
fn give_up_abandoned(group: &mut Vec<Write>, is_first: bool) {
    let is_abandoned = |write: &Write| write.is_intent() && write.done.is_closed();
    if is_first {
        return group.retain_mut(|write| {
            let is_kept = !is_abandoned(write);
            if !is_kept {
                say_gone(write.gone.take());
            }
            is_kept
        });
    }
    for write in group.iter_mut().filter(|write| is_abandoned(write)) {
        *write = withdrawal(write.id, write.gone.take());
    }
}

fn withdrawal(id: BatchId, gone: Option<oneshot::Sender<()>>) -> Write {
    let (done, _) = oneshot::channel();
    Write {
        id,
        what: WriteKind::Withdraw,
        done,
        gone,
    }
}

fn say_gone(gone: Option<oneshot::Sender<()>>) {
    if let Some(gone) = gone {
        let _ = gone.send(());
    }
}

impl Columns {
    fn of(group: &[Write]) -> Result<Self, String> {
        let mut columns = Self::default();
        for write in group {
            columns.push(write)?;
        }
        Ok(columns)
    }

    fn push(&mut self, write: &Write) -> Result<(), String> {
        let (mut number, mut key) = (None, None);
        let mut has_line = true;
        let kind = match &write.what {
            WriteKind::Line(Line::Intent(intent)) => {
                key.clone_from(&intent.idempotency);
                "i"
            }
            WriteKind::Line(Line::Verdict(verdict)) => match verdict.decision() {
                Decision::Commit => "c",
                Decision::Abort => "a",
            },
            WriteKind::Line(Line::Resolve(_)) => "r",
            WriteKind::Line(Line::Note(entry, _)) => {
                number = i64::try_from(*entry).ok();
                "n"
            }
            WriteKind::Line(Line::End(at)) => {
                number = i64::try_from(*at).ok();
                has_line = false;
                "e"
            }
            WriteKind::Sending(entry) => {
                number = i64::try_from(*entry).ok();
                "s"
            }
            WriteKind::Withdraw
            | WriteKind::Forget { .. }
            | WriteKind::Moved(_)
            | WriteKind::Clear => "w",
        };
        let line = match &write.what {
            WriteKind::Line(line) if has_line => {
                Some(line.to_bytes().map_err(|error| error.to_string())?)
            }
            _ => None,
        };
        self.kinds.push(kind);
        self.ids.push(write.id);
        self.numbers.push(number);
        self.lines.push(line);
        self.keys.push(key);
        Ok(())
    }
}
