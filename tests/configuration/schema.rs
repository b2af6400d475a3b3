//! The schema that ships beside the samples, and the lines by which editors find it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use nsgate::config::schema;
use serde_json::Value;

const SHIPPED: &str = "config/nsgate.schema.json";
/// The place of the schema where the `.deb` is installed.
const INSTALLED: &str = "/usr/share/nsgate/nsgate.schema.json";

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

#[test]
fn the_shipped_schema_is_the_one_of_this_build() {
    let current = format!("{:#}\n", schema::json());
    let file = root().join(SHIPPED);
    if std::env::var_os("NSGATE_WRITE_EXPECTED").is_some() {
        fs::write(&file, &current).unwrap();
    }
    let shipped = fs::read_to_string(file).unwrap_or_default();
    assert!(
        shipped == current,
        "{SHIPPED} is stale; write it with NSGATE_WRITE_EXPECTED=1 cargo test --test configuration schema"
    );
}

/// Returns the keys without a description, in all sections.
fn undescribed(schema: &Value, path: &str, found: &mut Vec<String>) {
    for (name, key) in schema["properties"].as_object().into_iter().flatten() {
        let path = format!("{path}.{name}");
        if key["description"].as_str().unwrap_or_default().len() < 5 {
            found.push(path.clone());
        }
        undescribed(key, &path, found);
    }
    for below in ["items", "additionalProperties"] {
        if schema[below].is_object() {
            undescribed(&schema[below], &format!("{path}.*"), found);
        }
    }
    for choice in schema["anyOf"].as_array().into_iter().flatten() {
        undescribed(choice, path, found);
    }
}

#[test]
fn every_key_has_a_description_and_the_schema_has_an_id() {
    let schema = schema::json();
    let mut found = Vec::new();
    undescribed(&schema, "", &mut found);
    assert!(found.is_empty(), "{found:?}");
    assert_eq!(schema["$id"], "urn:nsgate:configuration");
}

/// Returns the files named `*.yaml` directly in `folder`, and those named `gateway.yaml` below it.
fn samples(folder: &Path, direct: bool, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            samples(&path, false, found);
        } else if path.ends_with("gateway.yaml")
            || direct && path.extension().is_some_and(|kind| kind == "yaml")
        {
            found.push(path);
        }
    }
}

#[test]
fn every_sample_tells_editors_where_its_schema_is() {
    let mut files = Vec::new();
    samples(&root().join("config"), true, &mut files);
    samples(&root().join("deploy"), false, &mut files);
    assert!(files.len() >= 8, "{files:?}");
    let shipped = root().join(SHIPPED).canonicalize().unwrap();
    for file in files {
        let text = fs::read_to_string(&file).unwrap();
        let first = text.lines().next().unwrap();
        let named = first.strip_prefix("# yaml-language-server: $schema=");
        let named = named.unwrap_or_else(|| panic!("{} begins with {first}", file.display()));
        if named != INSTALLED {
            let path = file.parent().unwrap().join(named);
            let path = path
                .canonicalize()
                .unwrap_or_else(|_| panic!("{} names {named}", file.display()));
            assert_eq!(path, shipped);
        }
    }
    let script = fs::read_to_string(root().join("deploy/package.sh")).unwrap();
    assert!(
        script.contains("share/nsgate/nsgate.schema.json"),
        "the packages have no schema"
    );
}

#[test]
fn a_schema_that_cannot_be_written_is_a_failure() {
    let full = fs::File::options().write(true).open("/dev/full").unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_nsgate"))
        .arg("schema")
        .stdout(full)
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("cannot be written"));
}
