//! Unmodified clients get the same answers from the gateway as from the catalog.

use std::thread;

use serde_json::Value;

use crate::harness::{Behind, Catalog, Gateway, Python};

#[test]
fn clients_see_the_same_through_a_mount_that_keeps_the_path() {
    same_results(false, &[]);
}

#[test]
fn clients_see_the_same_through_a_mount_with_another_root() {
    same_results(true, &["team", "x"]);
}

fn same_results(rerooted: bool, namespace: &[&str]) {
    let Some(python) = Python::ready() else {
        return;
    };
    let (straight, fronted) = (Catalog::start(python), Catalog::start(python));
    let gateway = Gateway::before(&[Behind {
        rerooted,
        ..Behind::kept("warehouse", fronted.uri(), namespace)
    }]);
    let (uri, token) = (gateway.uri(), gateway.token());
    let through = [&[uri.as_str(), token], namespace].concat();
    let (expected, seen) = thread::scope(|scope| {
        let expected = scope.spawn(|| python.run("clients.py", &[&straight.uri(), token]));
        let seen = python.run("clients.py", &through);
        (expected.join().unwrap(), seen)
    });

    let steps = |pages: &Value| pages.as_array().unwrap().clone();
    let (expected, seen) = (steps(&expected), steps(&seen));
    assert!(expected.len() > 80, "only {} steps ran", expected.len());
    let failed = expected
        .iter()
        .filter(|step| step[1].get("raised").is_some());
    assert!(
        failed.count() < expected.len() / 3,
        "most steps are to succeed at the catalog itself"
    );
    let differing = expected
        .iter()
        .zip(&seen)
        .filter(|(one, other)| one != other);
    let report: Vec<_> = differing
        .map(|(one, other)| format!("{}\n  catalog: {}\n  gateway: {}", one[0], one[1], other[1]))
        .collect();
    assert!(report.is_empty(), "{}", report.join("\n"));
    assert_eq!(expected.len(), seen.len());
}
