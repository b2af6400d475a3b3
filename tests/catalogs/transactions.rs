//! The Python package's own tests: transactions and snapshots by real clients, over two real catalogs.

use crate::harness::{Python, file};

/// The package's tests in `python/tests`, and the number that must run at least.
const SUITES: [(&str, usize); 2] = [("test_operations.py", 50), ("test_outcomes.py", 40)];

#[test]
fn every_operation_of_pylance_and_lancedb_is_part_of_a_transaction() {
    passes(SUITES[0]);
}

#[test]
fn transactions_end_as_they_promise() {
    passes(SUITES[1]);
}

fn passes((name, least): (&str, usize)) {
    let Some(python) = Python::ready() else {
        return;
    };
    let mut pytest = python.module("pytest");
    let suite = file("../../python/tests").join(name);
    pytest.args(["-q", "-p", "no:cacheprovider", "-rP"]).arg(suite);
    pytest.env("NSGATE_BIN", env!("CARGO_BIN_EXE_nsgate"));
    let output = pytest.output().unwrap();
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said);
    assert!(output.status.success(), "{said}");
    let summary = said.lines().rev().find(|line| line.contains(" passed"));
    let summary = summary.unwrap_or_else(|| panic!("no summary: {said}"));
    let passed: usize = summary.split(' ').next().unwrap().parse().unwrap();
    assert!(passed >= least, "{summary}");
    println!("{name}: {summary}");
}
