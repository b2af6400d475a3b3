//! Answers of `nsgate explain`: where an identifier goes, and which rule decides about it.

use std::path::Path;
use std::process::Command;

#[test]
fn explain_says_which_rule_decides() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("gateway.yaml");
    let config = "
auth: { anonymous: true }
backends: { w: { implementation: rest, properties: { uri: http://127.0.0.1:1 }, authorization: none } }
mounts: [{ namespace: [prod], backend: w }, { namespace: [lab], backend: w }]
authorization:
  - { namespace: [prod], read: { scope: catalog.read }, write: { deny: true } }
  - { namespace: [prod, hr], read: { claim: team, any_of: [hr, eu] }, write: { scope: w } }
";
    std::fs::write(&file, config).unwrap();
    let (prod, hr) = (
        "read: scope catalog.read, write: denied (rule [prod], gateway.yaml:6:5)",
        "read: claim team: hr or eu, write: scope w (rule [prod, hr], gateway.yaml:7:5)",
    );
    for (id, expected) in [
        ("prod", vec![("authorization", prod), ("rule below it", hr)]),
        ("prod$t", vec![("authorization", prod)]),
        ("prod$hr$t", vec![("authorization", hr)]),
        (
            "lab$t",
            vec![("authorization", "read: denied, write: denied (no rule)")],
        ),
    ] {
        let output = Command::new(env!("CARGO_BIN_EXE_nsgate"))
            .args(["explain", "--config", "gateway.yaml", id])
            .current_dir(folder.path())
            .env_clear()
            .output()
            .unwrap();
        let said = String::from_utf8(output.stdout).unwrap();
        let of_rules: Vec<&str> = said.lines().filter(|line| line.contains("read:")).collect();
        let expected: Vec<String> = expected
            .iter()
            .map(|(what, words)| format!("{what:<18}{words}"))
            .collect();
        assert_eq!(of_rules, expected, "{id}: {said}");
    }
}

#[test]
fn explain_says_where_an_identifier_goes() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("jwks.json"), "{}").unwrap();
    let explain = |id: &str| {
        let output = Command::new(env!("CARGO_BIN_EXE_nsgate"))
            .args(["explain", id])
            .env_clear()
            .env(
                "NSGATE_CONFIG",
                Path::new(env!("CARGO_MANIFEST_DIR")).join("python/nsgate/demo/gateway.yaml"),
            )
            .env("NSGATE_QUICKSTART_DIR", folder.path())
            .env("WAREHOUSE_URI", "http://127.0.0.1:2333/base")
            .env("LAKE_URI", "http://127.0.0.1:2334")
            .output()
            .unwrap();
        let said = [output.stdout, output.stderr].map(|said| String::from_utf8(said).unwrap());
        (output.status.code(), said.concat())
    };
    for (id, code, expected) in [
        (
            "prod$t 1",
            0,
            vec![
                "[\"prod\"]",
                "warehouse (rest",
                "/base/v1/namespace/prod%24t%201/",
                "/base/v1/table/prod%24t%201/",
                "kept",
            ],
        ),
        (
            "research$lake$t",
            0,
            vec!["lake (rest", "/v1/table/t/", "rewritten"],
        ),
        ("research$lake", 0, vec!["/v1/namespace/%24/"]),
        (
            "research",
            0,
            vec!["none", "[\"research\", \"lake\"] on lake"],
        ),
        (
            "research",
            0,
            vec!["authorization     none: every authenticated caller may read and write"],
        ),
        ("other", 1, vec!["no mount serves [\"other\"]"]),
        ("prod$$t", 1, vec!["empty name"]),
    ] {
        let (status, said) = explain(id);
        assert_eq!(status, Some(code), "{id}: {said}");
        for part in expected {
            assert!(said.contains(part), "{id}: {part} is not in {said}");
        }
    }
}
