//! The pages `/batches` and `/batches/ID`: the unfinished batches.

mod words;

use http::StatusCode;
use serde::Serialize;
use serde_json::{Value, json};

use super::{AdminState, Page, Problem};
use crate::batch::{Batches, EntryInspection, OpenBatch, OpenEntry, TransactionStatus, now_millis};
use crate::error::code::Code;
use crate::metrics::BatchState;
use words::Remedy;

/// The number of entries at which the page of all batches ends; the batches beyond it are only
/// counted.
const LISTED: usize = 20_000;

/// A batch as the page of all batches shows it.
#[derive(Serialize)]
struct BatchSummary<'a> {
    #[serde(flatten)]
    batch: &'a OpenBatch,
    age_seconds: u64,
    waits_for: String,
}

/// A batch as its own page shows it.
#[derive(Serialize)]
struct BatchDetail<'a> {
    id: &'a str,
    state: BatchState,
    since_millis: u64,
    age_seconds: u64,
    waits_for: String,
    ways: Vec<Remedy>,
    resolved: Vec<ResolutionDetail<'a>>,
    entries: Vec<EntryDetail<'a>>,
}

#[derive(Serialize)]
struct EntryDetail<'a> {
    #[serde(flatten)]
    entry: &'a OpenEntry,
    #[serde(flatten)]
    looked: Option<&'a EntryInspection>,
}

#[derive(Serialize)]
struct ResolutionDetail<'a> {
    decision: &'static str,
    who: &'a str,
    why: &'a str,
    seconds_ago: u64,
}

/// Makes `/batches`: batches that wait for an operator first, the oldest first.
pub(super) fn list(shown: &AdminState) -> Value {
    let mut open = shown.batches.open();
    open.sort_by_key(|batch| !matches!(batch.state, BatchState::Hazard | BatchState::Stranded));
    let mut entries = 0;
    let listed = open.iter().take_while(|batch| {
        let fits = entries < LISTED;
        entries += batch.entries.len();
        fits
    });
    let listed = listed.map(|batch| BatchSummary {
        batch,
        age_seconds: batch.age().as_secs(),
        waits_for: words::waits_for(batch, &configured(shown)),
    });
    let listed: Vec<_> = listed.collect();
    json!({ "more": open.len() - listed.len(), "batches": listed })
}

/// Makes `/batches/ID`.
pub(super) async fn show(shown: &AdminState, id: &str) -> Page {
    let Some((batch, look)) = shown.batches.look(id).await else {
        return unknown(&shown.batches, id)
            .await
            .at(&format!("/batches/{id}"));
    };
    let entries = batch.entries.iter().enumerate();
    let entries = entries.map(|(index, entry)| EntryDetail {
        entry,
        looked: look.entries.get(index),
    });
    let resolved = look.resolved.iter().map(|resolution| ResolutionDetail {
        decision: if resolution.commit { "commit" } else { "abort" },
        who: &resolution.who,
        why: &resolution.why,
        seconds_ago: now_millis().saturating_sub(resolution.at) / 1000,
    });
    let told = BatchDetail {
        id: &batch.id,
        state: batch.state,
        since_millis: batch.since_millis,
        age_seconds: batch.age().as_secs(),
        waits_for: words::waits_for(&batch, &configured(shown)),
        ways: words::ways(&batch, &look.takes),
        resolved: resolved.collect(),
        entries: entries.collect(),
    };
    Page::json(StatusCode::OK, &json!(told))
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
