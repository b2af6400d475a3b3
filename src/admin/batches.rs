//! The batches that are not over, as facts and in words: what each waits for, and what a person can decide.

use std::time::Duration;

use http::StatusCode;
use serde::Serialize;
use serde_json::{Value, json};

use super::{Page, Problem, Shown};
use crate::batch::{Batches, OpenBatch, OpenEntry, TransactionStatus};
use crate::metrics::{Census, Standing};
use crate::protocol::error::Code;

/// About so many entries are on the page of all batches; the batches beyond them are only counted.
const LISTED: usize = 20_000;

/// A batch as its page shows it.
#[derive(Serialize)]
struct Told<'a> {
    id: &'a str,
    state: &'static str,
    since_millis: u64,
    age_seconds: u64,
    waits_for: String,
    entries: Vec<ToldEntry<'a>>,
}

#[derive(Serialize)]
struct ToldEntry<'a> {
    #[serde(flatten)]
    entry: &'a OpenEntry,
    change: String,
    state: &'static str,
}

/// `/batches`: those that wait for a person first, the oldest first.
pub(super) fn list(shown: &Shown) -> Value {
    let mut open = shown.batches.open();
    open.sort_by_key(|batch| batch.state != "hazard");
    let mut entries = 0;
    let listed = open.iter().take_while(|batch| {
        let fits = entries < LISTED;
        entries += batch.entries.len();
        fits
    });
    let listed: Vec<_> = listed.map(tell).collect();
    json!({ "more": open.len() - listed.len(), "batches": listed })
}

/// How many batches stand where, and since when.
pub(super) fn census(shown: &Shown) -> Census {
    let mut census = Census::default();
    for batch in shown.batches.open() {
        let standing = Standing::ALL.into_iter();
        for standing in standing.filter(|standing| standing.as_str() == batch.state) {
            census.add(standing, age(&batch));
        }
    }
    census
}

fn age(batch: &OpenBatch) -> Duration {
    Duration::from_millis(crate::batch::now_millis().saturating_sub(batch.since_millis))
}

/// `/batches/ID`.
pub(super) fn show(shown: &Shown, id: &str) -> Page {
    let open = shown.batches.open();
    match open.iter().find(|batch| batch.id == id) {
        Some(batch) => Page::json(StatusCode::OK, &json!(tell(batch))),
        None => unknown(&shown.batches, id).at(&format!("/batches/{id}")),
    }
}

fn unknown(batches: &Batches, id: &str) -> Problem {
    let words = match batches.transaction(id) {
        Some(TransactionStatus::Succeeded) => {
            format!("batch {id} is over: it was committed, and nothing of it waits")
        }
        Some(TransactionStatus::Failed) => {
            format!("batch {id} is over: it was aborted and undone, and nothing of it waits")
        }
        Some(TransactionStatus::Running) => {
            format!("batch {id} has written nothing yet: it waits for its tables")
        }
        None => format!(
            "there is no batch {id}: it is over and forgotten, or belongs to another gateway"
        ),
    };
    Problem::new(Code::TransactionNotFound, words)
}

fn tell(batch: &OpenBatch) -> Told<'_> {
    let entries = batch.entries.iter().map(|entry| ToldEntry {
        entry,
        change: match entry.version {
            Some(version) => format!("version {version}"),
            None => entry.action.replace('_', " "),
        },
        state: match entry.hazard {
            Some(_) => "hazard",
            None => batch.state,
        },
    });
    Told {
        id: &batch.id,
        state: batch.state,
        since_millis: batch.since_millis,
        age_seconds: age(batch).as_secs(),
        waits_for: waits_for(batch),
        entries: entries.collect(),
    }
}

fn waits_for(batch: &OpenBatch) -> String {
    match batch.state {
        "undecided" => "its catalogs to create the versions".to_owned(),
        "undoing" => "its catalogs to delete the versions".to_owned(),
        "hazard" => "a person".to_owned(),
        _ => "nothing: it is being finished".to_owned(),
    }
}
