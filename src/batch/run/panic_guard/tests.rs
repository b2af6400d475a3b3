#![allow(clippy::unwrap_used, reason = "a test says what it expects")]

use std::sync::Arc;
use std::time::Duration;

use aws_lc_rs::digest::{Context as Hasher, SHA256};
use http::StatusCode;
use tokio::time::timeout;

use super::*;
use crate::backend::Backend;
use crate::batch::api::outcomes::Fingerprint;
use crate::batch::run::fakes::{Nothing, Willing, call, caller};
use crate::batch::step::Decision;
use crate::batch::{Batches, ResolveError, Resolver, TableBranch, TableKey, TransactionStatus};
use crate::config::{BatchConfig, BatchMode, Limits};
use crate::error::Error;
use crate::metrics::Metrics;
use crate::protocol::data_scope::DataScope;
use crate::protocol::identifier::Identifier;
use crate::protocol::operation::Access;

fn batches(breaks_over: &'static str, metrics: &Metrics) -> Batches {
    let settings = BatchConfig {
        lock_timeout: Duration::from_secs(1),
        ..BatchConfig::default()
    };
    let log = Arc::new(Nothing { breaks_over });
    Batches::new(log, settings, metrics.batch().clone())
}

/// Guards against three faults: a client would wait for ever, a writer could build on undecided versions, and readers
/// could see them.
#[tokio::test(start_paused = true)]
async fn a_batch_that_panics_is_answered_and_keeps_its_tables_to_itself() {
    let decided = panics_over("a decision").await;
    for table in ["one", "two"] {
        let line = TableBranch::new(key(table), None);
        assert!(decided.coordinator.visibility.hidden(&line).contains(2));
    }
    // In this case the log may or may not know the batch.
    panics_over("an intent").await;
}

fn same() -> Fingerprint {
    Fingerprint::new(Hasher::new(&SHA256), None)
}

fn key(table: &str) -> TableKey {
    TableKey {
        scope: DataScope::default(),
        backend: "lake".into(),
        table: Identifier::from_names([table]).unwrap(),
    }
}

async fn panics_over(what: &'static str) -> Batches {
    let metrics = Metrics::new();
    let batches = batches(what, &metrics);
    let (mode, limits) = (BatchMode::Versions, Limits::default());
    let lake = Arc::new(Backend::own(
        "lake",
        mode,
        Willing::default(),
        &limits,
        &metrics,
    ));
    let route = |id: &Identifier| Ok((Arc::clone(&lake), id.clone()));
    for tries in ["the first", "again with its key"] {
        let asked = batches.commit(call(["one", "two"], Some("k")), route);
        let answer: Error = timeout(Duration::from_secs(60), asked)
            .await
            .expect(tries)
            .unwrap_err();
        assert_eq!(answer.status(), StatusCode::SERVICE_UNAVAILABLE, "{tries}");
    }
    let id = batches.open()[0].id.clone();
    let batch = batches.transaction(&id).await.unwrap().unwrap();
    assert_eq!(batch.status, TransactionStatus::Running);
    for table in ["one", "two"] {
        for access in [Access::Read, Access::Write] {
            assert!(batches.hold(key(table), access).await.is_err());
        }
    }
    // Operators see the reason, and are not told that the batch has ended.
    let (open, _) = batches.look(&id).await.unwrap();
    assert_eq!(open.error.as_deref(), Some(ABANDONED));
    let (who, why) = ("ada".into(), String::new());
    let resolved = batches.resolve(&id, Decision::Abort, Resolver { who, why });
    let refused = ResolveError::Refused(ABANDONED.into());
    assert_eq!(resolved.await, Err(refused));
    // Other batches are not affected.
    assert!(batches.hold(key("three"), Access::Write).await.is_ok());
    batches
}

/// The panic happens before there is a batch to keep.
#[tokio::test(start_paused = true)]
async fn a_batch_whose_planning_panics_is_answered_and_may_be_asked_for_again() {
    let batches = batches("nothing", &Metrics::new());
    for _ in 0..2 {
        let planned = async { panic!("a bug") };
        let outcome = batches
            .coordinate(&caller(Some("k")), same(), (Vec::new(), 0), planned)
            .await
            .unwrap();
        let answer = timeout(Duration::from_secs(60), outcome.wait()).await;
        let answer = answer.expect("an answer");
        let BatchAnswer::Refused { refusal, written } = &*answer else {
            panic!("{answer:?}");
        };
        assert_eq!((refusal.status, *written), (500, false));
        tokio::task::yield_now().await;
    }
    assert_eq!(batches.kept().outcomes, 0);
}
