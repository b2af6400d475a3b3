//! The parts of a world before it is started: its configuration and its catalogs.

use std::fmt::Write as _;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use tempfile::TempDir;

use super::World;
use super::process::Gateway;
use crate::catalog::Catalog;
use crate::running_gateway::program;
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
        if !self.sections.contains("authorization:") {
            yaml.push_str("authorization: [{ namespace: [], read: { any_caller: true }, write: { any_caller: true } }]\n");
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
            if !lines.contains("selects:") {
                yaml.push_str("    selects: {}\n");
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
