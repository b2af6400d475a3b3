#![allow(clippy::unwrap_used, reason = "a test that panics fails")]

use std::fs;
use std::path::Path;
use std::sync::Arc;

use tempfile::TempDir;

use super::*;
use crate::batch::log::{BatchId, Intent, Verdict};

/// The places of a move, in a folder of their own: a log with an unfinished and an ended batch, and nothing.
struct Places {
    folder: TempDir,
    from: Place,
    to: Place,
}

/// The last step that an interrupted move has done.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
enum LastStep {
    TargetOpened,
    Begun,
    HalfCopied,
    Copied,
    SourceNoted,
    SourceRetired,
    TargetNamed,
}

impl Places {
    async fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let log = DiskLog::open(&at("from"), |error| panic!("{error}")).unwrap();
        for ends in [false, true] {
            let intent = Intent {
                entries: Vec::new(),
                idempotency: None,
                fingerprint: ends.to_string(),
                context: Vec::new(),
            };
            let id = BatchId::now_v7();
            log.intend(id, Arc::new(intent)).await.unwrap();
            if ends {
                log.decide(id, Verdict::Commit(Vec::new())).await.unwrap();
                log.end(id, 7).await.unwrap();
            }
        }
        log.close().await.unwrap();
        Self {
            from: Place::File(at("from")),
            to: Place::File(at("to")),
            folder,
        }
    }

    fn at(&self, name: &str) -> std::path::PathBuf {
        self.folder.path().join(name)
    }

    /// Moves as [`transfer`] does, up to a step. Then the process is gone.
    async fn is_interrupted(&self, after: LastStep) {
        let source = self.from.open_source(None).await.unwrap();
        let target = self.to.open_target(None).await.unwrap();
        if after >= LastStep::Begun {
            let note = MoveNote::Unfinished(self.from.name());
            target.begin(&note, &self.to).await.unwrap();
        }
        let records = all(source.log()).await.unwrap();
        let copied = match after {
            LastStep::TargetOpened | LastStep::Begun => 0,
            LastStep::HalfCopied => 1,
            _ => 2,
        };
        for record in &records[..copied] {
            write(target.log(), record).await.unwrap();
        }
        let note = MoveNote::MovedTo(self.to.name());
        if after == LastStep::SourceNoted {
            LogFiles::of(&self.at("from")).put_note(&note).unwrap();
        }
        if after >= LastStep::SourceRetired {
            source.retire(&note, &self.from).await.unwrap();
        }
        target.log().close().await.unwrap();
        source.log().close().await.unwrap();
        if after >= LastStep::TargetNamed {
            fs::rename(self.at("to.moving"), self.at("to")).unwrap();
        }
    }
}

/// Returns why no gateway can use the log; `None` if one can.
async fn refusal(log: &Path) -> Option<String> {
    match DiskLog::open(log, |_| {}) {
        Ok(log) => {
            log.close().await.unwrap();
            None
        }
        Err(error) => Some(error.to_string()),
    }
}

async fn number(log: &Path) -> usize {
    let log = DiskLog::open(log, |_| {}).unwrap();
    let records = all(&log).await.unwrap();
    log.close().await.unwrap();
    records.len()
}

#[tokio::test]
async fn a_move_that_is_interrupted_leaves_at_most_one_log_and_goes_on() {
    for step in [
        LastStep::TargetOpened,
        LastStep::Begun,
        LastStep::HalfCopied,
        LastStep::Copied,
        LastStep::SourceNoted,
        LastStep::SourceRetired,
        LastStep::TargetNamed,
    ] {
        let places = Places::new().await;
        places.is_interrupted(step).await;
        let (from, to) = (places.at("from"), places.at("to"));
        if step >= LastStep::Begun {
            let why = refusal(&to).await.unwrap();
            assert!(
                why.contains("did not finish; run it again"),
                "{step:?}: {why}"
            );
        }
        let why = refusal(&from).await;
        assert_eq!(
            why.is_some(),
            step >= LastStep::SourceNoted,
            "{step:?}: {why:?}"
        );
        let moved = transfer(&places.from, &places.to).await.unwrap();
        assert_eq!((moved, number(&to).await), (2, 2), "{step:?}");
        let why = refusal(&from).await.unwrap();
        assert!(why.contains("its batches were moved to "), "{why}");
        let again = transfer(&places.from, &places.to).await.unwrap_err();
        assert!(
            again.to_string().contains("its batches were moved to "),
            "{again}"
        );
        assert_eq!(number(&to).await, 2, "{step:?}");
    }
}

/// The source may have been used again, and have other batches than the copy.
#[tokio::test]
async fn a_move_that_goes_on_copies_what_the_source_has_now() {
    let places = Places::new().await;
    places.is_interrupted(LastStep::Copied).await;
    let log = DiskLog::open(&places.at("from"), |_| {}).unwrap();
    let ended = all(&log).await.unwrap()[1].id;
    log.forget(8).await.unwrap();
    log.close().await.unwrap();
    assert_eq!(transfer(&places.from, &places.to).await.unwrap(), 1);
    let log = DiskLog::open(&places.at("to"), |_| {}).unwrap();
    assert_ne!(all(&log).await.unwrap()[0].id, ended);
}

#[tokio::test]
async fn nobody_moves_what_is_being_moved() {
    let places = Places::new().await;
    let source = places.from.open_source(None).await.unwrap();
    let target = places.to.open_target(None).await.unwrap();
    let note = MoveNote::Unfinished(places.from.name());
    target.begin(&note, &places.to).await.unwrap();
    let note = MoveNote::MovedTo(places.to.name());
    source.retire(&note, &places.from).await.unwrap();
    let other = transfer(&places.from, &places.to).await.unwrap_err();
    assert!(
        other.to_string().contains("another process has it open"),
        "{other}"
    );
    assert_eq!(places.from.note().await, Some(note));
    let elsewhere = Place::File(places.at("elsewhere"));
    let other = transfer(&places.from, &elsewhere).await.unwrap_err();
    assert!(
        other.to_string().contains("its batches were moved to "),
        "{other}"
    );
    drop(DiskLog::open(&places.at("another"), |_| {}).unwrap());
    let another = Place::File(places.at("another"));
    let other = transfer(&another, &places.to).await.unwrap_err();
    assert!(other.to_string().contains("did not finish"), "{other}");
}
