//! The configuration in the README passes `nsgate check` as it is.
#![allow(clippy::unwrap_used, reason = "a test may fail by panicking")]

use std::process::Command;

#[test]
fn the_readmes_configuration_passes_the_check() {
    let readme = include_str!("../README.md");
    let (_, rest) = readme.split_once("```yaml\n").unwrap();
    let (configuration, _) = rest.split_once("```").unwrap();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("gateway.yaml");
    std::fs::write(&file, configuration).unwrap();
    // The README says beside `batch.log` that this folder must exist.
    std::fs::create_dir(folder.path().join("data")).unwrap();

    let mut check = Command::new(env!("CARGO_BIN_EXE_nsgate"));
    check.args(["check", "--config"]).arg(&file);
    check
        .env("WAREHOUSE_KEY", "k")
        .env("WAREHOUSE_SERVICE_TOKEN", "t");
    let output = check.output().unwrap();
    assert!(
        output.status.success() && output.stderr.is_empty(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
}
