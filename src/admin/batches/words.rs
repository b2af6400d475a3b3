//! Describes what a batch waits for, and what an operator can decide about it.

use std::sync::Arc;

use super::Remedy;
use crate::batch::step::Decision;
use crate::batch::{BUILT_ON, ONLY_NAME, ONLY_VERSION, OpenBatch, OpenEntry};
use crate::metrics::BatchState;

/// Returns what the batch waits for. `configured` are the backends of the active configuration.
pub(super) fn waits_for(batch: &OpenBatch, configured: &[Arc<str>]) -> String {
    let or = |otherwise: &str| batch.error.clone().unwrap_or_else(|| otherwise.to_owned());
    match batch.state {
        BatchState::Undecided => or("its catalogs to create its changes"),
        BatchState::Undoing => or("its catalogs to roll back its changes"),
        BatchState::Committed => or("its catalogs to delete what it removes"),
        BatchState::Hazard => {
            let (hazards, changes) = (batch.hazards(), batch.entries.len());
            format!("an operator: {hazards} of {changes} changes cannot be rolled back safely")
        }
        BatchState::Watching => {
            let seconds = batch.watched_for().as_secs();
            let until_then = match batch.decision {
                Some(Decision::Commit) => "keep their names",
                _ => {
                    "accept only writes that name their version, and none of a version that its deletes may still reach"
                }
            };
            if seconds == 0 {
                let otherwise = format!(
                    "its catalogs to say whether an unanswered request has arrived; until then its tables {until_then}"
                );
                return or(&otherwise);
            }
            format!(
                "nothing: for {seconds} s more, its unanswered requests may still reach the catalog; until then its tables {until_then}"
            )
        }
        BatchState::Stranded => {
            let backends = batch.entries.iter().map(|entry| &entry.backend);
            let mut gone: Vec<&str> = backends
                .filter(|backend| !configured.contains(backend))
                .map(|backend| &**backend)
                .collect();
            gone.sort_unstable();
            gone.dedup();
            format!("backend {} to be configured again", gone.join(", "))
        }
    }
}

/// Returns the decisions that the batch would accept now, with the effect of each. There are none for a
/// batch that goes on by itself, because it is best left alone.
pub(super) fn ways(batch: &OpenBatch, takes: &[Decision]) -> Vec<Remedy> {
    if matches!(batch.state, BatchState::Undoing | BatchState::Committed) && batch.error.is_none() {
        return Vec::new();
    }
    let ways = takes.iter().map(|decision| {
        let does = match decision {
            Decision::Commit => commit(batch.state),
            Decision::Abort => abort(batch),
        };
        Remedy {
            decision: *decision,
            does: does.into(),
        }
    });
    ways.collect()
}

fn commit(state: BatchState) -> &'static str {
    match state {
        BatchState::Undoing => {
            "stop the rollback, if a catalog does not come back: what is there stays, readers see it, and its table unlocks"
        }
        BatchState::Committed => {
            "keep what cannot be removed: it stays in the catalog, readers see it again, and its table unlocks"
        }
        BatchState::Stranded => {
            "keep the batch as it is, if that backend does not come back: nothing more is done about it, and what it created stays"
        }
        _ => "keep what is there: readers see it from then on, and its table unlocks",
    }
}

fn abort(batch: &OpenBatch) -> &'static str {
    let is = |why: &'static str| move |entry: &OpenEntry| entry.hazard.as_deref() == Some(why);
    match batch.state {
        BatchState::Undecided => {
            "abort it: its client is told that it failed, and its changes are rolled back"
        }
        _ if batch.entries.iter().any(is(ONLY_NAME)) => {
            "delete it on your decision; first give the table its old name in the catalog, until then the new one stays"
        }
        _ if batch.entries.iter().any(is(ONLY_VERSION)) => {
            "delete it on your decision; first bring back an older version in the catalog, or drop the table there, until then it stays"
        }
        _ if batch.entries.iter().any(is(BUILT_ON)) => {
            "delete it on your decision; first delete in the catalog what was built on it, until then it stays"
        }
        _ => {
            "delete it on your decision: only what was found, only if nothing was built on it, and only if its table has another version"
        }
    }
}
