#![allow(clippy::unwrap_used, reason = "a test that panics fails")]

use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt as _;
use serde_json::value::RawValue;

use super::*;
use crate::batch::log::disk::DiskLog;
use crate::batch::log::{Action, BatchId, Intent, IntentEntry, Proof, Verdict, all};
use crate::batch::participant::CatalogDescription;
use crate::batch::plan::Entry;
use crate::batch::run::fakes::{Nothing, Willing};
use crate::batch::visibility::commit_flag::CommitFlag;
use crate::batch::visibility::{Release, Subject};
use crate::config::{BatchMode, Limits};
use crate::metrics::Metrics;
use crate::protocol::data_scope::DataScope;
use crate::protocol::identifier::Identifier;

const REST: Duration = Duration::from_secs(60);

/// An intent that creates version 2 of one table for each name.
fn intent(names: &[&str]) -> Arc<Intent> {
    let entries = names.iter().map(|name| IntentEntry {
        backend: "lake".into(),
        table: Identifier::from_names([*name]).unwrap(),
        branch: None,
        contested: false,
        action: Action::CreateVersion {
            version: 2,
            manifest_size: None,
            e_tag: None,
        },
        catalog: Default::default(),
    });
    Arc::new(Intent {
        entries: entries.collect(),
        idempotency: None,
        fingerprint: "f".into(),
        context: Vec::new(),
    })
}

fn line(name: &str) -> TableBranch {
    let table = TableKey {
        scope: DataScope::default(),
        backend: "lake".into(),
        table: Identifier::from_names([name]).unwrap(),
    };
    TableBranch::new(table, None)
}

#[tokio::test]
async fn what_somebody_has_made_again_is_seen_once_the_log_knows_whose_it_is() {
    for (breaks_over, hidden) in [("", false), ("a note", true)] {
        let log = Arc::new(Nothing { breaks_over });
        let metrics = Metrics::new().batch().clone();
        let coordinator = Coordinator::new(log, BatchConfig::default(), metrics);
        let (visibility, commit_flag, line) =
            (&coordinator.visibility, CommitFlag::default(), line("t"));
        let subject = Subject::version(None, 2);
        let claim = Some((BatchId::now_v7(), 0));
        visibility.release(&line, subject, &commit_flag, Release::Landing(REST), claim);
        let noted = coordinator.taken(&line, 2).now_or_never();
        assert_eq!(noted.is_none(), hidden);
        assert_eq!(visibility.hidden(&line).contains(2), hidden);
    }
}

/// The version is contested when the other writer's create is sent while ours may still land. It is the other writer's
/// when that create has succeeded.
#[tokio::test]
async fn the_log_learns_whose_a_version_is_that_somebody_else_asks_for() {
    let folder = tempfile::tempdir().unwrap();
    let log = DiskLog::open(&folder.path().join("log"), |error| panic!("{error}"));
    let log: Arc<dyn Log> = Arc::new(log.unwrap());
    let id = BatchId::now_v7();
    log.intend(id, intent(&["late", "gone"])).await.unwrap();
    log.decide(id, Verdict::abort(Vec::new(), None))
        .await
        .unwrap();
    let metrics = Metrics::new().batch().clone();
    let coordinator = Coordinator::new(Arc::clone(&log), BatchConfig::default(), metrics);
    let (visibility, commit_flag) = (&coordinator.visibility, CommitFlag::default());
    let undone = [("late", Settled::Unseen), ("gone", Settled::Gone)];
    for (entry, (name, settled)) in undone.into_iter().enumerate() {
        log.note(id, entry, settled).await.unwrap();
        visibility.hide(line(name), 2, &commit_flag);
        let claim = Some((id, entry));
        let release = match settled {
            Settled::Unseen => Release::Landing(REST),
            _ => Release::Clean(coordinator.pause()),
        };
        visibility.release(
            &line(name),
            Subject::version(None, 2),
            &commit_flag,
            release,
            claim,
        );
    }
    for name in ["late", "gone"] {
        coordinator.contest(&line(name), 2).await.unwrap();
    }
    let settled = async || all(&*log).await.unwrap().remove(0).settled;
    let theirs = Some(Settled::Theirs);
    let free = [Some(Settled::Contested), Some(Settled::Gone)];
    assert_eq!(
        settled().await,
        free,
        "nothing of ours can land as a free one"
    );
    assert!(visibility.uncontested(&line("late"), 2).is_empty());
    coordinator.taken(&line("late"), 2).await;
    coordinator.attempted(&line("gone").table, None).await;
    assert_eq!(settled().await, [theirs, theirs]);
}

/// A catalog with the name of one that is gone, or of one that was configured anew, may be another catalog.
#[test]
fn a_reload_keeps_what_was_learned_only_of_catalogs_that_stay_as_they_are() {
    let metrics = Metrics::new();
    let log = Arc::new(Nothing::default());
    let coordinator = Coordinator::new(log, BatchConfig::default(), metrics.batch().clone());
    let lake = |name: &str| {
        let (mode, limits) = (BatchMode::Versions, Limits::default());
        let catalog = Willing { hangs: false };
        Arc::new(Backend::own(name, mode, catalog, &limits, &metrics))
    };
    let described = |tag: &str| CatalogDescription {
        raw: RawValue::NULL.to_owned(),
        proof: Proof {
            e_tag: Some(tag.to_owned()),
            ..Proof::default()
        },
    };
    let entry = |backend: &Arc<Backend>| Entry {
        backend: Arc::clone(backend),
        line: TableBranch::new(
            TableKey {
                scope: DataScope::default(),
                backend: Arc::clone(backend.name()),
                table: Identifier::from_names(["t"]).unwrap(),
            },
            None,
        ),
        action: Action::CreateVersion {
            version: 2,
            manifest_size: None,
            e_tag: Some("staged".to_owned()),
        },
        body: Bytes::new(),
    };
    let all = ["stays", "changes", "goes"].map(lake);
    for backend in &all {
        drop(coordinator.calls.to(backend.name(), 2));
        coordinator
            .tags
            .learn(&entry(backend), &described("staged"));
        coordinator.atomic.insert(Arc::clone(backend.name()), true);
    }
    let [stays, changes, goes] = &all;
    let places = all
        .each_ref()
        .map(|backend| coordinator.calls.to(backend.name(), 2));
    let changed = |backend: &Arc<Backend>| Arc::ptr_eq(backend, changes);
    let kept = coordinator.retain_backends(&all[..2], changed);
    assert_eq!(kept, HashSet::from([Arc::clone(stays.name())]));
    for (backend, is_known) in [(stays, true), (changes, false), (goes, false)] {
        let other = described("other");
        let denies = coordinator.tags.denies(&entry(backend), Some(&other));
        assert_eq!(denies, is_known, "{}", backend.name());
        let is_atomic = coordinator.atomic.contains_key(backend.name());
        assert_eq!(is_atomic, is_known, "{}", backend.name());
    }
    let same = |at: usize| Arc::ptr_eq(&places[at], &coordinator.calls.to(all[at].name(), 2));
    assert_eq!([same(0), same(1), same(2)], [true, true, false]);
}
