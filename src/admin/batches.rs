//! The JSON of `/batches` and `/batches/ID`: which fields of an unfinished batch are shown. How the status page draws them
//! is in `admin/status/script.js`.

mod words;

use std::borrow::Cow;

use http::StatusCode;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::{AdminState, Page, Problem};
use crate::batch::step::Decision;
use crate::batch::{Batches, EntryInspection, OpenBatch, OpenEntry, TransactionStatus, now_millis};
use crate::error::code::Code;
use crate::metrics::BatchState;

/// The number of entries at which the page of all batches ends; the batches beyond it are only
/// counted.
const LISTED: usize = 20_000;

/// The page `/batches`.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct BatchList {
    /// The unfinished batches, those that wait for an operator first.
    pub batches: Vec<BatchSummary>,
    /// The number of unfinished batches that are not on the page.
    pub more: usize,
    /// The number of these that wait for an operator.
    #[serde(default)]
    pub more_waiting: usize,
}

/// A batch on the page `/batches`.
#[derive(Debug, Serialize, Deserialize)]
pub struct BatchSummary {
    /// The batch.
    #[serde(flatten)]
    pub batch: OpenBatch,
    /// The time since it began, in seconds.
    pub age_seconds: u64,
    /// The reason why it is unfinished, in words.
    pub waits_for: String,
}

/// The page `/batches/ID`.
#[derive(Debug, Serialize, Deserialize)]
pub struct BatchDetail {
    /// The id of the batch.
    pub id: String,
    /// The state of the batch.
    pub state: BatchState,
    /// The time at which it began, in milliseconds since the epoch.
    pub since_millis: u64,
    /// The time since it began, in seconds.
    pub age_seconds: u64,
    /// The reason why it is unfinished, in words.
    pub waits_for: String,
    /// The decisions that an operator can make now.
    pub ways: Vec<Remedy>,
    /// The decisions that operators have made.
    pub resolved: Vec<ResolutionDetail>,
    /// The changes of the batch, in request order.
    pub entries: Vec<EntryDetail>,
}

/// A decision that an operator can make now.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Remedy {
    /// The decision.
    pub decision: Decision,
    /// The effect of the decision, in words.
    pub does: Cow<'static, str>,
}

/// A decision that an operator has made.
#[derive(Debug, Serialize, Deserialize)]
pub struct ResolutionDetail {
    /// The decision.
    pub decision: Decision,
    /// The operator who decided.
    pub who: String,
    /// The operator's reason; empty if none was given.
    pub why: String,
    /// The time since then, in seconds.
    pub seconds_ago: u64,
}

/// A change of a batch on the page `/batches/ID`.
#[derive(Debug, Serialize, Deserialize)]
pub struct EntryDetail {
    /// The change.
    #[serde(flatten)]
    pub entry: OpenEntry,
    /// The state of the change in its catalog; `None` if the batch did not answer in time.
    #[serde(flatten)]
    pub inspection: Option<EntryInspection>,
}

/// Makes `/batches`: batches that wait for an operator first, the oldest first.
pub(super) fn list(shown: &AdminState) -> BatchList {
    let mut open = shown.batches.open();
    open.sort_by_key(|batch| !batch.state.needs_person());
    let waiting = open.iter().filter(|batch| batch.state.needs_person());
    let (all, waiting, mut entries) = (open.len(), waiting.count(), 0);
    let listed = open.into_iter().take_while(|batch| {
        let fits = entries < LISTED;
        entries += batch.entries.len();
        fits
    });
    let batches: Vec<_> = listed
        .map(|batch| BatchSummary {
            age_seconds: batch.age().as_secs(),
            waits_for: words::waits_for(&batch, &configured(shown)),
            batch,
        })
        .collect();
    let more = all - batches.len();
    BatchList {
        more_waiting: waiting.saturating_sub(batches.len()),
        batches,
        more,
    }
}

/// Makes `/batches/ID`.
pub(super) async fn show(shown: &AdminState, id: &str) -> Page {
    let Some((batch, look)) = shown.batches.look(id).await else {
        return unknown(&shown.batches, id)
            .await
            .at(&format!("/batches/{id}"));
    };
    let resolved = look
        .resolved
        .into_iter()
        .map(|resolution| ResolutionDetail {
            decision: resolution.decision(),
            who: resolution.who,
            why: resolution.why,
            seconds_ago: now_millis().saturating_sub(resolution.at) / 1000,
        });
    let (age_seconds, waits_for) = (
        batch.age().as_secs(),
        words::waits_for(&batch, &configured(shown)),
    );
    let ways = words::ways(&batch, &look.takes);
    let mut inspections = look.entries.into_iter();
    let entries = batch.entries.into_iter().map(|entry| EntryDetail {
        entry,
        inspection: inspections.next(),
    });
    let page = BatchDetail {
        id: batch.id,
        state: batch.state,
        since_millis: batch.since_millis,
        age_seconds,
        waits_for,
        ways,
        resolved: resolved.collect(),
        entries: entries.collect(),
    };
    Page::json(StatusCode::OK, &json!(page))
}

fn configured(shown: &AdminState) -> Vec<std::sync::Arc<str>> {
    let world = &shown.current.load().world;
    let names = world.backends.iter().map(|backend| backend.name().clone());
    names.collect()
}

/// Returns the response for an id that no open batch has.
pub(super) async fn unknown(batches: &Batches, id: &str) -> Problem {
    let batch = match batches.transaction(id).await {
        Ok(batch) => batch,
        Err(error) => return Problem::new(error.code(), error.message().to_owned()),
    };
    let words = match batch.map(|batch| batch.status) {
        Some(TransactionStatus::Succeeded) => {
            format!("batch {id} is finished: it was committed")
        }
        Some(TransactionStatus::Failed) => {
            format!("batch {id} is finished: it was aborted")
        }
        Some(TransactionStatus::Running) => {
            format!("batch {id} has not written anything yet: it waits for locks on its tables")
        }
        None => format!(
            "no batch {id} here: it is finished and is no longer remembered, or it belongs to another gateway"
        ),
    };
    Problem::new(Code::TransactionNotFound, words)
}
