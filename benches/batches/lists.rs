//! The memory that long lists of versions take, while no batch is near and while one hides a version.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use futures_util::future::BoxFuture;
use futures_util::stream;
use http::header::CONTENT_TYPE;
use http::{HeaderValue, Method, Request, Response};
use http_body::Frame;
use http_body_util::{BodyExt as _, StreamBody};
use nsgate::backend::{self, Backend, Failure};
use nsgate::batch::Batches;
use nsgate::batch::log::disk::DiskLog;
use nsgate::body::Body;
use nsgate::config::{BatchConfig, BatchMode, Limits};
use nsgate::gateway::{Gateway, RoutingSnapshot};
use nsgate::layer::recognize::{Recognize, RecognizeLayer};
use nsgate::metrics::Metrics;
use nsgate::protocol::identifier::Identifier;
use nsgate::protocol::operation::Operation;
use nsgate::route;
use tower::{Layer as _, ServiceExt as _};

use crate::memory::{forget_most, most, resident};
use crate::table::Table;

/// The numbers of lists at a time, and of versions in each.
const AT_ONCE: usize = 16;
const SIZES: [u64; 4] = [10_000, 40_000, 160_000, 320_000];
/// The highest growth of the memory with the number of versions, as the slope of the logarithms.
const EXPONENT: f64 = 0.1;
/// The highest memory of all lists together, in MiB.
const MEMORY: f64 = 8.0;
/// The length of a piece, in bytes.
const PIECE: usize = 16 << 10;

/// A catalog whose tables have as many versions as their names say, of which the last is being created for ever.
struct Endless;

impl backend::Catalog for Endless {
    fn call(&self, request: Request<Body>) -> BoxFuture<'_, Result<Response<Body>, Failure>> {
        let operation = request.extensions().get::<Operation>().copied();
        let table = request.extensions().get::<Identifier>();
        let name = table.and_then(|table| table.last()).unwrap_or_default();
        let versions: u64 = name.trim_start_matches('t').parse().unwrap_or_default();
        let is_limited = request
            .uri()
            .query()
            .is_some_and(|query| query.contains("limit=1"));
        Box::pin(async move {
            match operation {
                Some(Operation::ListTableVersions) => {
                    let body = if is_limited {
                        Body::full(format!(
                            r#"{{"versions":[{{"version":{}}}]}}"#,
                            versions - 1
                        ))
                    } else {
                        list(versions)
                    };
                    let mut response = Response::new(body);
                    let json = HeaderValue::from_static("application/json");
                    response.headers_mut().insert(CONTENT_TYPE, json);
                    Ok(response)
                }
                Some(Operation::CreateTableVersion) => std::future::pending().await,
                _ => Ok(Response::new(Body::full("{}"))),
            }
        })
    }
}

fn list(versions: u64) -> Body {
    let pieces = stream::unfold(1, move |mut version| async move {
        if version > versions {
            return None;
        }
        let mut piece = BytesMut::with_capacity(PIECE + 256);
        if version == 1 {
            piece.extend_from_slice(b"{\"versions\":[");
        }
        while version <= versions && piece.len() < PIECE {
            let comma = if version > 1 { "," } else { "" };
            let text =
                format!("{comma}{{\"version\":{version},\"manifest_path\":\"v/{version:020}\"}}");
            piece.extend_from_slice(text.as_bytes());
            version += 1;
        }
        if version > versions {
            piece.extend_from_slice(b"]}");
        }
        Some((
            Ok::<_, std::io::Error>(Frame::data(piece.freeze())),
            version,
        ))
    });
    Body::stream(StreamBody::new(pieces))
}

fn stack(held: Option<usize>) -> (Recognize<Gateway>, Arc<Batches>, tempfile::TempDir) {
    let (limits, metrics) = (Limits::default(), Metrics::new());
    let folder = tempfile::tempdir().unwrap();
    let log = DiskLog::open(&folder.path().join("batches.redb"), |error| {
        panic!("{error}")
    });
    let settings = BatchConfig {
        prepare_timeout: std::time::Duration::from_secs(3600),
        ..BatchConfig::default()
    };
    let mut batches = Batches::new(Arc::new(log.unwrap()), settings, metrics.batch().clone());
    if let Some(held) = held {
        batches = batches.streaming_lists_above(held);
    }
    let batches = Arc::new(batches);
    let backend = Backend::own("c0", BatchMode::Versions, Endless, &limits, &metrics);
    let mount = route::Mount {
        namespace: Identifier::from_names(["c0"]).unwrap(),
        backend: 0,
        backend_name: backend.name().clone(),
        backend_namespace: Identifier::root(),
    };
    let world = Arc::new(RoutingSnapshot {
        routes: route::Table::new(vec![mount]),
        backends: vec![Arc::new(backend)],
    });
    let gateway = Gateway::new(world, Arc::clone(&batches), &limits);
    (RecognizeLayer::default().layer(gateway), batches, folder)
}

/// Reads a list, and returns its length.
async fn read(stack: Recognize<Gateway>, target: String) -> usize {
    let mut request = Request::new(Body::empty());
    *request.method_mut() = Method::POST;
    *request.uri_mut() = target.parse().unwrap();
    let mut body = stack.oneshot(request).await.unwrap().into_body();
    let mut length = 0;
    while let Some(frame) = body.frame().await {
        length += frame.unwrap().data_ref().map_or(0, Bytes::len);
        tokio::task::yield_now().await;
    }
    length
}

/// Returns the memory that lists of this many versions add at their peak, in MiB, and the length of one.
async fn peak(stack: &Recognize<Gateway>, versions: u64) -> (f64, usize) {
    forget_most();
    let before = resident();
    let lists = (0..AT_ONCE).map(|_| {
        let target = format!("/v1/table/c0%24t{versions}/version/list");
        tokio::spawn(read(stack.clone(), target))
    });
    let lists: Vec<_> = lists.collect();
    let mut length = 0;
    for list in lists {
        length = list.await.unwrap();
    }
    (most() - before, length)
}

pub async fn measure(table: &mut Table) {
    for hides in [false, true] {
        let (stack, batches, _folder) = stack(None);
        if hides {
            for versions in SIZES {
                begin(&stack, versions).await;
            }
            let began = std::time::Instant::now();
            while batches.kept().lines < SIZES.len() {
                assert!(began.elapsed().as_secs() < 10, "the batches hide nothing");
                tokio::time::sleep(std::time::Duration::from_millis(1)).await;
            }
        }
        let what = if hides {
            "a version hidden"
        } else {
            "none hidden"
        };
        let mut peaks = Vec::new();
        // The first makes the allocator and the workers ready.
        peak(&stack, SIZES[0]).await;
        for versions in SIZES {
            let used = crate::processor::of_process(std::process::id());
            let (peak, length) = peak(&stack, versions).await;
            let used = crate::processor::of_process(std::process::id()) - used;
            let each = used.as_secs_f64() * 1e9 / (AT_ONCE as f64 * versions as f64);
            table.note(
                &format!("{AT_ONCE} lists of {versions} versions ({length} bytes), {what}"),
                format!("{peak:.2} MiB, {each:.0} ns a version"),
            );
            peaks.push((versions as f64, resident().max(1.0) + peak));
            table.at_most("    memory that they add at the peak", peak, MEMORY, "MiB");
        }
        table.at_most(
            "    exponent of memory over versions",
            slope(&peaks),
            EXPONENT,
            "",
        );
        batches.close().await.unwrap();
    }
    let (stack, batches, _folder) = stack(Some(64 << 20));
    let (peak, length) = peak(&stack, SIZES[3]).await;
    table.note(
        &format!("the last ones read whole ({length} bytes)"),
        format!("{peak:.2} MiB"),
    );
    batches.close().await.unwrap();
}

/// Begins a batch that hides the last version of a table, and never ends.
async fn begin(stack: &Recognize<Gateway>, versions: u64) {
    let entry = |table: String| {
        serde_json::json!({
            "id": ["c0", table], "version": versions, "manifest_path": "p", "manifest_size": 1,
        })
    };
    let entries = [entry(format!("t{versions}"))];
    let body = serde_json::json!({ "entries": entries }).to_string();
    let mut request = Request::new(Body::full(body));
    *request.method_mut() = Method::POST;
    *request.uri_mut() = "/v1/table/version/batch-create".parse().unwrap();
    let json = HeaderValue::from_static("application/json");
    request.headers_mut().insert(CONTENT_TYPE, json);
    tokio::spawn(stack.clone().oneshot(request));
}

/// The slope of the logarithms, by least squares.
fn slope(points: &[(f64, f64)]) -> f64 {
    let logs = points.iter().map(|(x, y)| (x.ln(), y.ln()));
    let logs: Vec<_> = logs.collect();
    let count = logs.len() as f64;
    let mean = |of: fn(&(f64, f64)) -> f64| logs.iter().map(of).sum::<f64>() / count;
    let (x, y) = (mean(|log| log.0), mean(|log| log.1));
    let both = logs
        .iter()
        .map(|log| (log.0 - x) * (log.1 - y))
        .sum::<f64>();
    both / logs.iter().map(|log| (log.0 - x).powi(2)).sum::<f64>()
}
