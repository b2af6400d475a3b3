//! The configuration in the README passes `nsgate check` as it is, and the map of the tests names every file.
#![allow(clippy::unwrap_used, reason = "a test may fail by panicking")]

use std::fs;
use std::path::Path;
use std::process::Command;

#[test]
fn the_readmes_configuration_passes_the_check() {
    let readme = include_str!("../README.md");
    let (_, rest) = readme.split_once("```yaml\n").unwrap();
    let (configuration, _) = rest.split_once("```").unwrap();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("gateway.yaml");
    fs::write(&file, configuration).unwrap();
    // The README says beside `batch.log` that this folder must exist.
    fs::create_dir(folder.path().join("data")).unwrap();

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

#[test]
fn the_map_of_the_tests_names_every_file() {
    let map = include_str!("README.md");
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
    let mut missing = Vec::new();
    for folder in [
        "gateway",
        "gateway/batches",
        "catalogs",
        "catalogs/kills",
        "postgres",
    ] {
        for entry in fs::read_dir(tests.join(folder)).unwrap() {
            let name = entry.unwrap().file_name().into_string().unwrap();
            let is_named = map.contains(&format!("{name}`"));
            // Parts of a suite that are no tests.
            let is_support = ["main.rs", "harness.rs", "house.rs", "delays.rs"].contains(&&*name);
            if name.ends_with(".rs") && !is_named && !is_support {
                missing.push(format!("{folder}/{name}"));
            }
        }
    }
    assert!(
        missing.is_empty(),
        "tests/README.md says nothing about: {missing:?}"
    );
}
