#![allow(clippy::unwrap_used, reason = "a test says what it expects")]

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use futures_util::future::{BoxFuture, pending};
use http::{Request, Response, StatusCode};
use serde_json::{Value, json};
use tokio::time::sleep;

use super::*;
use crate::backend::{Backend, Catalog, Failure};
use crate::batch::run::fakes::{Nothing, caller};
use crate::batch::{BatchCall, Batches, Form, TableBranch, TableKey};
use crate::body::Body;
use crate::config::{BatchConfig, BatchMode, Limits};
use crate::metrics::{BatchState, Metrics};
use crate::protocol::commit::CommitOperation;
use crate::protocol::data_scope::DataScope;
use crate::protocol::identifier::Identifier;

/// A catalog of one table that never reports the result of a create: it makes version 2 and does not make version 3.
#[derive(Clone, Default)]
struct Silent {
    versions: Arc<Mutex<BTreeSet<u64>>>,
    deletes_hang: Arc<AtomicBool>,
    lookups_fail: Arc<AtomicBool>,
    /// True if the next lookup does not find version 2, although it is there.
    is_stale: Arc<AtomicBool>,
}

impl Silent {
    fn stored(&self) -> Vec<u64> {
        self.versions.lock().unwrap().iter().copied().collect()
    }

    fn answer(&self, path: &str, asked: &Value) -> (u16, Value) {
        let mut versions = self.versions.lock().unwrap();
        let shown = |version: u64| json!({"version": version, "manifest_size": 6});
        match path.rsplit('/').next().unwrap() {
            "list" => {
                let listed: Vec<Value> = versions.iter().rev().copied().map(shown).collect();
                (200, json!({ "versions": listed }))
            }
            "describe" if self.lookups_fail.load(Ordering::Relaxed) => {
                (503, json!({"error": "not now", "code": 17}))
            }
            "describe" if asked["version"] == 2 && self.is_stale.swap(false, Ordering::Relaxed) => {
                (404, json!({"error": "no such version", "code": 11}))
            }
            "describe" => match versions.get(&asked["version"].as_u64().unwrap()) {
                Some(version) => (200, json!({"version": shown(*version)})),
                None => (404, json!({"error": "no such version", "code": 11})),
            },
            "create" => {
                if asked["version"] == 2 {
                    versions.insert(2);
                }
                (500, json!({"error": "disk on fire", "code": 18}))
            }
            "delete" => {
                let range = &asked["ranges"][0];
                versions.remove(&range["start_version"].as_u64().unwrap());
                (200, json!({}))
            }
            other => panic!("{other} was not expected"),
        }
    }
}

impl Catalog for Silent {
    fn call(&self, request: Request<Body>) -> BoxFuture<'_, Result<Response<Body>, Failure>> {
        Box::pin(async move {
            let (head, body) = request.into_parts();
            let path = head.uri.path();
            if path.ends_with("delete") && self.deletes_hang.load(Ordering::Relaxed) {
                return pending().await;
            }
            let body = body.collect_up_to(1 << 20).await.unwrap();
            let asked = serde_json::from_slice(&body).unwrap_or_default();
            let (status, answer) = self.answer(path, &asked);
            let mut response = Response::new(Body::full(answer.to_string()));
            *response.status_mut() = StatusCode::from_u16(status).unwrap();
            Ok(response)
        })
    }
}

fn seconds(seconds: u64) -> tokio::time::Sleep {
    sleep(Duration::from_secs(seconds))
}

/// An undone batch of versions 2 and 3 of a table, whose watch begins within this second.
struct Undone {
    catalog: Silent,
    batches: Batches,
    line: TableBranch,
}

impl Undone {
    /// Lets this version land. From now on the catalog deletes nothing.
    fn lands(&self, version: u64) {
        self.catalog.deletes_hang.store(true, Ordering::Relaxed);
        self.catalog.versions.lock().unwrap().insert(version);
    }

    /// Checks every second for this long that both versions are hidden.
    async fn hides_both(&self, for_seconds: u64) {
        for second in 0..for_seconds {
            let hidden = self.batches.coordinator.visibility.hidden(&self.line);
            let both = hidden.contains(2) && hidden.contains(3);
            assert!(both, "after {second} s: {hidden:?}");
            seconds(1).await;
        }
    }

    /// Lets the catalog delete again, and checks that both versions are deleted.
    async fn ends(&self) {
        assert_eq!(self.catalog.stored(), [1, 2, 3]);
        self.catalog.deletes_hang.store(false, Ordering::Relaxed);
        seconds(120).await;
        assert_eq!(self.catalog.stored(), [1]);
    }
}

async fn undone() -> Undone {
    let (catalog, metrics) = (Silent::default(), Metrics::new());
    catalog.versions.lock().unwrap().insert(1);
    let own = catalog.clone();
    let lake = Backend::own(
        "lake",
        BatchMode::Versions,
        own,
        &Limits::default(),
        &metrics,
    );
    let lake = Arc::new(lake);
    let settings = BatchConfig::default();
    let batches = Batches::new(
        Arc::new(Nothing::default()),
        settings,
        metrics.batch().clone(),
    );
    let entry = |version: u64| json!({"id": ["t"], "version": version, "manifest_path": "m", "manifest_size": 6});
    let body = json!({"entries": [entry(2), entry(3)]}).to_string();
    let entries = crate::protocol::batch::parse(body.as_bytes(), 2).unwrap();
    let creates = entries.entries.into_iter();
    let call = BatchCall {
        form: Form::Create,
        operations: creates.map(CommitOperation::CreateTableVersion).collect(),
        caller: caller(None),
    };
    let route = |id: &Identifier| Ok((Arc::clone(&lake), id.clone()));
    assert!(batches.commit(call, route).await.is_err());
    while batches.open()[0].state != BatchState::Watching {
        seconds(1).await;
    }
    assert_eq!(catalog.stored(), [1]);
    let table = TableKey {
        scope: DataScope::default(),
        backend: Arc::clone(lake.name()),
        table: Identifier::from_names(["t"]).unwrap(),
    };
    let line = TableBranch::new(table, None);
    Undone {
        catalog,
        batches,
        line,
    }
}

/// The versions land right before the watches end. While the first is undone, the watch of the second would end.
#[tokio::test(start_paused = true)]
async fn what_landed_at_the_last_moment_stays_hidden_until_it_is_undone() {
    let undone = undone().await;
    seconds(WATCH.as_secs() - 20).await;
    undone.lands(2);
    undone.lands(3);
    undone.hides_both(90).await;
    undone.ends().await;
}

/// The upper version landed first, and its undo holds the lock of the table. The lower one cannot be undone as long as
/// that takes.
#[tokio::test(start_paused = true)]
async fn what_landed_below_one_that_is_being_undone_stays_hidden_until_it_is_undone() {
    let undone = undone().await;
    seconds(65).await;
    undone.lands(3);
    seconds(60).await;
    undone.lands(2);
    undone.hides_both(2 * WATCH.as_secs()).await;
    undone.ends().await;
}

/// Every lookup fails, from before it lands until long after the watch would end.
#[tokio::test(start_paused = true)]
async fn what_landed_while_the_catalog_could_not_be_asked_stays_hidden_until_it_is_undone() {
    let undone = undone().await;
    let fails = Arc::clone(&undone.catalog.lookups_fail);
    fails.store(true, Ordering::Relaxed);
    seconds(WATCH.as_secs() / 2).await;
    undone.catalog.versions.lock().unwrap().insert(2);
    undone.hides_both(2 * WATCH.as_secs()).await;
    let open = &undone.batches.open()[0];
    assert_eq!(open.state, BatchState::Watching);
    assert!(open.error.as_ref().unwrap().contains("not now"), "{open:?}");
    fails.store(false, Ordering::Relaxed);
    seconds(60).await;
    assert_eq!(undone.catalog.stored(), [1]);
    seconds(2 * WATCH.as_secs()).await;
    assert!(undone.batches.open().is_empty());
}

#[tokio::test(start_paused = true)]
async fn one_answer_from_an_old_copy_does_not_end_a_watch() {
    let undone = undone().await;
    // The next lookup is the one at the end.
    seconds(WATCH.as_secs() - 2).await;
    undone.catalog.versions.lock().unwrap().insert(2);
    undone.catalog.is_stale.store(true, Ordering::Relaxed);
    seconds(60).await;
    assert_eq!(undone.catalog.stored(), [1]);
}
