//! The Python package's own tests: transactions and snapshots by real clients, over two real catalogs.

use crate::harness::{Python, file};

/// The folder of the package and its tests.
const PACKAGE: &str = "../../python";

#[test]
fn every_operation_of_pylance_and_lancedb_is_part_of_a_transaction() {
    passes("test_operations.py", 50);
}

#[test]
fn transactions_end_as_they_promise() {
    passes("test_outcomes.py", 30);
}

#[test]
fn a_crash_or_a_lost_answer_leaves_all_of_a_transaction_or_nothing() {
    passes("test_crashes.py", 25);
}

#[test]
fn others_at_the_worst_moment_lose_and_double_nothing() {
    passes("test_adversity.py", 35);
}

#[test]
fn a_table_that_is_cleaned_up_meanwhile_is_not_lost() {
    passes("test_cleanup.py", 7);
}

#[test]
fn new_tables_appear_with_the_commit() {
    passes("test_creation.py", 8);
}

#[test]
fn a_name_that_another_table_has_got_meanwhile_is_noticed() {
    passes("test_names.py", 8);
}

#[test]
fn many_partitions_change_together() {
    passes("test_partitions.py", 3);
}

#[test]
fn the_examples_of_the_documentation_run() {
    passes("test_docs.py", 10);
}

#[test]
fn types_and_style_are_clean() {
    let Some(python) = Python::ready() else {
        return;
    };
    let settings = file("../../pyproject.toml");
    let run = |module: &str, arguments: &[&str]| {
        let mut command = python.module(module);
        command.current_dir(file(PACKAGE)).args(arguments);
        let output = command.output().unwrap();
        let said = [output.stdout, output.stderr].concat();
        assert!(
            output.status.success(),
            "{module} {arguments:?}: {}",
            String::from_utf8_lossy(&said)
        );
    };
    let settings = settings.to_str().unwrap();
    let cache = tempfile::tempdir().unwrap();
    let cache = cache.path().to_str().unwrap();
    run(
        "mypy",
        &["--config-file", settings, "--cache-dir", cache, "nsgate"],
    );
    run("ruff", &["check", "--no-cache", "--config", settings, "."]);
    run(
        "ruff",
        &["format", "--no-cache", "--check", "--config", settings, "."],
    );
    run("pip", &["check"]);
}

/// Runs a file of the package's tests; at least so many must run.
fn passes(name: &str, least: usize) {
    let Some(python) = Python::ready() else {
        return;
    };
    let mut pytest = python.module("pytest");
    let suite = file(PACKAGE).join("tests").join(name);
    pytest
        .args(["-q", "-p", "no:cacheprovider", "-rP"])
        .arg(suite);
    pytest.env("NSGATE_BIN", env!("CARGO_BIN_EXE_nsgate"));
    pytest.env("LANCE_LOG", "error");
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
