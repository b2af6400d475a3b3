//! What a batch waits for and what a person can decide about it, in words.

use std::sync::Arc;

use serde::Serialize;

use crate::batch::OpenBatch;

/// A decision that a person can take now.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(super) struct Way {
    decision: &'static str,
    does: &'static str,
}

/// `configured`: the backends that the configuration has.
pub(super) fn waits_for(batch: &OpenBatch, configured: &[Arc<str>]) -> String {
    let or = |otherwise: &str| batch.error.clone().unwrap_or_else(|| otherwise.to_owned());
    match batch.state {
        "undecided" => or("its catalogs to make what it consists of"),
        "undoing" => or("its catalogs to take back what they made"),
        "committed" => or("its catalogs to take away what it removes"),
        "hazard" => {
            let hazards = batch.entries.iter().filter(|entry| entry.hazard.is_some());
            format!(
                "a person: {} of {} changes cannot be undone safely",
                hazards.count(),
                batch.entries.len()
            )
        }
        "watching" => {
            "nothing: it is undone, and creates that may still land are watched for".into()
        }
        "stranded" => {
            let backends = batch.entries.iter().map(|entry| &entry.backend);
            let mut gone: Vec<&str> = backends
                .filter(|backend| !configured.contains(backend))
                .map(|backend| &**backend)
                .collect();
            gone.sort_unstable();
            gone.dedup();
            format!(
                "backend {} to be configured again, and a restart",
                gone.join(", ")
            )
        }
        _ => "nothing: it goes on by itself".into(),
    }
}

/// Only what is of use: a batch that goes on by itself is best left to it.
pub(super) fn ways(batch: &OpenBatch) -> Vec<Way> {
    let commit = |does| Way {
        decision: "commit",
        does,
    };
    let abort = |does| Way {
        decision: "abort",
        does,
    };
    let built_on = |entry: &crate::batch::OpenEntry| {
        let hazard = entry.hazard.unwrap_or_default();
        hazard == crate::batch::BUILT_ON
    };
    match (batch.state, &batch.error) {
        ("undecided", _) => vec![abort(
            "give it up: its client is told that it failed, and what it made is taken back",
        )],
        ("hazard", _) => vec![
            commit("keep what is there: readers see it from then on, and its table unlocks"),
            match batch.entries.iter().any(built_on) {
                true => abort(
                    "delete it on your word; first delete at the catalog what was built on it, until then it stays",
                ),
                false => abort(
                    "delete it on your word: exactly that, and only if nothing was built on it",
                ),
            },
        ],
        ("undoing", Some(_)) => vec![commit(
            "give the undo up, if that catalog does not come back: what is there stays, readers see it, and its table unlocks",
        )],
        ("committed", Some(_)) => vec![commit(
            "let be what cannot be removed: it stays in the catalog, readers see it again, and its table unlocks",
        )],
        ("stranded", _) => vec![commit(
            "let the batch be, if that backend does not come back: nothing more is done about it, and what it made there stays",
        )],
        _ => Vec::new(),
    }
}
