//! Decisions and ends that the log has forgotten: its owner writes them again when it reaches another copy of the log.
//!
//! A standby that is promoted without the last commits can have the INTENT of a batch and lack its COMMIT, although its client
//! was told that it is done. Whoever recovers the log after that would undo the batch. The owner that lives on still knows
//! how it ended.

use std::pin::pin;
use std::time::Duration;

use futures_util::{StreamExt as _, stream};
use serde_json::value::RawValue;
use tokio::time::sleep;

use super::READ_AGAIN;
use crate::batch::api::outcomes::{BatchAnswer, Outcomes};
use crate::batch::fleet::LogCopy;
use crate::batch::log::{BatchId, Intent, LogError, Record, Verdict};
use crate::batch::run::Coordinator;
use crate::batch::step::Decision;

/// The pauses before the looks at another copy. Before the first, every connection finds the server that is the primary now.
/// Before the second, batches under way are answered, and INTENTs that nobody waits for are taken back.
const PAUSES: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(5)];
/// The number of batches that are looked at together: their writes share transactions.
const TOGETHER: usize = 16;
/// The number of batches that a line in the log names.
const NAMED: usize = 5;
/// The number of batches whose end nobody knows that are reported one by one.
const REPORTED: usize = 100;

/// The result of the look at one unfinished batch of the log.
enum Found {
    /// A batch of which nothing is missing, or that goes on and has no end yet.
    Whole,
    /// A batch whose decision, notes or end were missing, and are in the log again.
    Restored(BatchId),
    /// A batch whose end this gateway does not know.
    Unknown(BatchId, Intent),
}

/// Looks at each other copy of the log that this gateway reaches. The gateway owns the log, and has recovered it.
///
/// # Errors
///
/// The log cannot be read or written any more; another gateway may own it.
pub async fn restore_always(
    coordinator: &Coordinator,
    outcomes: &Outcomes,
    copy: &LogCopy,
) -> Result<(), LogError> {
    let mut seen = 0;
    loop {
        seen = copy.later_than(seen).await;
        for (pause, is_last) in PAUSES.into_iter().zip([false, true]) {
            sleep(pause).await;
            while let Err(error) = restore(coordinator, outcomes, is_last).await {
                if !matches!(error, LogError::Away { .. }) {
                    return Err(error);
                }
                sleep(READ_AGAIN).await;
            }
        }
    }
}

/// Writes again what is missing in the log. The last look reports what nobody knows.
async fn restore(
    coordinator: &Coordinator,
    outcomes: &Outcomes,
    is_last: bool,
) -> Result<(), LogError> {
    let mut suspects: Vec<BatchId> = Vec::new();
    let mut sort = |record: Record| {
        if record.ended.is_none() {
            suspects.push(record.id);
        }
    };
    coordinator.log.scan_needed(&mut sort).await?;
    let looks = stream::iter(suspects).map(|id| restore_one(coordinator, outcomes, id));
    let mut looks = pin!(looks.buffer_unordered(TOGETHER));
    let (mut restored, mut unknown, mut result) = (Vec::new(), 0, Ok(()));
    while let Some(looked) = looks.next().await {
        match looked {
            Ok(Found::Restored(id)) => restored.push(id.to_string()),
            Ok(Found::Unknown(id, intent)) if is_last => {
                unknown += 1;
                if unknown <= REPORTED {
                    report(id, &intent);
                }
            }
            Ok(_) => {}
            Err(error) => result = Err(error),
        }
    }
    if unknown > REPORTED {
        tracing::error!(
            batches = unknown,
            "the batch log has lost how so many batches ended; the first of them are named above"
        );
    }
    if let Some(first) = restored.chunks(NAMED).next() {
        tracing::warn!(
            batches = restored.len(),
            ?first,
            "the batch log had lost how batches ended, and has it again: PostgreSQL failed over, or was restored, without its last commits. Set `synchronous_standby_names`"
        );
    }
    result
}

/// Reports a batch that the next recovery undoes.
fn report(id: BatchId, intent: &Intent) {
    let tables = intent.entries.iter();
    let tables = tables.map(|it| format!("{} in {}", it.table, it.backend));
    let tables: Vec<String> = tables.collect();
    tracing::error!(
        batch = %id,
        ?tables,
        "the batch log has lost how a batch ended, and this gateway does not know it: the next recovery of the log undoes it, even if its client was told that it is done. Look at its tables now. After the next start, run `nsgate batches show {id}`"
    );
}

/// Writes again what the log lacks of one batch.
async fn restore_one(
    coordinator: &Coordinator,
    outcomes: &Outcomes,
    id: BatchId,
) -> Result<Found, LogError> {
    let (log, open) = (&coordinator.log, &coordinator.open);
    // In this order: a log that lacks nothing has the decision of a batch that is answered, and the end of one that is not
    // open any more, before it is read here.
    let (was_open, shown) = (open.has(id), open.get(id));
    let outcome = outcomes.in_memory(id);
    let answer = outcome.as_ref().and_then(|outcome| outcome.get());
    let Some(record) = log.find(id).await?.filter(|it| it.ended.is_none()) else {
        return Ok(Found::Whole);
    };
    // It may have begun meanwhile.
    let is_open = was_open || open.has(id);
    if record.verdict.is_none() {
        let verdict = match answer.as_deref() {
            Some(BatchAnswer::Committed(versions)) => Verdict::Commit(versions.clone()),
            // There was no room in memory for its answer.
            None if shown.and_then(|it| it.decision) == Some(Decision::Commit) => {
                let nulls = record.intent.entries.iter().map(|_| RawValue::NULL);
                Verdict::Commit(nulls.map(RawValue::to_owned).collect())
            }
            // Nothing of it is left to undo. One that is open would need its proofs, and is undone in any case.
            Some(BatchAnswer::Refused { refusal, written }) if *written && !is_open => {
                Verdict::abort(Vec::new(), Some(refusal))
            }
            None if outcome.is_none() && !is_open => return Ok(Found::Unknown(id, record.intent)),
            _ => return Ok(Found::Whole),
        };
        match log.decide(id, verdict).await {
            // It was taken out of the log meanwhile.
            Err(LogError::Lost { .. }) => return Ok(Found::Whole),
            decided => decided?,
        };
        if is_open {
            coordinator.note_again(id, record.settled).await;
        }
    } else if is_open && !coordinator.note_again(id, record.settled).await {
        return Ok(Found::Whole);
    }
    if !is_open {
        log.end(id, (coordinator.clock)()).await?;
    }
    Ok(Found::Restored(id))
}
