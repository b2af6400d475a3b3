//! The shipped configurations pass `nsgate check`.

use std::fs;
use std::process::Command;

use super::{batch_sections, text, yaml};

/// Returns a folder with every file that a shipped configuration names.
fn secrets() -> tempfile::TempDir {
    let secrets = tempfile::tempdir().unwrap();
    let mut token = Command::new(env!("CARGO_BIN_EXE_nsgate"));
    let token = token.args(["dev-token", "--dir"]).arg(secrets.path());
    assert!(token.output().unwrap().status.success());
    let named = rcgen::generate_simple_self_signed(["nsgate.internal".to_owned()]).unwrap();
    let (certificate, key) = (named.cert.pem(), named.signing_key.serialize_pem());
    for (name, content) in [
        ("admin-token", "secret"),
        ("warehouse-token", "secret"),
        ("log-password", "secret"),
        ("log.password", "secret"),
        ("log-ca.pem", &certificate),
        ("gateways-ca.pem", &certificate),
        ("gateway.crt", &certificate),
        ("gateway.key", &key),
        ("tls.crt", &certificate),
        ("tls.key", &key),
    ] {
        fs::write(secrets.path().join(name), content).unwrap();
    }
    secrets
}

#[test]
fn the_configurations_that_are_shipped_pass_the_check() {
    let secrets = secrets();
    let mut helm = yaml("helm/nsgate/values.yaml")["config"].clone();
    helm["auth"] = serde_json::json!({ "anonymous": true });
    helm["backends"]["w"] =
        serde_json::json!({ "implementation": "rest", "properties": { "uri": "http://w:1" } });
    helm["mounts"] = serde_json::json!([{ "namespace": [], "backend": "w" }]);
    let mut shared = helm.clone();
    shared["batch"] = yaml("kubernetes/overlays/replicas-example/gateway.yaml")["batch"].clone();
    let mut configs = vec![
        ("helm/nsgate/values.yaml", helm.to_string()),
        ("helm/nsgate/values.yaml, shared", shared.to_string()),
    ];
    for name in [
        "compose/nsgate/gateway.yaml",
        "compose/replicas/gateway.yaml",
        "kubernetes/base/gateway.yaml",
        "kubernetes/overlays/example/gateway.yaml",
        "kubernetes/overlays/replicas-example/gateway.yaml",
        "package/deb/gateway.yaml",
    ] {
        configs.push((name, text(name)));
    }
    let whole = text("package/deb/gateway.yaml");
    let (rest, _) = whole.split_once("batch:").unwrap();
    let shown = batch_sections("gateways.md");
    assert_eq!(shown.len(), 2, "{shown:?}");
    for section in shown {
        configs.push(("gateways.md", format!("{rest}{section}")));
    }
    for (name, config) in configs {
        let secret = secrets.path().to_str().unwrap();
        let config = config.replace("/run/secrets/nsgate-tls", secret);
        let config = config.replace("/run/secrets/nsgate", secret);
        let config = config.replace("/var/lib/nsgate/dev", secret);
        let file = secrets.path().join("gateway.yaml");
        fs::write(&file, config).unwrap();
        let mut check = Command::new(env!("CARGO_BIN_EXE_nsgate"));
        check.args(["check", "--config"]).arg(&file);
        check.envs([
            ("NSGATE_ADMIN_TOKEN", "secret"),
            ("NSGATE_LOG_PASSWORD", "secret"),
            ("WAREHOUSE_URI", "http://warehouse:2333"),
            ("POD_IP", "10.0.0.7"),
            ("POD_NAME", "nsgate-7d9c"),
            ("HOSTNAME", "gateway-1"),
            ("NSGATE_HOST", "10.0.0.7"),
        ]);
        let output = check.output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "deploy/{name}: {said}");
    }
}
