//! The program itself in a process of its own, and what the kernel says of it.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Child, ChildStderr, Command, Stdio};
use std::sync::{Arc, Mutex};

use serde_json::Value;
use tempfile::TempDir;

use crate::issuer::{ISSUER, Issuer};
use crate::site::Site;

/// A running gateway; killed when it is dropped.
pub struct Gateway {
    pub address: SocketAddr,
    pub admin: SocketAddr,
    child: Child,
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
        let program = std::env::var("NSGATE_BIN");
        let program = program.unwrap_or_else(|_| env!("CARGO_BIN_EXE_nsgate").to_owned());
        let mut child = Command::new(program)
            .args(["serve", "--config", "gateway.yaml"])
            .current_dir(folder.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let log = Arc::new(Mutex::new(Log::default()));
        let (admin, address) = follow(child.stderr.take().unwrap(), &log);
        Self {
            address,
            admin,
            child,
            folder,
            yaml,
            spare: spare.address,
            log,
        }
    }

    pub fn id(&self) -> u32 {
        self.child.id()
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
        let process = PathBuf::from(format!("/proc/{}", self.id()));
        let status = std::fs::read_to_string(process.join("status")).unwrap();
        let field = |name: &str| -> f64 {
            let line = status.lines().find_map(|line| line.strip_prefix(name));
            let number = line.unwrap().split_whitespace().next();
            number.unwrap().parse().unwrap()
        };
        let log = std::fs::metadata(self.folder.path().join("batches.redb"));
        Usage {
            resident_mib: field("VmRSS:") / 1024.0,
            files: std::fs::read_dir(process.join("fd")).unwrap().count() as f64,
            threads: field("Threads:"),
            batch_log_mib: log.unwrap().len() as f64 / f64::from(1 << 20),
        }
    }

    /// Calls a function with the summary of the log.
    pub fn log<T>(&self, read: impl FnOnce(&Log) -> T) -> T {
        read(&self.log.lock().unwrap())
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Reads the log for as long as the gateway runs. Returns the addresses for operators and for clients.
fn follow(log: ChildStderr, summary: &Arc<Mutex<Log>>) -> (SocketAddr, SocketAddr) {
    let mut lines = BufReader::new(log).lines().map_while(Result::ok);
    let mut all = String::new();
    let mut admin = None;
    let address = |line: &str, mark: &str| -> Option<SocketAddr> {
        let (_, address) = line.split_once(mark)?;
        address.split('"').next()?.trim().parse().ok()
    };
    loop {
        let Some(line) = lines.next() else {
            panic!("the gateway did not start:\n{all}");
        };
        admin = admin.or_else(|| address(&line, "nsgate admin on http://"));
        if let Some(found) = address(&line, "nsgate listening on http://") {
            let summary = Arc::clone(summary);
            std::thread::spawn(move || {
                for line in lines {
                    summary.lock().unwrap().add(&line);
                }
            });
            return (admin.unwrap(), found);
        }
        let _ = writeln!(all, "{line}");
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
