#![allow(clippy::unwrap_used, reason = "a test says what it expects")]

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use http::{Request, Response, StatusCode};
use tokio::time::Instant;

use crate::backend::{Backend, Catalog, Failure};
use crate::batch::run::fakes::{Nothing, Willing, call, caller};
use crate::batch::visibility::commit_flag::CommitFlag;
use crate::batch::visibility::{Pause, Release, Subject, TableBranch};
use crate::batch::{BatchCall, Batches, Form, TableKey};
use crate::body::Body;
use crate::config::{BatchConfig, BatchMode, Limits};
use crate::metrics::Metrics;
use crate::protocol::commit;
use crate::protocol::data_scope::DataScope;
use crate::protocol::identifier::Identifier;

/// A catalog that has every table and refuses to deregister any.
struct Stubborn;

impl Catalog for Stubborn {
    fn call(&self, request: Request<Body>) -> BoxFuture<'_, Result<Response<Body>, Failure>> {
        Box::pin(async move {
            let mut response = Response::new(Body::full(r#"{"location":"l"}"#));
            if request.uri().path().ends_with("/deregister") {
                *response.status_mut() = StatusCode::FORBIDDEN;
            }
            Ok(response)
        })
    }
}

fn deregister(table: usize) -> BatchCall {
    let body = format!(r#"{{"operations":[{{"deregister_table":{{"id":["t{table}"]}}}}]}}"#);
    BatchCall {
        form: Form::Commit,
        operations: commit::parse(body.as_bytes(), commit::Kinds::Contract, 1)
            .unwrap()
            .operations,
        caller: caller(None),
    }
}

/// The batches wait for an operator and have been acknowledged. Only the names that they would remove stay hidden.
#[tokio::test(start_paused = true)]
async fn batches_that_cannot_be_finished_keep_no_others_from_running() {
    let metrics = Metrics::new();
    let log = Arc::new(Nothing::default());
    let batches = Batches::new(log, BatchConfig::default(), metrics.batch().clone());
    let (mode, limits) = (BatchMode::Versions, Limits::default());
    let sick = Backend::own("sick", mode, Stubborn, &limits, &metrics);
    let well = Backend::own("well", mode, Willing::default(), &limits, &metrics);
    let [sick, well] = [sick, well].map(Arc::new);
    for table in 0..4096 {
        let route = |id: &Identifier| Ok((Arc::clone(&sick), id.clone()));
        let committed = batches.commit(deregister(table), route).await;
        assert_eq!(committed.unwrap().status(), StatusCode::OK);
    }
    assert_eq!(batches.kept().open, 4096);
    let route = |id: &Identifier| Ok((Arc::clone(&well), id.clone()));
    let committed = batches.commit(call(["one", "two"], None), route).await;
    assert_eq!(committed.unwrap().status(), StatusCode::OK);
}

/// An undo has freed version 2 of one of the tables. A batch that makes it again waits for the end of its cool-down, as
/// every writer does.
#[tokio::test(start_paused = true)]
async fn a_batch_waits_for_the_cool_down_of_its_numbers() {
    let metrics = Metrics::new();
    let log = Arc::new(Nothing::default());
    let batches = Batches::new(log, BatchConfig::default(), metrics.batch().clone());
    let (mode, limits) = (BatchMode::Versions, Limits::default());
    let lake = Backend::own("lake", mode, Willing::default(), &limits, &metrics);
    let lake = Arc::new(lake);
    let table = TableKey {
        scope: DataScope::default(),
        backend: Arc::clone(lake.catalog()),
        table: Identifier::from_names(["two"]).unwrap(),
    };
    let rest = Duration::from_secs(3);
    let pause = Pause {
        number: rest,
        above: rest,
    };
    let line = TableBranch::new(table, None);
    let (subject, undone) = (Subject::version(None, 2), CommitFlag::default());
    let visibility = &batches.coordinator.visibility;
    visibility.release(&line, subject, &undone, Release::Clean(pause), None);
    let began = Instant::now();
    let route = |id: &Identifier| Ok((Arc::clone(&lake), id.clone()));
    let committed = batches.commit(call(["one", "two"], None), route).await;
    assert_eq!(committed.unwrap().status(), StatusCode::OK);
    assert!(began.elapsed() >= rest, "{:?}", began.elapsed());
}
