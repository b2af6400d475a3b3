//! The cost of a mount whose root differs in the catalog: bodies, and a whole request through the gateway.

use std::sync::Arc;

use bytes::Bytes;
use divan::{Bencher, black_box};
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use http::{Request, Response};
use nsgate::backend::{self, Backend, Failure};
use nsgate::batch::Batches;
use nsgate::batch::log::disk::DiskLog;
use nsgate::body::Body;
use nsgate::config::{BatchConfig, BatchMode, Limits};
use nsgate::gateway::{Gateway, RoutingSnapshot};
use nsgate::layer::recognize::RecognizeLayer;
use nsgate::metrics::Metrics;
use nsgate::protocol::identifier::Identifier;
use nsgate::protocol::operation::Operation;
use nsgate::protocol::rewrite::{self, RequestRoute, ResponseRoute};
use nsgate::route::{Mount, Table};
use tower::{Layer as _, Service as _};

use crate::inside::request;

const ANSWER: &str = r#"{"table":"t1","namespace":["lake"],"location":"s3://bucket/t1.lance","managed_versioning":true,"version":7,"storage_options":{"region":"eu-central-1"}}"#;

#[divan::bench]
fn body_of_a_request(bencher: Bencher<'_, '_>) {
    let (here, there) = (id(["moved", "t1"]), id(["lake", "t1"]));
    let body = Bytes::from_static(br#"{"id":["moved","t1"],"check_declared":false}"#);
    let asked = RequestRoute {
        operation: Operation::DescribeTable,
        id: Some(&here),
        index_name: None,
    };
    bencher.bench_local(|| {
        let rename = |_: &Identifier| Ok(Some(there.clone()));
        rewrite::request(black_box(asked), black_box(body.clone()), rename, |_, _| {
            Ok(true)
        })
        .unwrap()
    });
}

#[divan::bench]
fn body_of_an_answer(bencher: Bencher<'_, '_>) {
    let (here, there) = (id(["moved", "t1"]), id(["lake", "t1"]));
    let (from, to) = (id(["lake"]), id(["moved"]));
    let body = Bytes::from_static(ANSWER.as_bytes());
    bencher.bench_local(|| {
        let answered = ResponseRoute {
            operation: Operation::DescribeTable,
            asked: black_box(&here),
            there: black_box(&there),
        };
        let to_client = |there: &Identifier| there.rebase(&from, &to);
        rewrite::response(
            answered,
            black_box(&body),
            to_client,
            rewrite::Changes::default(),
        )
        .unwrap()
    });
}

/// The request is recognized, checked, rewritten and answered by a catalog of this process; `kept` is the same
/// without a rewrite.
#[divan::bench(args = ["kept", "moved"])]
fn whole_request(bencher: Bencher<'_, '_>, mount: &str) {
    // Timeouts need the clock of a runtime.
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_all().build().unwrap();
    let _clock = runtime.enter();
    let folder = tempfile::tempdir().unwrap();
    let log = DiskLog::open(&folder.path().join("batches.redb"), |error| {
        panic!("{error}")
    });
    let (metrics, limits) = (Metrics::new(), Limits::default());
    let batches = Batches::new(
        Arc::new(log.unwrap()),
        BatchConfig::default(),
        metrics.batch().clone(),
    );
    let backend = Backend::own("lake", BatchMode::Versions, Echo, &limits, &metrics);
    let mounts = [("kept", "kept"), ("moved", "lake")].map(|(here, there)| Mount {
        namespace: id([here]),
        backend: 0,
        backend_name: backend.name().clone(),
        backend_namespace: id([there]),
    });
    let world = RoutingSnapshot {
        routes: Table::new(mounts.into()),
        backends: vec![Arc::new(backend)],
    };
    let gateway = Gateway::new(Arc::new(world), Arc::new(batches), &limits);
    let mut gateway = RecognizeLayer::default().layer(gateway);
    bencher
        .with_inputs(|| {
            let body = format!(r#"{{"id":["{mount}","t1"],"check_declared":false}}"#);
            let request = request(&format!("/v1/table/{mount}%24t1/describe?delimiter=%24"));
            request.body(Body::full(body)).unwrap()
        })
        .bench_local_values(|request| {
            let answer = gateway.call(black_box(request)).now_or_never();
            let answer = answer.expect("it does not wait").unwrap();
            assert!(answer.status().is_success());
            answer
        });
}

/// A catalog that gives every request the same answer.
struct Echo;

impl backend::Catalog for Echo {
    fn call(&self, _: Request<Body>) -> BoxFuture<'_, Result<Response<Body>, Failure>> {
        let mut response = Response::new(Body::full(ANSWER));
        let json = http::HeaderValue::from_static("application/json");
        response
            .headers_mut()
            .insert(http::header::CONTENT_TYPE, json);
        Box::pin(std::future::ready(Ok(response)))
    }
}

fn id<const N: usize>(names: [&str; N]) -> Identifier {
    Identifier::from_names(names).unwrap()
}
