//! Runs a gateway over catalogs of this process, configured as by an operator, in a folder of its own.
//!
//! The gateway is the real program, so that a kill is a real one and a restart finds what is on disk.

use std::fmt::Write as _;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::catalog::Catalog;
use crate::catalog::faults::PATIENCE;
use crate::client::{Client, Reply};
use crate::token;

/// The parts of a world: configuration and catalogs.
pub struct Setup {
    listen: String,
    mounts: String,
    backends: Vec<(&'static str, String)>,
    sections: String,
    files: Vec<(&'static str, String)>,
    at: Vec<(&'static str, String)>,
}

/// A running gateway and its catalogs.
pub struct World {
    pub catalogs: Vec<(&'static str, Catalog)>,
    gateway: Gateway,
    /// The gateway that owns the log, if the tested one is to pass requests on to it: `NSGATE_FOLLOWER_LOG`.
    _owner: Option<Gateway>,
    /// Further gateways with the same configuration.
    others: Vec<Gateway>,
    folder: TempDir,
}

/// One run of the program.
struct Gateway {
    child: Child,
    address: SocketAddr,
    admin: SocketAddr,
    log: Arc<Mutex<String>>,
}

impl Setup {
    /// Makes a setup without mounts.
    pub fn new() -> Self {
        Self {
            listen: String::new(),
            mounts: String::new(),
            backends: Vec::new(),
            sections: String::new(),
            files: Vec::new(),
            at: Vec::new(),
        }
    }

    /// Makes a setup with `[west]` and `[east]`, each mounted from a catalog of that name under the same path.
    pub fn two() -> Self {
        Self::new().mount("[west]", "west").mount("[east]", "east")
    }

    /// Mounts a catalog at a namespace written in YAML, e.g. `[a, b]`.
    pub fn mount(self, namespace: &str, backend: &'static str) -> Self {
        self.rerooted(namespace, backend, namespace)
    }

    /// Mounts a catalog at a namespace that is `there` in the catalog.
    pub fn rerooted(mut self, namespace: &str, backend: &'static str, there: &str) -> Self {
        let _ = writeln!(
            self.mounts,
            "  - {{ namespace: {namespace}, backend: {backend}, backend_namespace: {there} }}"
        );
        if !self.backends.iter().any(|(name, _)| *name == backend) {
            self.backends.push((backend, String::new()));
        }
        self
    }

    /// Adds a line to a backend's section, e.g. `batch: atomic`.
    pub fn backend(mut self, backend: &'static str, line: &str) -> Self {
        let found = self.backends.iter_mut().find(|(name, _)| *name == backend);
        let (_, lines) = found.expect("mounted before");
        let _ = writeln!(lines, "    {line}");
        self
    }

    /// Adds a line to the `listen` section.
    pub fn listen(mut self, line: &str) -> Self {
        let _ = writeln!(self.listen, "  {line}");
        self
    }

    /// Adds a top-level section, e.g. `limits: { in_flight: 1 }`.
    pub fn section(mut self, yaml: &str) -> Self {
        let _ = writeln!(self.sections, "{yaml}");
        self
    }

    /// Adds a file beside the configuration.
    pub fn file(mut self, name: &'static str, text: String) -> Self {
        self.files.push((name, text));
        self
    }

    /// Sets the address at which the gateway finds a catalog, if it is not the catalog's own.
    pub fn at(mut self, backend: &'static str, uri: String) -> Self {
        self.at.push((backend, uri));
        self
    }

    /// Starts the catalogs and the gateway.
    pub async fn start(self) -> World {
        let mut catalogs = Vec::new();
        for (name, _) in &self.backends {
            catalogs.push((*name, Catalog::start().await));
        }
        self.over(catalogs).await
    }

    /// Starts the gateway over catalogs that are running.
    pub async fn over(self, catalogs: Vec<(&'static str, Catalog)>) -> World {
        self.over_with(catalogs, &[]).await
    }

    /// Starts the gateway over catalogs that are running, with these files beside its configuration.
    pub async fn over_with(
        self,
        catalogs: Vec<(&'static str, Catalog)>,
        files: &[(&str, &str)],
    ) -> World {
        let folder = TempDir::new().unwrap();
        for (name, content) in files {
            std::fs::write(folder.path().join(name), content).unwrap();
        }
        let yaml = self.yaml(&catalogs);
        let shared = shared(&yaml);
        let yaml = shared.as_ref().unwrap_or(&yaml);
        std::fs::write(folder.path().join("gateway.yaml"), yaml).unwrap();
        let keys = token::key_set().to_string();
        std::fs::write(folder.path().join("keys.json"), keys).unwrap();
        for (name, text) in &self.files {
            std::fs::write(folder.path().join(name), text).unwrap();
        }
        let _owner = match &shared {
            Some(_) => Some(Gateway::start(&folder).await),
            None => None,
        };
        let gateway = Gateway::start(&folder).await;
        World {
            catalogs,
            gateway,
            _owner,
            others: Vec::new(),
            folder,
        }
    }

    fn yaml(&self, catalogs: &[(&'static str, Catalog)]) -> String {
        let mut yaml = format!(
            "listen:\n  address: 127.0.0.1:0\n  workers: 2\n{}",
            self.listen
        );
        if !self.sections.contains("admin:") {
            yaml.push_str("admin: { address: 127.0.0.1:0 }\n");
        }
        if !self.sections.contains("auth:") {
            let _ = writeln!(
                yaml,
                "auth:\n  issuers:\n    - issuer: {}\n      audiences: [catalog]\n      algorithms: [ES256]\n      \
                 keys: {{ file: keys.json }}\n      context: {{ tenant: tenant }}",
                token::ISSUER
            );
        }
        if !self.sections.contains("batch:") {
            yaml.push_str("batch: { log: batches.redb }\n");
        }
        yaml.push_str("backends:\n");
        for (name, catalog) in catalogs {
            let lines = self.backends.iter().find(|(n, _)| n == name);
            let lines = lines.map_or("", |(_, lines)| lines);
            let at = self.at.iter().find(|(n, _)| n == name);
            let uri = at.map_or_else(|| catalog.uri(), |(_, uri)| uri.clone());
            let _ = write!(
                yaml,
                "  {name}:
    implementation: rest
    properties: {{ uri: \"{uri}\" }}
{lines}"
            );
            if !lines.contains("oauth:") {
                let _ = writeln!(yaml, "    service_authorization: Bearer service-of-{name}");
            }
            if !lines.contains("health:") {
                yaml.push_str("    health: { interval: 1h }\n");
            }
            // One fault must have one effect, unless a test is about retries or breakers.
            for (key, value) in [
                ("retry", "{ attempts: 1 }"),
                ("breaker", "{ failures: 1000000 }"),
            ] {
                if !lines.contains(&format!("{key}:")) {
                    let _ = writeln!(yaml, "    {key}: {value}");
                }
            }
        }
        format!("{yaml}mounts:\n{}{}", self.mounts, self.sections)
    }
}

impl World {
    /// Starts [`Setup::two`], with a table `t1` of one version in each catalog.
    pub async fn two() -> Self {
        Setup::two().start().await.seeded()
    }

    /// Adds a table `t1` of one version below each catalog's own name.
    pub fn seeded(self) -> Self {
        for (name, catalog) in &self.catalogs {
            catalog.store().seed(&[name, "t1"], 1);
        }
        self
    }

    pub fn catalog(&self, name: &str) -> &Catalog {
        let found = self.catalogs.iter().find(|(known, _)| *known == name);
        &found.expect("a catalog of this world").1
    }

    /// The address clients connect to.
    pub fn address(&self) -> SocketAddr {
        self.gateway.address
    }

    /// A client with a valid token.
    pub fn client(&self) -> Client {
        self.client_with(&json!({}))
    }

    /// A client whose token has these claims in addition to the usual ones.
    pub fn client_with(&self, claims: &Value) -> Client {
        let bearer = format!("Bearer {}", token::token(claims));
        self.anonymous().header("authorization", &bearer)
    }

    /// Starts another gateway with the same configuration.
    pub async fn join(&mut self) {
        self.others.push(Gateway::start(&self.folder).await);
    }

    /// Starts another gateway with a configuration of its own.
    pub async fn join_with(&mut self, yaml: &str) {
        std::fs::write(self.folder().join("other.yaml"), yaml).unwrap();
        let other = Gateway::start_with(Command::new(program()), &self.folder, "other.yaml");
        self.others.push(other.await);
    }

    /// A client of another gateway with a valid token; 0 is the first one that has joined.
    pub fn client_at(&self, other: usize) -> Client {
        let bearer = format!("Bearer {}", token::token(&json!({})));
        Client::new(self.others[other].address).header("authorization", &bearer)
    }

    /// The address that clients of another gateway connect to.
    pub fn address_at(&self, other: usize) -> SocketAddr {
        self.others[other].address
    }

    /// A client of the admin address of another gateway.
    pub fn admin_at(&self, other: usize) -> Client {
        Client::new(self.others[other].admin)
    }

    /// The whole log of another gateway so far.
    pub fn log_at(&self, other: usize) -> String {
        self.others[other].log.lock().unwrap().clone()
    }

    /// Sends a signal to another gateway.
    pub fn signal_at(&self, other: usize, name: &str) {
        self.others[other].signal(name);
    }

    /// Stops the process of the gateway, as an overloaded machine may; `CONT` lets it go on.
    pub fn pause(&self) {
        self.signal("STOP");
    }

    /// Lets a process that was stopped go on.
    pub fn resume(&self) {
        self.signal("CONT");
    }

    /// A client without a token.
    pub fn anonymous(&self) -> Client {
        Client::new(self.gateway.address)
    }

    /// The address operators connect to.
    pub fn admin_address(&self) -> SocketAddr {
        self.gateway.admin
    }

    /// A client of the admin address.
    pub fn admin(&self) -> Client {
        Client::new(self.gateway.admin)
    }

    /// Returns the value of one sample of `/metrics`, by its name and labels as written there; 0 if it is absent.
    pub async fn metric(&self, sample: &str) -> f64 {
        let page = self.admin().get("/metrics").await.ok();
        let page = String::from_utf8(page.body.to_vec()).unwrap();
        let line = page.lines().find_map(|line| line.strip_prefix(sample));
        line.map_or(0.0, |value| value.trim().parse().unwrap())
    }

    /// The whole log of the gateway so far.
    pub fn log(&self) -> String {
        self.gateway.log.lock().unwrap().clone()
    }

    /// The gateway's resident memory in KiB.
    pub fn resident(&self) -> usize {
        let status = format!("/proc/{}/status", self.gateway.child.id());
        let status = std::fs::read_to_string(status).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let words = line.and_then(|line| line.split_whitespace().next());
        words.and_then(|kib| kib.parse().ok()).unwrap()
    }

    /// Kills the gateway, as `kill -9` does.
    pub fn kill(&mut self) {
        self.gateway.child.kill().unwrap();
        self.gateway.child.wait().unwrap();
    }

    /// Sends SIGTERM to the gateway, as a supervisor does to stop it.
    pub fn terminate(&self) {
        self.signal("TERM");
    }

    /// Sends SIGHUP to the gateway, as an operator does to reload its configuration.
    pub fn hang_up(&self) {
        self.signal("HUP");
    }

    /// The text of the configuration file.
    pub fn configuration(&self) -> String {
        std::fs::read_to_string(self.folder().join("gateway.yaml")).unwrap()
    }

    /// Replaces the configuration file without a signal to the gateway.
    pub fn configure(&self, yaml: &str) {
        std::fs::write(self.folder().join("gateway.yaml"), yaml).unwrap();
    }

    /// Replaces the configuration file and requests a reload.
    pub async fn reload(&self, yaml: &str) -> Reply {
        self.configure(yaml);
        self.admin().post_nothing("/reload").await
    }

    fn signal(&self, name: &str) {
        self.gateway.signal(name);
    }

    /// Waits for the end of the gateway and returns its exit code.
    pub async fn ended(&mut self) -> Option<i32> {
        let wait = async {
            loop {
                if let Some(status) = self.gateway.child.try_wait().unwrap() {
                    return status.code();
                }
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(PATIENCE, wait).await.unwrap()
    }

    /// Starts the gateway again over the same catalogs and folder; its addresses are new.
    pub async fn restart(&mut self) {
        let _ = self.gateway.child.kill();
        let _ = self.gateway.child.wait();
        self.gateway = Gateway::start(&self.folder).await;
    }

    /// Restarts the gateway with a limit on the size of its files, in KiB: a write beyond it fails, as on a full
    /// disk.
    pub async fn restart_with_small_files(&mut self, kib: u64) {
        let _ = self.gateway.child.kill();
        let _ = self.gateway.child.wait();
        let limit = format!("ulimit -f {}; exec \"$0\" \"$@\"", kib * 2);
        let mut limited = Command::new("sh");
        limited.args(["-c", &limit, &program()]);
        self.gateway = Gateway::start_as(limited, &self.folder).await;
    }

    /// The folder of the configuration and the batch log.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Starts the program in a case in which it must refuse to start, and returns its exit code.
    pub async fn try_start(&self) -> Option<i32> {
        let mut child = Gateway::command(&self.folder).spawn().unwrap();
        let ended = tokio::task::spawn_blocking(move || {
            for _ in 0..PATIENCE.as_millis() / 5 {
                if let Some(status) = child.try_wait().unwrap() {
                    return status.code();
                }
                std::thread::sleep(Duration::from_millis(5));
            }
            let _ = child.kill();
            let _ = child.wait();
            None
        });
        ended.await.unwrap()
    }
}

/// Returns the configuration with a new log in the database that `NSGATE_FOLLOWER_LOG` names, to be shared by two gateways;
/// `None` without that variable, or if the configuration has a log of its own.
fn shared(yaml: &str) -> Option<String> {
    const FILE: &str = "log: batches.redb";
    static WORLDS: AtomicU32 = AtomicU32::new(0);
    let address = std::env::var("NSGATE_FOLLOWER_LOG").ok()?;
    if !yaml.contains(FILE) {
        return None;
    }
    let number = WORLDS.fetch_add(1, Ordering::Relaxed);
    let schema = format!("test_{}_{number}", std::process::id());
    let mut prepare = Command::new(program());
    prepare.args(["log", "prepare", &address, "--schema", &schema]);
    let prepared = prepare.output().unwrap();
    assert!(prepared.status.success(), "{prepared:?}");
    let log = format!(
        "log: \"{address}\", schema: {schema}, lease: 2s, gateways: {{ address: 127.0.0.1:0 }}"
    );
    Some(yaml.replace(FILE, &log))
}

/// The program under test; `NSGATE_BIN` names another build, to be measured.
pub fn program() -> String {
    std::env::var("NSGATE_BIN").unwrap_or_else(|_| env!("CARGO_BIN_EXE_nsgate").to_owned())
}

impl Gateway {
    fn signal(&self, name: &str) {
        let kill = format!("kill -{name} {}", self.child.id());
        let status = Command::new("sh").args(["-c", &kill]).status().unwrap();
        assert!(status.success());
    }

    fn command(folder: &TempDir) -> Command {
        Self::command_as(Command::new(program()), folder)
    }

    fn command_as(command: Command, folder: &TempDir) -> Command {
        Self::command_with(command, folder, "gateway.yaml")
    }

    fn command_with(mut command: Command, folder: &TempDir, config: &str) -> Command {
        command
            .args(["serve", "--config", config])
            .current_dir(folder.path())
            .env_clear()
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        command
    }

    async fn start(folder: &TempDir) -> Self {
        Self::start_as(Command::new(program()), folder).await
    }

    /// Starts `program`, which is the gateway or executes it.
    async fn start_as(program: Command, folder: &TempDir) -> Self {
        Self::start_with(program, folder, "gateway.yaml").await
    }

    async fn start_with(program: Command, folder: &TempDir, config: &str) -> Self {
        let mut child = Self::command_with(program, folder, config).spawn().unwrap();
        let log = Arc::new(Mutex::new(String::new()));
        let stderr = BufReader::new(child.stderr.take().unwrap());
        let (found, addresses) = mpsc::channel();
        let lines = log.clone();
        std::thread::spawn(move || {
            for line in stderr.lines().map_while(Result::ok) {
                for what in ["nsgate listening on ", "nsgate admin on "] {
                    if let Some((_, rest)) = line.split_once(what) {
                        let rest = rest.split_once("://").map_or(rest, |(_, rest)| rest);
                        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.' && c != ':');
                        let _ = found.send((what, rest[..end.unwrap_or(rest.len())].parse()));
                    }
                }
                let mut lines = lines.lock().unwrap();
                lines.push_str(&line);
                lines.push('\n');
            }
        });
        let collected = tokio::task::spawn_blocking(move || {
            let mut both = (None, None);
            while both.0.is_none() || both.1.is_none() {
                match addresses.recv_timeout(PATIENCE).ok()? {
                    (what, Ok(address)) if what.contains("admin") => both.1 = Some(address),
                    (_, address) => both.0 = address.ok(),
                }
            }
            both.0.zip(both.1)
        });
        let Some((address, admin)) = collected.await.unwrap() else {
            let _ = child.kill();
            panic!("the gateway did not start:\n{}", log.lock().unwrap());
        };
        let ready = async {
            // An admin address with TLS answers 400 to plain HTTP, which also shows that it listens.
            while ![200, 400].contains(&Client::new(admin).get("/ready").await.status) {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        };
        let ready = tokio::time::timeout(PATIENCE, ready).await;
        assert!(ready.is_ok(), "never ready:\n{}", log.lock().unwrap());
        Self {
            child,
            address,
            admin,
            log,
        }
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            let log = self
                .log
                .lock()
                .map_or_else(|_| String::new(), |log| log.clone());
            eprintln!("the gateway's log:\n{log}");
        }
    }
}
