//! The program itself under callgrind, configured as an operator would.

use std::fs;
use std::net::SocketAddr;
use std::process::Command;
use std::thread;
use std::time::Duration;

use tempfile::TempDir;

use crate::case::{self, Keys};
use crate::catalog::{self, STUCK};
use crate::count::Count;
use crate::message::Connection;
use crate::running_gateway::{RunningGateway, program};

/// The function whose call makes callgrind write the counts and begin anew; only the page of metrics
/// calls it.
const BOUNDARY: &str = "nsgate::metrics::Metrics::render_as";
/// The prefix of the files with the counts; the number of the boundary follows.
const COUNTS: &str = "counts";

/// A running gateway; killed when it is dropped.
pub struct Program {
    pub address: SocketAddr,
    near: SocketAddr,
    admin: Connection,
    boundaries: usize,
    _gateway: RunningGateway,
    folder: TempDir,
}

impl Program {
    /// Starts a gateway with two mounts of one catalog, one of them under another name there, and one
    /// mount of another catalog.
    pub fn start(keys: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("keys.json"), keys).unwrap();
        let (near, far) = (catalog::serve(), catalog::serve());
        let yaml = CONFIGURATION
            .replace("ISSUER", case::ISSUER)
            .replace("NEAR", &near.to_string())
            .replace("FAR", &far.to_string());
        fs::write(folder.path().join("gateway.yaml"), yaml).unwrap();
        let mut command = Command::new("valgrind");
        command
            .args(["-q", "--tool=callgrind", "--callgrind-out-file=counts"])
            .arg(format!("--dump-before={BOUNDARY}"))
            .args([&program(), "serve", "--config", "gateway.yaml"])
            .current_dir(folder.path())
            // Timed returns of memory to the system would change the counts, so freed memory is kept.
            .env("MALLOC_CONF", "dirty_decay_ms:-1,muzzy_decay_ms:-1");
        let gateway = RunningGateway::start(&mut command);
        Self {
            address: gateway.address,
            near,
            admin: Connection::open(gateway.admin),
            boundaries: 0,
            _gateway: gateway,
            folder,
        }
    }

    /// Returns the counts since the last call, including the request for them.
    pub fn so_far(&mut self) -> Count {
        self.admin
            .send(b"GET /metrics HTTP/1.1\r\nhost: localhost\r\n\r\n");
        let page = self.admin.receive().expect("the page of metrics");
        assert!(page.first.contains("200"), "{}", page.first);
        self.boundaries += 1;
        let file = format!("{COUNTS}.{}", self.boundaries);
        let file = self.folder.path().join(file);
        let text = fs::read_to_string(&file);
        let text = text.unwrap_or_else(|_| panic!("{BOUNDARY} was not called as a function"));
        let _ = fs::remove_file(file);
        Count::read(&text)
    }

    /// Begins a batch that is never decided, so that one version of `[prod, batched]` stays hidden.
    pub fn hide_a_version(&self, keys: &Keys) {
        let address = self.address;
        let own = case::two_versions(["prod", "far"], "batched", 2);
        let body = own.replace("\"far\",\"batched\"", &format!("\"far\",\"{STUCK}\""));
        let batch = case::post(
            "/v1/table/version/batch-create",
            keys.warm(),
            "application/json",
            body.as_bytes(),
        );
        let batch = thread::spawn(move || {
            let mut client = Connection::open(address);
            client.send(&batch);
            client.receive()
        });
        // The batch waits for the far catalog; the version in this catalog has been created, and must be
        // hidden.
        let created = "POST /v1/table/prod%24batched/version/list?limit=1 HTTP/1.1\r\n\r\n";
        let mut catalog = Connection::open(self.near);
        loop {
            catalog.send(created.as_bytes());
            let latest = catalog.receive().expect("the latest version").body;
            assert!(!batch.is_finished(), "the batch has ended");
            if String::from_utf8_lossy(&latest).contains("\"version\":2}") {
                return;
            }
            thread::sleep(Duration::from_millis(5));
        }
    }
}

/// A configuration with as little periodic work as possible.
const CONFIGURATION: &str = r#"
listen: { address: "127.0.0.1:0", workers: 1 }
admin: { address: "127.0.0.1:0" }
limits: { header_timeout: 60s }
auth:
  issuers:
    - { issuer: "ISSUER", audiences: [catalog], algorithms: [RS256, ES256], keys: { file: keys.json } }
backends:
  near: { implementation: rest, properties: { uri: "http://NEAR" }, selects: { context: [tenant], headers: [x-lancedb-database] }, batch: versions, health: { interval: 1h } }
  far: { implementation: rest, properties: { uri: "http://FAR" }, selects: { context: [tenant], headers: [x-lancedb-database] }, batch: versions, health: { interval: 1h } }
mounts:
  - { namespace: [prod], backend: near }
  - { namespace: [moved], backend: near, backend_namespace: [prod] }
  - { namespace: [far], backend: far }
batch: { log: batches.redb, prepare_timeout: 10m, lock_timeout: 10m }
telemetry: { access_log: false }
"#;
