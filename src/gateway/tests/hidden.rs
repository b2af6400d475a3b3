//! Names that batches hide appear in no answer, whenever they were hidden.

use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::future::BoxFuture;
use http::header::{ACCEPT_ENCODING, CONTENT_ENCODING};

use super::*;
use crate::backend::{self, Failure};
use crate::batch::visibility::commit_flag::CommitFlag;
use crate::batch::{Names, TableKey};
use crate::config::BatchMode;
use crate::protocol::data_scope::DataScope;
use crate::protocol::operation::{Access, Kind, Lock};

type Meanwhile = Box<dyn Fn(&Names) + Send + Sync>;

/// A catalog that always gives the same answer and calls `meanwhile` before it answers.
struct Canned {
    answer: &'static str,
    gzip: bool,
    names: Names,
    meanwhile: Meanwhile,
    calls: Arc<AtomicUsize>,
}

impl backend::Catalog for Canned {
    fn call(&self, request: Request<Body>) -> BoxFuture<'_, Result<Response<Body>, Failure>> {
        Box::pin(async move {
            self.calls.fetch_add(1, Ordering::Relaxed);
            (self.meanwhile)(&self.names);
            let mut response = Response::new(Body::full(self.answer));
            let wished = request.headers().get(ACCEPT_ENCODING);
            if self.gzip && wished.is_none_or(|wished| wished != "identity") {
                let gzip = http::HeaderValue::from_static("gzip");
                response.headers_mut().insert(CONTENT_ENCODING, gzip);
            }
            Ok(response)
        })
    }
}

/// A gateway over one catalog, whose root is at `at`.
struct Over {
    gateway: Gateway,
    names: Names,
    calls: Arc<AtomicUsize>,
    _log: TempDir,
}

fn over(at: &[&str], answer: &'static str, gzip: bool, meanwhile: Meanwhile) -> Over {
    let (limits, metrics) = (Limits::default(), Metrics::new());
    let folder = tempfile::tempdir().unwrap();
    let log = DiskLog::open(&folder.path().join("log"), |_| {}).unwrap();
    let settings = BatchConfig::default();
    let batches = Batches::new(Arc::new(log), settings, metrics.batch().clone());
    let (names, calls) = (batches.names().clone(), Arc::default());
    let catalog = Canned {
        answer,
        gzip,
        names: names.clone(),
        meanwhile,
        calls: Arc::clone(&calls),
    };
    let backend = Backend::own("lake", BatchMode::Versions, catalog, &limits, &metrics);
    let mount = route::Mount {
        namespace: Identifier::from_names(at).unwrap(),
        backend: 0,
        backend_name: backend.name().clone(),
        backend_namespace: Identifier::root(),
    };
    let routes = route::Table::new(vec![mount]);
    let backends = vec![Arc::new(backend)];
    let world = Arc::new(RoutingSnapshot { routes, backends });
    Over {
        gateway: Gateway::new(world, Arc::new(batches), &limits),
        names,
        calls,
        _log: folder,
    }
}

impl Over {
    async fn ask(&self, operation: Operation, id: &str) -> Result<String, (u16, u8)> {
        let (collection, tail) = operation.route().unwrap();
        let id = if id.is_empty() {
            String::new()
        } else {
            format!("/{id}")
        };
        let tail = tail.replace("{index_name}", "i");
        let target = format!("/v1/{collection}{id}/{tail}");
        let mut request = Request::new(Body::full(""));
        *request.method_mut() = operation.method().unwrap().clone();
        *request.uri_mut() = target.trim_end_matches('/').parse().unwrap();
        let stack = RecognizeLayer::default().layer(self.gateway.clone());
        match stack.oneshot(request).await {
            Ok(response) => Ok(text(response).await),
            Err(error) => Err((error.status().as_u16(), error.code().number())),
        }
    }

    fn calls(&self) -> usize {
        self.calls.load(Ordering::Relaxed)
    }
}

fn key(names: &[&str]) -> TableKey {
    TableKey {
        scope: DataScope::default(),
        backend: "lake".into(),
        table: Identifier::from_names(names).unwrap(),
    }
}

fn nothing() -> Meanwhile {
    Box::new(|_| {})
}

#[tokio::test]
async fn no_read_finds_a_hidden_name_and_those_that_take_its_lock_wait() {
    let versions = r#"{"versions":[{"version":1}],"version":{"version":1}}"#;
    let lake = over(&["r"], versions, false, nothing());
    let reads = Operation::LISTED.into_iter().filter(|operation| {
        operation.kind() == Some(Kind::Table) && operation.access() == Access::Read
    });
    let reads: Vec<_> = reads.filter(|read| read.lock() != Lock::Shared).collect();
    assert!(reads.len() >= 7, "{reads:?}");
    let commit_flag = CommitFlag::default();
    lake.names.hide_made(key(&["new"]), &commit_flag);
    for read in &reads {
        let answer = lake.ask(*read, "r$new").await;
        assert_eq!(answer, Err((404, 4)), "{read:?}");
        lake.ask(*read, "r$old").await.unwrap();
    }
    assert_eq!(lake.calls(), reads.len());
    lake.names.reveal(&commit_flag, [&key(&["new"])]);
    for read in &reads {
        lake.ask(*read, "r$new").await.unwrap();
    }
    // Operations that create, change or remove a name take the lock instead, and so wait for the
    // batch.
    for operation in Operation::LISTED {
        let free = [Operation::AlterTransaction, Operation::CreateNamespace];
        if operation.access() == Access::Write && !free.contains(&operation) {
            assert_ne!(operation.lock(), Lock::None, "{operation:?}");
        }
    }
}

/// The name is prepared, or prepared and undone, while the catalog is answering.
#[tokio::test]
async fn a_name_that_was_hidden_meanwhile_is_not_found() {
    let prepare = |names: &Names| {
        let commit_flag = CommitFlag::default();
        names.hide_made(key(&["new"]), &commit_flag);
        commit_flag
    };
    let cases: [Meanwhile; 2] = [
        Box::new(move |names| drop(prepare(names))),
        Box::new(move |names| names.gone(&key(&["new"]), &prepare(names))),
    ];
    for meanwhile in cases {
        let lake = over(&["r"], "{}", false, meanwhile);
        let answer = lake.ask(Operation::DescribeTable, "r$new").await;
        assert_eq!((answer, lake.calls()), (Err((404, 4)), 1));
        lake.ask(Operation::DescribeTable, "r$old").await.unwrap();
    }
}

#[tokio::test]
async fn a_listing_of_one_catalog_leaves_hidden_names_out() {
    for gzip in [false, true] {
        let page = r#"{"tables":["a","new","z"],"page_token":"z"}"#;
        let lake = over(&["r"], page, gzip, nothing());
        assert_eq!(lake.ask(Operation::ListTables, "r$ns").await.unwrap(), page);
        assert_eq!(lake.calls(), 1);
        lake.names.hide_made(key(&["new"]), &CommitFlag::default());
        assert_eq!(lake.ask(Operation::ListTables, "r$ns").await.unwrap(), page);
        assert_eq!(lake.calls(), 2);
        lake.names
            .hide_made(key(&["ns", "new"]), &CommitFlag::default());
        let shown = r#"{"tables":["a","z"],"page_token":"z"}"#;
        let answer = lake.ask(Operation::ListTables, "r$ns").await.unwrap();
        assert_eq!(answer, shown);
        // A compressed answer could not be read, so an uncompressed one is requested.
        assert_eq!(lake.calls(), 3);
    }
    let all = r#"{"tables":["a","ns$new","ns$z"]}"#;
    let lake = over(&[], all, false, nothing());
    lake.names
        .hide_made(key(&["ns", "new"]), &CommitFlag::default());
    let answer = lake.ask(Operation::ListAllTables, "").await.unwrap();
    assert_eq!(answer, r#"{"tables":["a","ns$z"]}"#);
}

/// The name is that of a table that is still being written.
#[tokio::test]
async fn a_listing_of_one_catalog_leaves_unfinished_tables_out() {
    let page = r#"{"tables":["a","__nsgate_new_1","my__nsgate_new_1"],"page_token":"z"}"#;
    let shown = r#"{"tables":["a","my__nsgate_new_1"],"page_token":"z"}"#;
    let lake = over(&["r"], page, true, nothing());
    let answer = lake.ask(Operation::ListTables, "r$ns").await.unwrap();
    assert_eq!((&*answer, lake.calls()), (shown, 1));
    let all = r#"{"tables":["ns$__nsgate_new_1","__nsgate_new_1$z"]}"#;
    let lake = over(&[], all, false, nothing());
    let answer = lake.ask(Operation::ListAllTables, "").await.unwrap();
    assert_eq!(answer, r#"{"tables":["__nsgate_new_1$z"]}"#);
    // An empty page is passed over, but not for ever.
    let page = r#"{"tables":["__nsgate_new_1"],"page_token":"z"}"#;
    let lake = over(&["r"], page, false, nothing());
    let answer = lake.ask(Operation::ListTables, "r$ns").await.unwrap();
    assert_eq!(answer, r#"{"tables":[],"page_token":"z"}"#);
    assert_eq!(lake.calls(), 101);
    lake.ask(Operation::DescribeTable, "r$ns$__nsgate_new_1")
        .await
        .unwrap();
}

#[tokio::test]
async fn a_listing_from_between_two_names_is_asked_for_again() {
    let renames = |at: usize| -> Meanwhile {
        let rounds = AtomicUsize::new(0);
        Box::new(move |names| {
            if rounds.fetch_add(1, Ordering::Relaxed) < at {
                let (commit_flag, old, new) = (CommitFlag::default(), key(&["old"]), key(&["new"]));
                names.hide_removed(old.clone(), &commit_flag);
                names.hide_made(new.clone(), &commit_flag);
                names.reveal(&commit_flag, [&old, &new]);
                names.forget(&new, &commit_flag);
                names.gone(&old, &commit_flag);
            }
        })
    };
    let page = r#"{"tables":["new"]}"#;
    let lake = over(&["r"], page, false, renames(1));
    assert_eq!(lake.ask(Operation::ListTables, "r").await.unwrap(), page);
    assert_eq!(lake.calls(), 2);
    let busy = over(&["r"], page, false, renames(usize::MAX));
    let answer = busy.ask(Operation::ListTables, "r").await;
    assert_eq!(answer, Err((503, 17)));
    assert_eq!(busy.calls(), crate::batch::visibility::names::ROUNDS);
}
