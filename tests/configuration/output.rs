//! The other forms of what `nsgate check` prints: JSON, and marks for pull requests.

use std::path::Path;
use std::process::Command;

use nsgate::config::load::Problem;
use serde_json::{Value, json};

use super::{ENVIRONMENT, broken, folder, load_broken};

/// Runs `nsgate check`, which must print nothing on stderr; returns the exit code and stdout.
fn check(folder: &Path, file: &str, arguments: &[&str]) -> (Option<i32>, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_nsgate"))
        .args(["check", "--config", file])
        .args(arguments)
        .env_clear()
        .envs(ENVIRONMENT)
        .current_dir(folder)
        .output()
        .unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(stderr, "", "{file}");
    (
        output.status.code(),
        String::from_utf8(output.stdout).unwrap(),
    )
}

#[test]
fn json_has_every_problem_with_its_place() {
    let document = |problem: &Problem| {
        let place = problem.place.unwrap();
        json!({
            "severity": if problem.warning { "warning" } else { "error" },
            "file": problem.file, "line": place.line, "column": place.column,
            "key": problem.key, "message": problem.message,
        })
    };
    for name in broken() {
        let problems = load_broken(&name).unwrap_err();
        let mut all: Vec<&Problem> = problems.errors.iter().chain(&problems.warnings).collect();
        all.sort_by_key(|problem| problem.place);
        let expected: Vec<Value> = all.into_iter().map(document).collect();
        let (code, said) = check(&folder(), &format!("{name}.yaml"), &["--json"]);
        let said: Value = serde_json::from_str(&said).unwrap();
        let texts = |list: &[Value]| serde_json::to_string_pretty(list).unwrap();
        let found = said["problems"].as_array().unwrap();
        // Messages about files have the folder's path in one of the two.
        assert_eq!(found.len(), expected.len(), "{name}: {}", texts(found));
        for (found, expected) in found.iter().zip(&expected) {
            for key in ["severity", "file", "line", "column", "key"] {
                assert_eq!(found[key], expected[key], "{name}: {found}");
            }
            assert!(
                found["message"]
                    .as_str()
                    .is_some_and(|words| words.len() > 9),
                "{name}: {found}"
            );
        }
        assert_eq!((code, &said["ok"]), (Some(1), &json!(false)), "{name}");
    }
}

const WARNED: &str = "auth: { anonymous: true }
backends:
  used: { implementation: rest, properties: { uri: http://127.0.0.1:1 }, authorization: none }
  spare: { implementation: rest, properties: { uri: http://127.0.0.1:2 }, authorization: none }
mounts: [{ namespace: [a], backend: used }]
batch: { log: batches.redb }
";

#[test]
fn a_warning_is_reported_and_is_no_failure() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("gateway.yaml"), WARNED).unwrap();
    let (code, said) = check(folder.path(), "gateway.yaml", &["--format", "json"]);
    let said: Value = serde_json::from_str(&said).unwrap();
    assert_eq!((code, &said["ok"]), (Some(0), &json!(true)), "{said}");
    let problems = said["problems"].as_array().unwrap();
    let found: Vec<_> = problems
        .iter()
        .map(|problem| (&problem["severity"], &problem["key"]))
        .collect();
    let (severity, key) = (json!("warning"), json!("backends.spare"));
    assert_eq!(found, [(&severity, &key)], "{said}");
    assert!(said.get("online").is_none(), "{said}");

    let (code, said) = check(folder.path(), "gateway.yaml", &["--format", "github"]);
    let expected = "::warning file=gateway.yaml,line=4,col=10,title=nsgate check::backends.spare: no mount uses this backend";
    assert_eq!(code, Some(0), "{said}");
    assert!(
        said.starts_with(expected) && said.ends_with("\nok\n"),
        "{said}"
    );
}

#[test]
fn a_pull_request_gets_a_mark_for_each_of_the_first_problems() {
    for name in broken() {
        let problems = load_broken(&name).unwrap_err();
        let (code, said) = check(&folder(), &format!("{name}.yaml"), &["--format", "github"]);
        assert_eq!(code, Some(1), "{name}");
        let is_mark = |line: &&str| line.starts_with("::error") || line.starts_with("::warning");
        let marks: Vec<&str> = said.lines().filter(is_mark).collect();
        let (errors, warnings) = (problems.errors.len(), problems.warnings.len());
        // GitHub shows no more of them.
        let shown = errors.min(10) + warnings.min(10);
        assert_eq!(marks.len(), shown, "{name}: {said}");
        let last = format!("errors: {errors}, warnings: {warnings}");
        assert_eq!(said.lines().last(), Some(&*last), "{name}");
        let mut first: Vec<&Problem> = problems.errors.iter().collect();
        first.sort_by_key(|problem| problem.place);
        for problem in first.into_iter().take(10) {
            let place = problem.place.unwrap();
            let start = format!(
                "::error file={name}.yaml,line={},col={},title=nsgate check::",
                place.line, place.column
            );
            assert!(
                marks.iter().any(|mark| mark.starts_with(&start)),
                "{name}: {start} is not in {said}"
            );
        }
        assert!(!said.contains("hunter"), "{said}");
    }
}

#[test]
fn a_file_that_cannot_be_read_has_no_line() {
    let folder = tempfile::tempdir().unwrap();
    let (code, said) = check(folder.path(), "none.yaml", &["--json"]);
    let said: Value = serde_json::from_str(&said).unwrap();
    let problem = &said["problems"][0];
    assert_eq!((code, &problem["line"]), (Some(1), &Value::Null), "{said}");
    let (_, said) = check(folder.path(), "none.yaml", &["--format", "github"]);
    assert!(
        said.starts_with("::error file=none.yaml,title=nsgate check::cannot be read"),
        "{said}"
    );
}
