//! Renames of real tables with all of their versions, although no real catalog renames.

use serde_json::{Value, json};

use crate::harness::{Behind, Catalog, Gateway, Python};

fn renamed(python: &Python, gateway: &Gateway, old: &str, new: &str) -> Value {
    let uri = gateway.uri();
    python.run("rename.py", &[&uri, gateway.token(), old, new])
}

/// Checks that the client went on with the new name and that the old one is gone.
fn assert_renamed(seen: &Value) {
    assert_eq!(seen["rename"], "renamed", "{seen}");
    assert_eq!(seen["listed"], json!([false, true]), "{seen}");
    assert!(seen["old"]["raised"].is_string(), "{seen}");
    assert_eq!(seen["before"], json!({"rows": 9, "versions": [1, 2]}));
    assert_eq!(seen["new"], seen["before"], "{seen}");
    assert_eq!(seen["appended"], 3, "{seen}");
    assert_eq!(seen["after"], json!({"rows": 11, "versions": [1, 2, 3]}));
    assert_eq!(seen["lancedb"], 11, "{seen}");
}

/// Checks that only the client's own writes have changed anything.
fn assert_refused(seen: &Value, why: &str) {
    let message = seen["rename"]["message"].as_str().unwrap_or_default();
    assert!(message.contains(why), "{seen}");
    assert_eq!(seen["old"], 9, "{seen}");
    assert_eq!(seen["listed"], json!([true, false]), "{seen}");
    assert!(seen["new"]["raised"].is_string(), "{seen}");
}

#[test]
fn a_table_is_renamed_within_a_catalog_and_between_its_mounts() {
    let Some(python) = Python::ready() else {
        return;
    };
    let catalog = Catalog::start(python);
    let gateway = Gateway::before(&[Behind::kept("warehouse", catalog.uri(), &[])]);
    assert_renamed(&renamed(python, &gateway, "prod$orders", "prod$sales"));
    assert_renamed(&renamed(python, &gateway, "prod$orders", "archive$orders"));
}

/// A table below one catalog's folder is not below the other's, so the rename must be refused.
#[test]
fn a_table_is_not_renamed_into_a_catalog_that_cannot_have_it() {
    let Some(python) = Python::ready() else {
        return;
    };
    let (warehouse, lake) = (Catalog::start(python), Catalog::start(python));
    let gateway = Gateway::before(&[
        Behind::kept("warehouse", warehouse.uri(), &["prod"]),
        Behind::kept("lake", lake.uri(), &["lake"]),
    ]);
    let seen = renamed(python, &gateway, "prod$orders", "lake$orders");
    assert_refused(&seen, "backend `lake` would put the table elsewhere");
}

#[test]
fn a_table_at_the_root_of_a_directory_keeps_its_name() {
    let Some(python) = Python::ready() else {
        return;
    };
    let catalog = Catalog::start(python);
    let gateway = Gateway::before(&[Behind::rerooted("lake", catalog.uri(), &["lake"])]);
    let seen = renamed(python, &gateway, "lake$events", "lake$facts");
    assert_refused(&seen, "by the name of its directory");
    let seen = renamed(python, &gateway, "lake$deep$events", "lake$facts");
    assert_refused(&seen, "accepted the table and then does not have it");
}
