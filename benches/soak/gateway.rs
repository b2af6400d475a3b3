//! The program itself in a process of its own, and what the kernel says of it.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::BufRead as _;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use serde_json::Value;
use tempfile::TempDir;

use crate::issuer::{ISSUER, Issuer};
use crate::proc_status;
use crate::running_gateway::{self, RunningGateway};
use crate::site::Site;

/// A running gateway; killed when it is dropped.
pub struct Gateway {
    pub address: SocketAddr,
    pub admin: SocketAddr,
    process: RunningGateway,
    folder: TempDir,
    /// The configuration without what a reload adds.
    yaml: String,
    /// The catalog that a reload adds.
    spare: SocketAddr,
    log: Arc<Mutex<Log>>,
}

/// A summary of the gateway's log.
#[derive(Default)]
pub struct Log {
    pub bytes: u64,
    /// The number of lines that are no access lines and above `INFO`, by their message.
    pub warnings: BTreeMap<String, usize>,
}

/// The use of resources at one moment.
pub struct Usage {
    pub resident_mib: f64,
    pub files: f64,
    pub threads: f64,
    /// The size of the batch log's file.
    pub batch_log_mib: f64,
}

impl Gateway {
    pub fn start(sites: &[Arc<Site>], spare: &Site, issuer: &Issuer) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let yaml = configuration(sites, issuer);
        std::fs::write(folder.path().join("gateway.yaml"), &yaml).unwrap();
        let command = &mut running_gateway::command(folder.path());
        let (process, lines) = RunningGateway::start_unread(command);
        let log = Arc::new(Mutex::new(Log::default()));
        let summary = Arc::clone(&log);
        std::thread::spawn(move || {
            for line in lines.lines().map_while(Result::ok) {
                summary.lock().unwrap().add(&line);
            }
        });
        Self {
            address: process.address,
            admin: process.admin,
            process,
            folder,
            yaml,
            spare: spare.address,
            log,
        }
    }

    pub fn id(&self) -> u32 {
        self.process.id()
    }

    /// Writes a configuration with one more catalog and mount, which are others each time.
    pub fn change(&self, number: u64) {
        let place = number % 8;
        let extra = format!(
            "  extra{place}: {{ implementation: rest, properties: {{ uri: \"http://{}\" }}, health: {{ interval: 1h }} }}\n\
             mounts:\n  - {{ namespace: [extra, n{number}], backend: extra{place}, backend_namespace: [] }}\n",
            self.spare
        );
        let yaml = self.yaml.replacen("mounts:\n", &extra, 1);
        std::fs::write(self.folder.path().join("gateway.yaml"), yaml).unwrap();
    }

    pub fn usage(&self) -> Usage {
        let files = std::fs::read_dir(format!("/proc/{}/fd", self.id())).unwrap();
        let log = std::fs::metadata(self.folder.path().join("batches.redb"));
        Usage {
            resident_mib: proc_status::mebibytes(self.id(), "VmRSS"),
            files: files.count() as f64,
            threads: proc_status::read(self.id(), "Threads") as f64,
            batch_log_mib: log.unwrap().len() as f64 / f64::from(1 << 20),
        }
    }

    /// Calls a function with the summary of the log.
    pub fn log<T>(&self, read: impl FnOnce(&Log) -> T) -> T {
        read(&self.log.lock().unwrap())
    }
}

impl Log {
    fn add(&mut self, line: &str) {
        self.bytes += line.len() as u64 + 1;
        // Nearly all lines are access lines; the rest is parsed.
        if line.contains("\"level\":\"INFO\"") {
            return;
        }
        let parsed: Value = serde_json::from_str(line).unwrap_or_default();
        let message = &parsed["fields"]["message"];
        let message = message.as_str().or(parsed["message"].as_str());
        let level = parsed["level"].as_str().unwrap_or("?");
        let message = format!("{level} {}", message.unwrap_or(line));
        let known = self.warnings.len() < 100 || self.warnings.contains_key(&message);
        let message = if known { message } else { "others".to_owned() };
        *self.warnings.entry(message).or_default() += 1;
    }
}

/// Every cache and memory with a bound that the load reaches within the minutes that the fit leaves out.
fn configuration(sites: &[Arc<Site>], issuer: &Issuer) -> String {
    let mut yaml = format!(
        "listen: {{ address: \"127.0.0.1:0\" }}\n\
         admin: {{ address: \"127.0.0.1:0\" }}\n\
         limits: {{ rate: {{ per_subject: 100000/s, burst: 100000 }} }}\n\
         auth:\n  issuers:\n    - {{ issuer: \"{ISSUER}\", audiences: [catalog], algorithms: [ES256], \
         keys: {{ url: \"http://{}/jwks\" }}, context: {{ tenant: tenant }} }}\n\
         authorization:\n  - {{ namespace: [], read: {{ scope: catalog.read }}, write: {{ scope: catalog.write }} }}\n\
         batch: {{ log: batches.redb, outcome_memory: 4MiB, remember_outcomes: 5m, slot_cooldown: 1s, lock_timeout: 2s }}\n\
         backends:\n",
        issuer.address
    );
    for site in sites {
        let _ = writeln!(
            yaml,
            "  {}: {{ implementation: rest, properties: {{ uri: \"http://{}\" }}, batch: versions, \
             health: {{ interval: 2s }}, breaker: {{ open_for: 1s }} }}",
            site.name, site.address
        );
    }
    yaml.push_str("mounts:\n");
    for Site { name, .. } in sites.iter().map(AsRef::as_ref) {
        let _ = writeln!(
            yaml,
            "  - {{ namespace: [{name}], backend: {name}, backend_namespace: [] }}"
        );
        let _ = writeln!(yaml, "  - {{ namespace: [same, {name}], backend: {name} }}");
    }
    yaml
}
