//! The metrics and alerts in a real Prometheus.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::LazyLock;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::client::Client;
use crate::harness::{Behind, Catalog, Gateway, Process, Python, block_on, eventually};

#[test]
fn prometheus_scrapes_the_gateway_and_promtool_finds_no_fault() {
    let Some(python) = Python::ready() else {
        return;
    };
    let catalog = Catalog::start(python);
    let gateway = Gateway::before(&[Behind::kept("warehouse", catalog.uri(), &[])]);
    let described = gateway.post("/v1/namespace/%24/describe", &json!({ "id": [] }));
    assert_eq!(described.status, 200, "{described:?}");

    let metrics = Client::new(gateway.admin().parse().unwrap());
    let metrics = block_on(metrics.get("/metrics")).ok();
    check(&metrics.body);

    let folder = TempDir::new().unwrap();
    let prometheus = scraping(gateway.admin(), &folder);
    let address = prometheus.word_after("Listening on\" address=");
    let asks = Client::new(address.parse().unwrap());
    let value = |query: &str| {
        let answer = block_on(asks.get(&format!("/api/v1/query?query={query}")));
        // Prometheus answers 503 while it starts.
        let body: Option<Value> = serde_json::from_slice(&answer.body).ok();
        Some(body?["data"]["result"].get(0)?["value"][1].clone())
    };
    let up = eventually("a scrape", || value("up").filter(|up| up == "1"));
    assert_eq!(up, "1");
    let counted = eventually("the request to be counted", || {
        value(
            "nsgate_requests_total%7Boperation=%22describe_namespace%22,backend=%22warehouse%22%7D",
        )
    });
    assert_eq!(counted, "1");
    // The series that alerts use must exist before anything is wrong.
    for series in [
        "nsgate_batch_hazards",
        "nsgate_batch_oldest_undecided_seconds",
        "nsgate_batches_open%7Bstate=%22stranded%22%7D",
        "nsgate_batch_oldest_seconds%7Bstate=%22undoing%22%7D",
        "nsgate_batch_late_creates_total",
        "nsgate_batches_total%7Boutcome=%22aborted%22%7D",
    ] {
        assert_eq!(value(series), Some(json!("0")), "{series}");
    }
    let rules = eventually("the alerting rules to be evaluated", || {
        let answer = block_on(asks.get("/api/v1/rules"));
        let body: Value = serde_json::from_slice(&answer.body).ok()?;
        let groups = body["data"]["groups"].as_array()?.iter();
        let rules = groups.flat_map(|group| group["rules"].as_array().cloned().unwrap_or_default());
        let rules: Vec<Value> = rules.collect();
        // The job is absent before the first scrape.
        let settled = |rule: &Value| rule["health"] != "unknown" && rule["state"] != "pending";
        let evaluated = rules.iter().all(settled);
        (!rules.is_empty() && evaluated).then_some(rules)
    });
    for rule in &rules {
        assert_eq!(rule["health"], "ok", "{rule}");
        if rule["type"] == "recording" {
            continue;
        }
        assert_eq!(rule["state"], "inactive", "{rule}");
        for annotation in ["summary", "description", "action", "runbook_url"] {
            assert!(
                rule["annotations"][annotation].is_string(),
                "{annotation}: {rule}"
            );
        }
    }
}

#[test]
fn prometheus_reads_the_exemplars_of_slow_failed_and_traced_requests() {
    let Some(python) = Python::ready() else {
        return;
    };
    let catalog = Catalog::start(python);
    let gateway = Gateway::before(&[Behind::kept("warehouse", catalog.uri(), &[])]);
    let trace = "4bf92f3577b34da6a3ce929d0e0e4736";
    let sampled = format!("00-{trace}-00f067aa0ba902b7-01");
    let client = gateway.client().header("traceparent", &sampled);
    let body = json!({ "id": [] });
    block_on(client.post("/v1/namespace/%24/describe", &body)).ok();

    let folder = TempDir::new().unwrap();
    let prometheus = scraping(gateway.admin(), &folder);
    let address = prometheus.word_after("Listening on\" address=");
    let asks = Client::new(address.parse().unwrap());
    let query = "/api/v1/query_exemplars?query=nsgate_request_duration_seconds_bucket\
                 &start=2020-01-01T00:00:00Z&end=2100-01-01T00:00:00Z";
    eventually("the exemplar of the request", || {
        let answer = block_on(asks.get(query));
        let body: Value = serde_json::from_slice(&answer.body).ok()?;
        let series = body["data"].as_array()?.iter().find(|series| {
            series["seriesLabels"]["operation"] == "describe_namespace"
                && series["exemplars"][0]["labels"]["trace_id"] == trace
        })?;
        println!("{series}");
        Some(())
    });
}

#[test]
fn the_alerting_rules_fire_on_what_they_are_for_and_are_silent_otherwise() {
    if Python::ready().is_none() {
        return;
    }
    for arguments in [
        ["check", "rules", "alerts.yml"],
        ["test", "rules", "alerts.test.yml"],
        ["check", "rules", "slo.yml"],
        ["test", "rules", "slo.test.yml"],
    ] {
        let mut promtool = Command::new(program("promtool"));
        promtool.args(arguments).current_dir(deployed("."));
        let output = promtool.output().unwrap();
        let said = [output.stdout, output.stderr].concat();
        let said = String::from_utf8_lossy(&said);
        assert!(output.status.success(), "promtool {arguments:?}: {said}");
        assert!(said.contains("SUCCESS"), "promtool {arguments:?}: {said}");
    }
    // Every rule must have a test in which it fires.
    let read = |name| fs::read_to_string(deployed(name)).unwrap();
    let rules = read("alerts.yml") + &read("slo.yml");
    let tests = read("alerts.test.yml") + &read("slo.test.yml");
    let names = rules
        .lines()
        .filter_map(|line| line.split_once("- alert: "));
    let mut found = 0;
    for (_, name) in names {
        let fires = format!("ALERTS{{alertname=\"{name}\", alertstate=\"firing\", severity");
        assert!(tests.contains(&fires), "nothing shows that {name} fires");
        found += 1;
    }
    assert!(found > 5, "{found}");
}

/// Returns the path of a file that is shipped for Prometheus.
fn deployed(name: &str) -> PathBuf {
    let folder = [env!("CARGO_MANIFEST_DIR"), "deploy", "prometheus", name];
    folder.iter().collect()
}

/// Returns a program of the Debian package `prometheus`: the installed one, or the package's own, unpacked below the
/// tests' folder. That needs no rights.
fn program(name: &str) -> PathBuf {
    static UNPACKED: LazyLock<PathBuf> = LazyLock::new(unpack);
    match Command::new(name).arg("--version").output() {
        Ok(_) => name.into(),
        Err(_) => UNPACKED.join("usr/bin").join(name),
    }
}

fn unpack() -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("prometheus");
    if folder.join("usr/bin/prometheus").exists() {
        return folder;
    }
    fs::create_dir_all(&folder).unwrap();
    let steps = "apt-get download -qq prometheus || { apt-get update -qq && apt-get download -qq prometheus; }; \
                 dpkg-deb -x prometheus_*.deb .";
    let shell = Command::new("sh")
        .args(["-ec", steps])
        .current_dir(&folder)
        .output();
    let said = shell.map_or_else(
        |error| error.to_string(),
        |o| String::from_utf8_lossy(&o.stderr).into_owned(),
    );
    assert!(
        folder.join("usr/bin/prometheus").exists(),
        "prometheus is missing and its Debian package cannot be had: install the package `prometheus`, or set \
         NSGATE_SKIP_REAL=1\n{said}"
    );
    folder
}

/// Runs `promtool check metrics`.
fn check(metrics: &[u8]) {
    let mut promtool = Command::new(program("promtool"))
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    promtool.stdin.take().unwrap().write_all(metrics).unwrap();
    let output = promtool.wait_with_output().unwrap();
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said);
    assert!(
        output.status.success() && said.is_empty(),
        "promtool: {said}"
    );
}

pub fn scraping(target: &str, folder: &TempDir) -> Process {
    let config = json!({
        "global": { "scrape_interval": "1s", "evaluation_interval": "1s" },
        "rule_files": [deployed("alerts.yml"), deployed("slo.yml")],
        "scrape_configs": [{
            "job_name": "nsgate",
            "static_configs": [{ "targets": [target] }],
        }],
    });
    let file = folder.path().join("prometheus.yml");
    fs::write(&file, config.to_string()).unwrap();
    let mut command = Command::new(program("prometheus"));
    command
        .arg(format!("--config.file={}", file.display()))
        .arg(format!("--storage.tsdb.path={}", folder.path().display()))
        .arg("--enable-feature=exemplar-storage")
        .arg("--web.listen-address=127.0.0.1:0");
    Process::start(&mut command)
}
