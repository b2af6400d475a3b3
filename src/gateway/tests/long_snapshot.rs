//! A snapshot over a catalog that ignores `limit` holds few of its long lists at a time.

use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use futures_util::future::BoxFuture;
use futures_util::stream;
use http_body::Frame;
use http_body_util::StreamBody;

use super::*;
use crate::backend::{self, Failure};
use crate::config::BatchMode;
use crate::error::BoxError;

/// The number of tables, all of one catalog.
const TABLES: usize = 20;

/// The lists that are read at the same time.
#[derive(Clone, Default)]
struct Reads {
    now: Arc<AtomicUsize>,
    most: Arc<AtomicUsize>,
    all: Arc<AtomicUsize>,
}

impl backend::Catalog for Reads {
    fn call(&self, _: Request<Body>) -> BoxFuture<'_, Result<Response<Body>, Failure>> {
        let reads = self.clone();
        Box::pin(async move {
            // Long enough to stream.
            let first = format!("{{\"versions\":[{{\"version\":2}}{}", " ".repeat(70 << 10));
            let pieces = stream::unfold((0, first), move |(at, piece)| {
                let reads = reads.clone();
                async move {
                    let next = match at {
                        0 => " ".to_owned(),
                        1 => {
                            let now = reads.now.fetch_add(1, Ordering::Relaxed) + 1;
                            reads.most.fetch_max(now, Ordering::Relaxed);
                            reads.all.fetch_add(1, Ordering::Relaxed);
                            // The others would be read meanwhile.
                            for _ in 0..10 {
                                tokio::task::yield_now().await;
                            }
                            ",{\"version\":1}]}".to_owned()
                        }
                        2 => {
                            reads.now.fetch_sub(1, Ordering::Relaxed);
                            String::new()
                        }
                        _ => return None,
                    };
                    let frame = Frame::data(Bytes::from(piece));
                    Some((Ok::<_, BoxError>(frame), (at + 1, next)))
                }
            });
            Ok(Response::new(Body::stream(StreamBody::new(Box::pin(
                pieces,
            )))))
        })
    }
}

#[tokio::test]
async fn a_snapshot_holds_few_long_answers_at_a_time() {
    let (limits, metrics) = (Limits::default(), Metrics::new());
    let folder = tempfile::tempdir().unwrap();
    let log = DiskLog::open(&folder.path().join("log"), |_| {}).unwrap();
    let settings = BatchConfig::default();
    let batches = Batches::new(Arc::new(log), settings, metrics.batch().clone());
    let catalog = Reads::default();
    let reads = catalog.clone();
    let backend = Backend::own("lake", BatchMode::Versions, catalog, &limits, &metrics);
    let mount = route::Mount {
        namespace: Identifier::from_names(["r"]).unwrap(),
        backend: 0,
        backend_name: backend.name().clone(),
        backend_namespace: Identifier::root(),
    };
    let routes = route::Table::new(vec![mount]);
    let backends = vec![Arc::new(backend)];
    let world = Arc::new(RoutingSnapshot { routes, backends });
    let gateway = Gateway::new(world, Arc::new(batches), &limits);
    let tables = (0..TABLES).map(|table| format!("{{\"id\":[\"r\",\"t{table}\"]}}"));
    let body = format!("{{\"tables\":[{}]}}", tables.collect::<Vec<_>>().join(","));
    let mut request = Request::new(Body::full(body));
    *request.method_mut() = Method::POST;
    *request.uri_mut() = "/nsgate/v1/snapshot".parse().unwrap();
    let stack = RecognizeLayer::default().layer(gateway);
    let response = stack.oneshot(request).await;
    let response = response.unwrap_or_else(|error| panic!("{error}"));
    let text = text(response).await;
    assert_eq!(text.matches("\"version\":2").count(), TABLES, "{text}");
    let count = |count: &AtomicUsize| count.load(Ordering::Relaxed);
    assert_eq!(count(&reads.all), 2 * TABLES, "two rounds");
    assert_eq!(count(&reads.most), 4);
}
