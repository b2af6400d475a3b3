//! The contract's 54 operations, sent to a catalog and to the gateway in front of a similar one.
//!
//! `differences.tsv` must say why two answers differ. A line of that file that no answer needs fails, too.

use std::collections::BTreeSet;
use std::fs;
use std::thread;

use serde::Deserialize;

use crate::harness::{Behind, Catalog, Gateway, Python, file};

#[test]
fn every_operation_is_answered_as_by_the_catalog_where_the_path_is_kept() {
    compare("kept", &[]);
}

#[test]
fn every_operation_is_answered_as_by_the_catalog_where_its_root_is_mounted() {
    compare("rerooted", &["team", "x"]);
}

#[derive(Debug, Deserialize, PartialEq)]
struct Answer {
    operation: String,
    case: String,
    status: u16,
    content_type: String,
    body: String,
}

impl Answer {
    /// Returns the status, and the code of an error in the contract's shape, such as `404/4`.
    fn outcome(&self) -> String {
        let body: Option<serde_json::Value> = serde_json::from_str(&self.body).ok();
        let code = body.and_then(|body| body.get("code")?.as_u64());
        code.map_or_else(
            || self.status.to_string(),
            |code| format!("{}/{code}", self.status),
        )
    }
}

/// A line of `differences.tsv`.
struct Allowed {
    mount: String,
    case: String,
    catalog: String,
    gateway: String,
    why: String,
}

fn compare(mount: &str, namespace: &[&str]) {
    let Some(python) = Python::ready() else {
        return;
    };
    let (straight, fronted) = (Catalog::start(python), Catalog::start(python));
    let gateway = Gateway::before(&[Behind {
        rerooted: !namespace.is_empty(),
        ..Behind::kept("warehouse", fronted.uri(), namespace)
    }]);
    let ask = |uri: String, root: &str, names: &[&str]| -> Vec<Answer> {
        let arguments = [&[uri.as_str(), gateway.token(), root], names].concat();
        serde_json::from_value(python.run("differential.py", &arguments)).unwrap()
    };
    let (expected, seen) = thread::scope(|scope| {
        let expected = scope.spawn(|| ask(straight.uri(), straight.root(), &[]));
        let seen = ask(gateway.uri(), fronted.root(), namespace);
        (expected.join().unwrap(), seen)
    });

    let operations: BTreeSet<_> = expected.iter().map(|answer| &answer.operation).collect();
    assert_eq!(operations.len(), 54, "the corpus asks every operation");
    assert_eq!(expected.len(), seen.len());
    let allowed = allowed(mount);
    let mut needed = vec![0; allowed.len()];
    let mut unlisted = Vec::new();
    let mut differing = 0;
    for (one, other) in expected
        .iter()
        .zip(&seen)
        .filter(|(one, other)| one != other)
    {
        differing += 1;
        let case = format!("{}/{}", one.operation, one.case);
        let line = allowed.iter().position(|line| {
            matches(&line.case, &case)
                && matches(&line.catalog, &one.outcome())
                && matches(&line.gateway, &other.outcome())
        });
        match line {
            Some(line) => needed[line] += 1,
            None => unlisted.push(format!(
                "{case}\n  catalog: {}\n  gateway: {}",
                shown(one),
                shown(other)
            )),
        }
    }
    println!(
        "{mount}: {} requests, {differing} answers differ",
        expected.len()
    );
    for (line, count) in allowed.iter().zip(&needed) {
        let Allowed {
            case,
            catalog,
            gateway,
            why,
            ..
        } = line;
        println!("  {count:3} of {case}: {catalog} became {gateway}. {why}");
    }
    let idle = allowed
        .iter()
        .zip(&needed)
        .filter(|(_, count)| **count == 0);
    let idle: Vec<_> = idle.map(|(line, _)| line.case.as_str()).collect();
    assert!(
        unlisted.is_empty(),
        "{} unlisted differences:\n{}",
        unlisted.len(),
        unlisted.join("\n")
    );
    assert!(
        idle.is_empty(),
        "listed differences that do not occur: {idle:?}"
    );
}

fn shown(answer: &Answer) -> String {
    let body: String = answer.body.chars().take(600).collect();
    format!("{} {} {body}", answer.outcome(), answer.content_type)
}

fn allowed(mount: &str) -> Vec<Allowed> {
    let text = fs::read_to_string(file("differences.tsv")).unwrap();
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let lines = lines.map(|line| {
        let fields: Vec<_> = line.split('\t').map(str::to_owned).collect();
        let [mount, case, catalog, gateway, why] = fields.try_into().unwrap();
        assert!(!why.is_empty(), "{case} needs a reason");
        Allowed {
            mount,
            case,
            catalog,
            gateway,
            why,
        }
    });
    lines.filter(|line| matches(&line.mount, mount)).collect()
}

/// Returns true if `text` matches `pattern`, in which each `*` stands for any text.
fn matches(pattern: &str, text: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == text,
        Some((before, rest)) => text.strip_prefix(before).is_some_and(|tail| {
            let ends = tail.char_indices().map(|(at, _)| at).chain([tail.len()]);
            ends.into_iter().any(|at| matches(rest, &tail[at..]))
        }),
    }
}
