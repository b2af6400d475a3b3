//! A real Prometheus with the rules that ship, which scrapes the gateways of the faults.

use std::fmt;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::catalog::faults::PATIENCE;
use crate::client::Client;

/// A running Prometheus; it ends with the test.
pub struct Prometheus {
    child: Child,
    folder: TempDir,
    client: Client,
    targets: Mutex<Vec<String>>,
}

/// An alert that is pending or fires.
#[derive(Debug)]
pub struct Alert {
    name: String,
    state: String,
    text: String,
}

impl Prometheus {
    /// Starts the program of the Debian package `prometheus`.
    pub fn start() -> Self {
        let folder = TempDir::new().unwrap();
        let deployed = |name: &str| -> PathBuf {
            [env!("CARGO_MANIFEST_DIR"), "deploy", "prometheus", name]
                .iter()
                .collect()
        };
        let config = json!({
            "global": { "scrape_interval": "2s", "evaluation_interval": "5s" },
            "rule_files": [deployed("alerts.yml"), deployed("slo.yml")],
            "scrape_configs": [{
                "job_name": "nsgate",
                "file_sd_configs": [{ "files": ["targets.json"], "refresh_interval": "1s" }],
            }],
        });
        std::fs::write(folder.path().join("prometheus.yml"), config.to_string()).unwrap();
        std::fs::write(folder.path().join("targets.json"), "[]").unwrap();
        let child = Command::new("prometheus")
            .args(["--config.file=prometheus.yml", "--storage.tsdb.path=data"])
            .arg("--web.listen-address=127.0.0.1:0")
            .current_dir(folder.path())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn();
        let mut child =
            child.unwrap_or_else(|error| panic!("install the package `prometheus`: {error}"));
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let address = lines.by_ref().map_while(Result::ok).find_map(|line| {
            let (_, after) = line.split_once("Listening on\" address=")?;
            after.split_whitespace().next()?.parse().ok()
        });
        let address = address.expect("Prometheus says where it listens");
        std::thread::spawn(move || lines.for_each(drop));
        Self {
            child,
            folder,
            client: Client::new(address),
            targets: Mutex::default(),
        }
    }

    /// Adds a gateway, and waits for its second scrape.
    pub async fn scrape(&self, admin: SocketAddr) {
        {
            let mut targets = self.targets.lock().unwrap();
            targets.push(admin.to_string());
            let groups = json!([{ "targets": *targets }]).to_string();
            // The file is never seen half written.
            let (new, file) = ("targets.new", "targets.json");
            std::fs::write(self.folder.path().join(new), groups).unwrap();
            let path = |name| self.folder.path().join(name);
            std::fs::rename(path(new), path(file)).unwrap();
        }
        let query = format!("count_over_time(up{{instance=\"{admin}\"}}[1m])");
        let scraped = async {
            loop {
                let answer = self.ask("/api/v1/query", &query).await;
                let count = answer["data"]["result"][0]["value"][1].as_str();
                if count.and_then(|count| count.parse().ok()) >= Some(2) {
                    return;
                }
                tokio::time::sleep(Duration::from_millis(200)).await;
            }
        };
        let scraped = tokio::time::timeout(PATIENCE, scraped).await;
        assert!(scraped.is_ok(), "{admin} is not scraped");
    }

    /// Returns an alert about a gateway, if there is one.
    pub async fn alert(&self, names: &[&str], admin: SocketAddr) -> Option<Alert> {
        let all = self.ask("/api/v1/alerts", "").await;
        let about = |alert: &&Value| {
            let labels = &alert["labels"];
            let is_named = names.iter().any(|name| labels["alertname"] == *name);
            is_named && labels["instance"] == admin.to_string()
        };
        let alert = all["data"]["alerts"].as_array()?.iter().find(about)?;
        let texts = ["summary", "action", "runbook_url"];
        let texts = texts.map(|key| alert["annotations"][key].as_str().unwrap_or_default());
        Some(Alert {
            name: alert["labels"]["alertname"].as_str()?.to_owned(),
            state: alert["state"].as_str()?.to_owned(),
            text: texts.join(" | "),
        })
    }

    /// Checks that no rule failed.
    pub async fn rules_are_sound(&self) {
        let all = self.ask("/api/v1/rules", "").await;
        let groups = all["data"]["groups"].as_array().unwrap().iter();
        for rule in groups.flat_map(|group| group["rules"].as_array().unwrap()) {
            assert_ne!(rule["health"], "err", "{rule}");
        }
    }

    async fn ask(&self, path: &str, query: &str) -> Value {
        let query: String = query.bytes().map(|byte| format!("%{byte:02X}")).collect();
        let answer = self.client.get(&format!("{path}?query={query}")).await;
        // It answers 503 while it starts.
        serde_json::from_slice(&answer.body).unwrap_or_default()
    }
}

impl fmt::Display for Alert {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}: {}", self.name, self.state, self.text)
    }
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
