//! The gateway binary, with a generated configuration and a token that it accepts.

use std::fs;
use std::process::{Command, ExitStatus};

use serde_json::{Value, json};
use tempfile::TempDir;

use super::{Process, block_on};
use crate::client::{Client, Reply};
use crate::proc_status;

const ISSUER: &str = "https://issuer.test";
const AUDIENCE: &str = "catalog";

/// A catalog and its mount.
pub struct Behind<'a> {
    pub name: &'a str,
    pub uri: String,
    pub namespace: &'a [&'a str],
    /// True if the mount's names are removed from the path, so that the catalog's root is mounted.
    pub rerooted: bool,
    /// The additional keys of the backend.
    pub more: Value,
}

impl<'a> Behind<'a> {
    /// Returns a catalog mounted with its path kept.
    pub fn kept(name: &'a str, uri: String, namespace: &'a [&'a str]) -> Self {
        Self {
            name,
            uri,
            namespace,
            rerooted: false,
            more: json!({}),
        }
    }

    /// Returns a catalog whose root is mounted at `namespace`.
    pub fn rerooted(name: &'a str, uri: String, namespace: &'a [&'a str]) -> Self {
        Self {
            rerooted: true,
            ..Self::kept(name, uri, namespace)
        }
    }

    fn backend(&self) -> Value {
        let mut backend = json!({
            "implementation": "rest",
            "properties": { "uri": self.uri },
            "service_authorization": "Bearer of-the-gateway",
            "selects": {},
            // The breaker must not delay a test after a catalog has been started again.
            "breaker": { "open_for": "500ms" },
        });
        let more = self.more.as_object().unwrap().clone();
        let keys = backend.as_object_mut().unwrap();
        keys.extend(more);
        keys.retain(|_, value| !value.is_null());
        backend
    }

    fn mount(&self) -> Value {
        let mut mount = json!({ "namespace": self.namespace, "backend": self.name });
        if self.rerooted {
            mount["backend_namespace"] = json!([]);
        }
        mount
    }
}

/// A running gateway. Its batch log outlives a restart.
pub struct Gateway {
    folder: TempDir,
    config: Value,
    token: String,
    process: Option<Process>,
    program: String,
    address: String,
    admin: String,
}

impl Gateway {
    pub fn before(catalogs: &[Behind<'_>]) -> Self {
        Self::with(
            catalogs,
            &json!({ "slot_cooldown": "1s", "prepare_timeout": "60s" }),
        )
    }

    /// Starts the gateway with more keys of `batch`.
    pub fn with(catalogs: &[Behind<'_>], batch: &Value) -> Self {
        Self::changed(catalogs, |config| {
            let keys = batch.as_object().unwrap().clone();
            config["batch"].as_object_mut().unwrap().extend(keys);
        })
    }

    /// Starts the gateway with other issuers than that of its own token.
    pub fn trusting(catalogs: &[Behind<'_>], issuers: &Value) -> Self {
        Self::changed(catalogs, |config| {
            config["auth"]["issuers"] = issuers.clone();
        })
    }

    /// Starts the gateway with authorization rules.
    pub fn ruled(catalogs: &[Behind<'_>], rules: &Value) -> Self {
        Self::changed(catalogs, |config| config["authorization"] = rules.clone())
    }

    /// Starts the gateway with more keys in each section.
    pub fn configured(catalogs: &[Behind<'_>], more: &Value) -> Self {
        Self::changed(catalogs, |config| {
            for (section, keys) in more.as_object().unwrap() {
                let section = &mut config[section];
                if section.is_null() {
                    *section = json!({});
                }
                let section = section.as_object_mut().unwrap();
                section.extend(keys.as_object().unwrap().clone());
            }
        })
    }

    fn changed(catalogs: &[Behind<'_>], change: impl FnOnce(&mut Value)) -> Self {
        let folder = TempDir::new().unwrap();
        let token = dev_token(&folder);
        let backends = catalogs.iter().map(|it| (it.name.to_owned(), it.backend()));
        let mut config = json!({
            "listen": { "address": "127.0.0.1:0" },
            "admin": { "address": "127.0.0.1:0" },
            "auth": { "issuers": [{
                "issuer": ISSUER,
                "audiences": [AUDIENCE],
                "algorithms": ["RS256", "ES256", "EdDSA"],
                "keys": { "file": "jwks.json" },
            }] },
            "backends": backends.collect::<serde_json::Map<_, _>>(),
            "mounts": catalogs.iter().map(Behind::mount).collect::<Vec<_>>(),
            "authorization": [{
                "namespace": [], "read": { "any_caller": true }, "write": { "any_caller": true },
            }],
            "batch": { "log": "batches.redb" },
            "telemetry": { "log": "text", "access_log": false },
        });
        change(&mut config);
        let mut gateway = Self {
            folder,
            config,
            token,
            process: None,
            program: env!("CARGO_BIN_EXE_nsgate").to_owned(),
            address: String::new(),
            admin: String::new(),
        };
        gateway.start();
        gateway
    }

    /// Starts another gateway with the same configuration, but for its addresses and `more` keys of `batch`.
    pub fn beside(&self, more: &Value) -> Self {
        let folder = TempDir::new().unwrap();
        fs::copy(
            self.folder.path().join("jwks.json"),
            folder.path().join("jwks.json"),
        )
        .unwrap();
        let mut config = self.config.clone();
        for section in ["listen", "admin"] {
            config[section]["address"] = "127.0.0.1:0".into();
        }
        let keys = more.as_object().unwrap().clone();
        config["batch"].as_object_mut().unwrap().extend(keys);
        let mut gateway = Self {
            folder,
            config,
            token: self.token.clone(),
            process: None,
            program: env!("CARGO_BIN_EXE_nsgate").to_owned(),
            address: String::new(),
            admin: String::new(),
        };
        gateway.start();
        gateway
    }

    fn start(&mut self) {
        let config = self.folder.path().join("gateway.yaml");
        // YAML includes JSON, so the file can be JSON.
        fs::write(&config, self.config.to_string()).unwrap();
        let mut command = Command::new(&self.program);
        command.args(["serve", "--config"]).arg(config);
        let process = Process::start(&mut command);
        let scheme = match self.config["listen"]["tls"] {
            Value::Null => "http",
            _ => "https",
        };
        self.address = process.word_after(&format!("nsgate listening on {scheme}://"));
        self.admin = process.word_after("nsgate admin on http://");
        self.config["listen"]["address"] = self.address.as_str().into();
        self.config["admin"]["address"] = self.admin.as_str().into();
        self.process = Some(process);
    }

    /// Kills the gateway (kill -9).
    pub fn kill(&mut self) {
        self.process.take().unwrap().kill();
    }

    /// Stops the gateway with SIGTERM and returns its exit status.
    pub fn terminate(&mut self) -> ExitStatus {
        self.process.take().unwrap().terminate()
    }

    /// Sends the process a signal, such as `STOP`.
    pub fn signal(&self, name: &str) {
        let id = self.process.as_ref().unwrap().id().to_string();
        let mut kill = Command::new("kill");
        assert!(
            kill.arg(format!("-{name}"))
                .arg(id)
                .status()
                .unwrap()
                .success()
        );
    }

    /// Returns how the process ended; `None` if it runs.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.process.as_mut().and_then(Process::ended)
    }

    /// Starts the gateway again with the same configuration, addresses and batch log.
    pub fn again(&mut self) {
        self.process = None;
        self.start();
    }

    /// Starts this build of the program from now on.
    pub fn use_program(&mut self, path: &str) {
        self.program = path.to_owned();
    }

    pub fn address(&self) -> &str {
        &self.address
    }

    pub fn admin(&self) -> &str {
        &self.admin
    }

    pub fn uri(&self) -> String {
        format!("http://{}", self.address)
    }

    pub fn token(&self) -> &str {
        &self.token
    }

    /// Returns a client that sends the token and JSON.
    pub fn client(&self) -> Client {
        let bearer = format!("Bearer {}", self.token);
        Client::new(self.address.parse().unwrap())
            .header("authorization", &bearer)
            .header("content-type", "application/json")
    }

    pub fn post(&self, target: &str, body: &Value) -> Reply {
        block_on(self.client().post(target, body))
    }

    /// Returns the log output.
    pub fn log(&self) -> String {
        self.process.as_ref().map(Process::said).unwrap_or_default()
    }

    /// Reads a number of kB from `/proc/PID/status`, such as `VmHWM`.
    pub fn memory(&self, field: &str) -> u64 {
        let id = self.process.as_ref().unwrap().id();
        proc_status::read(id, field)
    }
}

/// Prints the gateway's log if a test fails.
impl Drop for Gateway {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("the gateway said:\n{}", self.log());
        }
    }
}

fn dev_token(folder: &TempDir) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_nsgate"));
    command.args(["dev-token", "--dir"]).arg(folder.path());
    command.args([
        "--issuer",
        ISSUER,
        "--audience",
        AUDIENCE,
        "--subject",
        "tester",
    ]);
    let output = command.output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}:\n{errors}");
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}
