//! The files that are shipped to run and monitor the gateway agree with it, and with each other.
#![allow(clippy::unwrap_used, reason = "a test may fail by panicking")]

#[path = "deployment/configurations.rs"]
mod configurations;
#[path = "deployment/links.rs"]
mod links;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nsgate::config::Listen;
use nsgate::metrics::Metrics;
use serde_json::Value;

/// The time between the end of the drain and the moment at which the process is killed, in seconds.
const MARGIN: u64 = 5;
/// The address that stands for the one of these pages in the rules; see deploy/metrics.md.
const RUNBOOKS: &str = "https://nsgate.example/deploy/metrics.md";

fn path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("deploy")
        .join(name)
}

fn text(name: &str) -> String {
    fs::read_to_string(path(name)).unwrap_or_else(|error| panic!("deploy/{name}: {error}"))
}

/// Reads the documents of a YAML file.
fn documents(name: &str) -> Vec<Value> {
    let read = serde_saphyr::from_multiple(&text(name));
    read.unwrap_or_else(|error| panic!("deploy/{name}: {error}"))
}

fn yaml(name: &str) -> Value {
    documents(name).remove(0)
}

fn below(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            below(&path, found);
        } else {
            found.push(path);
        }
    }
}

/// Parses seconds as compose and systemd write them, e.g. `45s`.
fn seconds(text: &str) -> u64 {
    text.trim_end_matches('s').parse().unwrap()
}

/// Returns every metric that a text mentions, without the suffixes that Prometheus appends.
fn spoken_of(text: &str) -> BTreeSet<String> {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    let words = words.filter(|word| word.starts_with("nsgate_") || word.starts_with("process_"));
    let bare = |word: &str| {
        let ends = ["_bucket", "_count", "_sum"];
        let end = ends.iter().find_map(|end| word.strip_suffix(end));
        end.unwrap_or(word).to_owned()
    };
    words.map(bare).collect()
}

fn alerts() -> Vec<Value> {
    let groups = ["prometheus/alerts.yml", "prometheus/slo.yml"]
        .into_iter()
        .flat_map(|name| yaml(name)["groups"].as_array().unwrap().clone());
    let rules = groups.flat_map(|group| group["rules"].as_array().unwrap().clone());
    rules.filter(|rule| rule["alert"].is_string()).collect()
}

#[test]
fn every_file_of_yaml_and_json_can_be_read() {
    let mut files = Vec::new();
    below(&path("."), &mut files);
    let mut read = 0;
    for file in files {
        let name = file.strip_prefix(path(".")).unwrap().to_str().unwrap();
        // Templates are not YAML before Helm has rendered them.
        if name.contains("/templates/") {
            continue;
        }
        match file.extension().and_then(|extension| extension.to_str()) {
            Some("yaml" | "yml") => assert!(!documents(name).is_empty(), "{name} is empty"),
            Some("json") => drop(serde_json::from_str::<Value>(&text(name)).unwrap()),
            _ => continue,
        }
        read += 1;
    }
    assert!(read > 15, "{read}");
}

#[test]
fn rules_and_panels_look_at_metrics_that_there_are() {
    let metrics = Metrics::new();
    let known: BTreeSet<String> = metrics.names().iter().cloned().collect();
    for name in [
        "prometheus/alerts.yml",
        "prometheus/alerts.test.yml",
        "prometheus/slo.yml",
        "prometheus/slo.test.yml",
        "grafana/nsgate.json",
        "metrics.md",
    ] {
        let unknown: Vec<_> = spoken_of(&text(name)).difference(&known).cloned().collect();
        assert!(unknown.is_empty(), "deploy/{name}: there is no {unknown:?}");
    }
    // The dashboard shows every metric.
    let shown = spoken_of(&text("grafana/nsgate.json"));
    let hidden: Vec<_> = known.difference(&shown).collect();
    assert!(hidden.is_empty(), "no panel shows {hidden:?}");
}

#[test]
fn every_metric_and_every_alert_is_explained_and_nothing_else_is() {
    let page = text("metrics.md");
    let rows = page.lines().filter_map(|line| line.strip_prefix("| `"));
    let names = rows.map(|row| row.split(['`', '{']).next().unwrap());
    let names = names.filter(|name| name.starts_with("nsgate_") || name.starts_with("process_"));
    let explained: BTreeSet<String> = names.map(str::to_owned).collect();
    let known: BTreeSet<String> = Metrics::new().names().iter().cloned().collect();
    assert_eq!(explained, known, "the rows of deploy/metrics.md");

    let sections = page
        .lines()
        .filter_map(|line| line.strip_prefix("### Nsgate"));
    let sections: BTreeSet<String> = sections.map(|name| format!("Nsgate{name}")).collect();
    let alerts = alerts();
    let names = alerts
        .iter()
        .map(|rule| rule["alert"].as_str().unwrap().to_owned());
    let names: BTreeSet<String> = names.collect();
    assert_eq!(sections, names, "the sections of deploy/metrics.md");
    for rule in &alerts {
        let told = &rule["annotations"];
        for annotation in ["summary", "description", "action"] {
            assert!(told[annotation].is_string(), "{annotation}: {rule}");
        }
        // The anchor of a heading is its text in lower case.
        let anchor = rule["alert"].as_str().unwrap().to_lowercase();
        assert_eq!(
            told["runbook_url"],
            format!("{RUNBOOKS}#{anchor}"),
            "{rule}"
        );
        assert!(["page", "ticket"].contains(&rule["labels"]["severity"].as_str().unwrap()));
    }
}

#[test]
fn whoever_stops_the_gateway_waits_for_its_drain() {
    let drain = Listen::default().drain_timeout;
    let waits = |who: &str, given: u64, before: u64, drain: Duration| {
        let needed = before + drain.as_secs() + MARGIN;
        assert!(given >= needed, "{who}: {given} s, {needed} s are needed");
    };
    let pod = |stateful: &Value| stateful["spec"]["template"]["spec"].clone();
    let base = pod(&yaml("kubernetes/base/statefulset.yaml"));
    let sleep = &base["containers"][0]["lifecycle"]["preStop"]["sleep"]["seconds"];
    let grace = base["terminationGracePeriodSeconds"].as_u64().unwrap();
    waits("kubernetes", grace, sleep.as_u64().unwrap(), drain);
    let values = yaml("helm/nsgate/values.yaml");
    assert_eq!(values["terminationGracePeriodSeconds"], grace);
    assert_eq!(values["preStopSeconds"], *sleep);
    for config in [
        &values["config"],
        &yaml("kubernetes/base/gateway.yaml"),
        &yaml("kubernetes/overlays/replicas-example/gateway.yaml"),
    ] {
        let configured = config["listen"]["drain_timeout"].as_str().unwrap();
        assert_eq!(seconds(configured), drain.as_secs());
    }
    let compose = [
        &yaml("compose.yaml")["services"]["nsgate"],
        &yaml("compose.replicas.yaml")["x-gateway"],
    ];
    for gateway in compose {
        let grace = gateway["stop_grace_period"].as_str().unwrap();
        waits("compose", seconds(grace), 0, drain);
    }
    waits("systemd", seconds(&unit("TimeoutStopSec")), 0, drain);
}

fn unit(key: &str) -> String {
    line_of("systemd/nsgate.service", key)
}

/// Returns the value of a key in a file of systemd.
fn line_of(file: &str, key: &str) -> String {
    let unit = text(file);
    let mut lines = unit.lines().filter_map(|line| line.split_once('='));
    lines.find(|(name, _)| *name == key).unwrap().1.to_owned()
}

#[test]
fn systemd_holds_the_addresses_of_the_configuration_under_the_names_that_the_gateway_knows() {
    let configured = yaml("package/deb/gateway.yaml");
    for (file, name, section) in [
        ("systemd/nsgate.socket", "data", "listen"),
        ("systemd/nsgate-admin.socket", "admin", "admin"),
    ] {
        assert_eq!(line_of(file, "FileDescriptorName"), name);
        assert_eq!(line_of(file, "Service"), "nsgate.service");
        let address = configured[section]["address"].as_str().unwrap();
        assert_eq!(line_of(file, "ListenStream"), address);
        assert!(text("package/nfpm.yaml").contains(file), "{file}");
    }
    assert_eq!(unit("Type"), "notify");
}

#[test]
fn all_of_them_run_the_same_image_with_the_same_ports_and_folders() {
    let version = env!("CARGO_PKG_VERSION");
    let image = format!("nsgate:{version}");
    let compose = yaml("compose.yaml");
    for service in ["token", "nsgate"] {
        assert_eq!(compose["services"][service]["image"], image);
    }
    for folder in ["base", "overlays/example", "overlays/replicas-example"] {
        let kustomization = yaml(&format!("kubernetes/{folder}/kustomization.yaml"));
        assert_eq!(kustomization["images"][0]["newTag"], version, "{folder}");
    }
    let chart = yaml("helm/nsgate/Chart.yaml");
    assert_eq!(
        (chart["appVersion"].as_str(), chart["version"].as_str()),
        (Some(version), Some(version))
    );

    let dockerfile = text("Dockerfile");
    let has = |line: &str| assert!(dockerfile.lines().any(|l| l == line), "Dockerfile: {line}");
    has(&format!(
        "FROM rust:{}-bookworm AS build",
        env!("CARGO_PKG_RUST_VERSION")
    ));
    has("EXPOSE 8080 9090");
    has("USER 65532:65532");
    has("VOLUME /var/lib/nsgate");
    has("ENV NSGATE_CONFIG=/etc/nsgate/gateway.yaml");

    let pods = [
        text("kubernetes/base/statefulset.yaml"),
        text("helm/nsgate/templates/statefulset.yaml"),
    ];
    for pod in pods {
        for line in [
            "{ name: http, containerPort: 8080 }",
            "{ name: admin, containerPort: 9090 }",
            "runAsUser: 65532",
            "readOnlyRootFilesystem: true",
            "httpGet: { path: /ready, port: admin }",
            "httpGet: { path: /live, port: admin }",
            "{ name: config, mountPath: /etc/nsgate, readOnly: true }",
            "{ name: secrets, mountPath: /run/secrets/nsgate, readOnly: true }",
            "{ name: data, mountPath: /var/lib/nsgate }",
            "value: /etc/nsgate/gateway.yaml",
        ] {
            assert!(pod.contains(line), "{line} is not in\n{pod}");
        }
    }
    let values = yaml("helm/nsgate/values.yaml");
    for config in [
        &values["config"],
        &yaml("kubernetes/base/gateway.yaml"),
        &yaml("compose/nsgate/gateway.yaml"),
    ] {
        assert_eq!(config["listen"]["address"], "0.0.0.0:8080");
        assert_eq!(config["admin"]["address"], "0.0.0.0:9090");
        assert_eq!(config["batch"]["log"], "/var/lib/nsgate/batches.redb");
    }
    assert_eq!(unit("StateDirectory"), "nsgate");
}

/// Checks that the chart contains the same rules and the same dashboard, in files of its own: a chart that is copied, or
/// packed by a tool that follows no link, has them too. `NSGATE_WRITE_EXPECTED=1` copies them.
#[test]
fn the_chart_has_copies_of_the_rules_and_of_the_dashboard() {
    for (copy, file) in [
        ("alerts.yml", "prometheus/alerts.yml"),
        ("slo.yml", "prometheus/slo.yml"),
        ("dashboard.json", "grafana/nsgate.json"),
    ] {
        let path = path("helm/nsgate/files").join(copy);
        if std::env::var_os("NSGATE_WRITE_EXPECTED").is_some() {
            fs::write(&path, text(file)).unwrap();
        }
        let kind = fs::symlink_metadata(&path).unwrap().file_type();
        assert!(kind.is_file(), "{copy} is a link");
        assert_eq!(text(&format!("helm/nsgate/files/{copy}")), text(file));
    }
}

#[test]
fn gateways_that_share_a_log_are_set_up_alike_everywhere() {
    // The component, and the chart with more than one replica.
    for (name, pod) in [
        (
            "component",
            text("kubernetes/components/replicas/deployment.yaml"),
        ),
        ("chart", text("helm/nsgate/templates/statefulset.yaml")),
    ] {
        for part in [
            "{ type: RollingUpdate, rollingUpdate: { maxSurge: 1, maxUnavailable: 0 } }",
            "topologyKey: kubernetes.io/hostname",
            "matchLabelKeys: [pod-template-hash]",
            "{ name: gateways, containerPort: 8079 }",
            "{ name: POD_IP, valueFrom: { fieldRef: { fieldPath: status.podIP } } }",
            "{ name: POD_NAME, valueFrom: { fieldRef: { fieldPath: metadata.name } } }",
        ] {
            assert!(pod.contains(part), "{part} is not in the {name}");
        }
    }
    for policy in [
        text("kubernetes/components/replicas/network.yaml"),
        text("helm/nsgate/templates/network.yaml"),
    ] {
        assert!(policy.contains("{ port: gateways }"), "{policy}");
    }
    let budget = yaml("kubernetes/base/disruption.yaml");
    assert_eq!(budget["spec"]["maxUnavailable"], 1);
    let values = yaml("helm/nsgate/values.yaml");
    assert_eq!(values["podDisruptionBudget"]["maxUnavailable"], 1);

    let compose = yaml("compose.replicas.yaml");
    let config = yaml("compose/replicas/gateway.yaml");
    let image = format!("nsgate:{}", env!("CARGO_PKG_VERSION"));
    let (services, gateway) = (&compose["services"], &compose["x-gateway"]);
    for service in [&services["token"], &services["prepare"], gateway] {
        assert_eq!(service["image"], image);
    }
    let prepared = services["prepare"]["command"][2].as_str();
    assert_eq!(config["batch"]["log"].as_str(), prepared);
    let socket = "socket:/run/postgresql:ro";
    for service in [&services["prepare"], gateway] {
        let volumes = service["volumes"].as_array().unwrap();
        assert!(volumes.iter().any(|volume| volume == socket), "{volumes:?}");
    }
    for config in [
        config,
        yaml("kubernetes/overlays/replicas-example/gateway.yaml"),
    ] {
        assert_eq!(config["listen"]["address"], "0.0.0.0:8080");
        assert_eq!(config["admin"]["address"], "0.0.0.0:9090");
        assert_eq!(config["batch"]["gateways"]["address"], "0.0.0.0:8079");
    }
    // systemd sets no such variable by itself.
    assert_eq!(unit("Environment"), "HOSTNAME=%H");
}

/// Returns the sections `batch` that a page shows.
fn batch_sections(page: &str) -> Vec<String> {
    let blocks = text(page);
    let blocks = blocks.split("```yaml\n").skip(1);
    let blocks = blocks.map(|block| block.split("```").next().unwrap().to_owned());
    blocks.filter(|block| block.starts_with("batch:")).collect()
}
