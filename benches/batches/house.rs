//! A gateway in this process over catalogs in this process, with the real log on the real disk.

use std::io::{Seek as _, Write as _};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderValue, Method, Request};
use nsgate::backend::Backend;
use nsgate::batch::Batches;
use nsgate::batch::log::Log;
use nsgate::batch::log::disk::DiskLog;
use nsgate::batch::log::postgres::{PostgresLog, prepare};
use nsgate::body::Body;
use nsgate::config::{BatchConfig, BatchMode, Limits, LogAddress};
use nsgate::gateway::{Gateway, RoutingSnapshot};
use nsgate::layer::recognize::{Recognize, RecognizeLayer};
use nsgate::metrics::Metrics;
use nsgate::protocol::identifier::Identifier;
use nsgate::route;
use tempfile::TempDir;
use tower::{Layer as _, ServiceExt as _};

use crate::catalog::Catalog;
use crate::table::Times;

/// The largest answer that is read, in bytes.
const ANSWER: usize = 64 << 20;

/// A gateway. Catalog number `n` is the backend `c{n}`, and its root is mounted at `[c{n}]`.
pub struct House {
    pub batches: Arc<Batches>,
    /// The backends of the configuration.
    pub backends: Vec<Arc<Backend>>,
    stack: Recognize<Gateway>,
    metrics: Metrics,
    _folder: TempDir,
}

impl House {
    pub fn new(catalogs: &[Catalog], settings: BatchConfig) -> Self {
        Self::within(tempfile::tempdir().unwrap(), catalogs, settings)
    }

    /// Does the same with the log in memory, where no write waits for a disk.
    pub fn in_memory(catalogs: &[Catalog], settings: BatchConfig) -> Self {
        let folder = tempfile::tempdir_in("/dev/shm").unwrap();
        Self::within(folder, catalogs, settings)
    }

    /// Does the same with the log that is in the folder already, if there is one.
    pub fn within(folder: TempDir, catalogs: &[Catalog], settings: BatchConfig) -> Self {
        let (limits, metrics) = (Limits::default(), Metrics::new());
        let (mut backends, mut mounts) = (Vec::new(), Vec::new());
        for (number, catalog) in catalogs.iter().enumerate() {
            let name = format!("c{number}");
            let catalog = catalog.clone();
            let backend = Backend::own(&name, BatchMode::Versions, catalog, &limits, &metrics);
            mounts.push(route::Mount {
                namespace: Identifier::from_names([&name]).unwrap(),
                backend: number,
                backend_name: backend.name().clone(),
                backend_namespace: Identifier::root(),
            });
            backends.push(Arc::new(backend));
        }
        let log: Arc<dyn Log> = match std::env::var("NSGATE_BENCH_LOG") {
            Ok(address) => Arc::new(in_postgres(&address)),
            Err(_) => {
                let log = DiskLog::open(&folder.path().join("batches.redb"), |error| {
                    panic!("{error}")
                });
                Arc::new(log.unwrap())
            }
        };
        let batches = Batches::new(log, settings, metrics.batch().clone());
        let batches = Arc::new(batches);
        let world = RoutingSnapshot {
            routes: route::Table::new(mounts),
            backends: backends.clone(),
        };
        let world = Arc::new(world);
        let gateway = Gateway::new(world, Arc::clone(&batches), &limits);
        Self {
            batches,
            backends,
            stack: RecognizeLayer::default().layer(gateway),
            metrics,
            _folder: folder,
        }
    }

    /// Closes the log, so that the folder can be deleted.
    pub async fn close(&self) {
        self.batches.close().await.unwrap();
    }

    /// Returns the answer's body; panics if the answer is not a success.
    pub async fn post(&self, target: &str, body: impl Into<Bytes>) -> Bytes {
        self.send(target, "application/json", body).await
    }

    /// Does the same with a body of another content type.
    pub async fn send(
        &self,
        target: &str,
        content_type: &'static str,
        body: impl Into<Bytes>,
    ) -> Bytes {
        let mut request = Request::new(Body::full(body));
        *request.method_mut() = Method::POST;
        *request.uri_mut() = target.parse().unwrap();
        let content_type = HeaderValue::from_static(content_type);
        request.headers_mut().insert(CONTENT_TYPE, content_type);
        let response = self.stack.clone().oneshot(request).await.unwrap();
        let status = response.status();
        let body = response.into_body().collect_up_to(ANSWER).await.unwrap();
        assert!(
            status.is_success(),
            "{status}: {}",
            String::from_utf8_lossy(&body)
        );
        body
    }

    /// Does the same without a body.
    pub async fn list(&self, target: &str) -> Bytes {
        self.post(target, Bytes::new()).await
    }

    /// Returns the average duration of a phase of a batch.
    pub fn phase(&self, phase: &str) -> Duration {
        let page = self.metrics.render().unwrap();
        let sample = |what: &str| -> f64 {
            let name = format!("nsgate_batch_duration_seconds_{what}{{phase=\"{phase}\"}} ");
            let found = page.lines().find_map(|line| line.strip_prefix(&name));
            found.unwrap().parse().unwrap()
        };
        Duration::from_secs_f64(sample("sum") / sample("count"))
    }

    /// Runs one batch: the same version of the same table in each of the first catalogs.
    pub async fn batch(&self, catalogs: usize, table: &str, version: u64) {
        let tables = (0..catalogs).map(|number| format!("c{number}\",\"{table}"));
        self.post("/v1/table/version/batch-create", batch(tables, version))
            .await;
    }
}

/// Returns the median time that the disk takes to make 4 KiB durable in a file that already has them, as with most
/// writes of the log.
pub fn fsync() -> Duration {
    let mut file = tempfile::tempfile().unwrap();
    let mut times = Times::default();
    for round in 0..100 {
        file.rewind().unwrap();
        file.write_all(&[round; 4096]).unwrap();
        let began = Instant::now();
        file.sync_data().unwrap();
        times.add(began.elapsed());
    }
    times.median()
}

/// Returns the body of a batch: the same version of each table. A table is given as the text between the quotes of its
/// identifier.
pub fn batch(tables: impl Iterator<Item = String>, version: u64) -> String {
    let entries: Vec<String> = tables
        .map(|table| {
            format!(
                "{{\"id\":[\"{table}\"],\"version\":{version},\"manifest_path\":\"staged/{version}\",\"manifest_size\":{}}}",
                1000 + version
            )
        })
        .collect();
    format!("{{\"entries\":[{}]}}", entries.join(","))
}

/// Opens a log in a new schema of this database.
fn in_postgres(address: &str) -> PostgresLog {
    let settings = BatchConfig {
        log: LogAddress::parse(address).unwrap(),
        schema: format!("bench_{}", uuid::Uuid::now_v7().simple()),
        ..BatchConfig::default()
    };
    let config = settings.postgres().unwrap();
    let open = async move {
        prepare(&config, None).await.unwrap();
        let opened = PostgresLog::open(&config, "bench", |error| panic!("{error}")).await;
        opened.unwrap()
    };
    // A measurement may run on a runtime already, which cannot wait for another.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    std::thread::scope(|scope| scope.spawn(|| runtime.block_on(open)).join().unwrap())
}
