//! Tests of the tests. Each bug of the batch protocol, and each bug that removes a protection of catalogs or of the
//! gateway, is planted in a copy of the source. Some test has to fail.
//!
//! `cargo test --test mutants` checks that every bug still fits the source. `NSGATE_MUTANTS=all cargo test --test
//! mutants -- --nocapture` plants them one after the other (each is a build: about a minute) and prints the test that
//! caught it. `NSGATE_MUTANTS='NAME;NAME'` plants only those.
#![allow(
    clippy::unwrap_used,
    missing_docs,
    unreachable_pub,
    reason = "tests say what they expect; nobody links against them"
)]

mod batch_bugs;
mod bug;
mod fleet_bugs;
mod protections;
mod protocol_bugs;
mod removal_bugs;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Instant;

use batch_bugs::BATCH_BUGS;
use bug::Bug;
use fleet_bugs::FLEET_BUGS;
use protections::PROTECTIONS;
use protocol_bugs::PROTOCOL_BUGS;
use removal_bugs::REMOVAL_BUGS;

const ROOT: &str = env!("CARGO_MANIFEST_DIR");
/// The parts that a copy needs to be built and tested.
const PARTS: [&str; 11] = [
    "Cargo.toml",
    "Cargo.lock",
    "build.rs",
    "README.md",
    "src",
    "tests",
    "config",
    "deploy",
    "benches",
    "pyproject.toml",
    "python",
];

#[test]
fn every_bug_still_fits_the_source() {
    for Bug {
        name,
        file,
        right,
        wrong,
        ..
    } in all()
    {
        let source = fs::read_to_string(Path::new(ROOT).join(file)).unwrap();
        let places = source.matches(right).count();
        assert_eq!(places, 1, "`{name}` has no place, or several, in {file}");
        assert_ne!(right, wrong, "`{name}` is no bug");
    }
    let mut names: Vec<_> = all().map(|bug| bug.name).collect();
    names.sort_unstable();
    names.dedup();
    assert!(names.len() == all().count() && names.len() >= 20);
}

#[test]
fn every_planted_bug_is_caught() {
    let Ok(wanted) = std::env::var("NSGATE_MUTANTS") else {
        println!("not run: NSGATE_MUTANTS=all plants them");
        return;
    };
    let chosen: Vec<_> = all()
        .filter(|bug| wanted == "all" || wanted.split(';').any(|name| name == bug.name))
        .collect();
    assert!(!chosen.is_empty(), "no bug is called {wanted}");
    let copy = Copy::make();
    let missed: Vec<_> = chosen
        .iter()
        .filter(|bug| !copy.catches(bug))
        .map(|bug| bug.name)
        .collect();
    println!("{} of {} caught", chosen.len() - missed.len(), chosen.len());
    assert!(missed.is_empty(), "not caught: {missed:?}");
}

fn all() -> impl Iterator<Item = &'static Bug> {
    let batches = PROTOCOL_BUGS.iter().chain(BATCH_BUGS).chain(REMOVAL_BUGS);
    batches.chain(PROTECTIONS).chain(FLEET_BUGS)
}

/// A copy of the source.
struct Copy {
    root: PathBuf,
    target: PathBuf,
}

impl Copy {
    fn make() -> Self {
        let target = std::env::var_os("CARGO_TARGET_DIR")
            .map_or_else(|| Path::new(ROOT).join("target"), PathBuf::from);
        let root = target.join("mutants");
        fs::create_dir_all(&root).unwrap();
        for part in PARTS {
            copy(&Path::new(ROOT).join(part), &root.join(part));
        }
        Self {
            target: root.join("target"),
            root,
        }
    }

    /// Plants a bug, runs its checkers until one fails, and removes it again.
    fn catches(&self, bug: &Bug) -> bool {
        let path = self.root.join(bug.file);
        let source = fs::read_to_string(&path).unwrap();
        fs::write(&path, source.replacen(bug.right, bug.wrong, 1)).unwrap();
        let began = Instant::now();
        let caught = bug
            .checkers
            .iter()
            .find_map(|checker| self.fails(bug, checker));
        fs::write(&path, source).unwrap();
        let by = caught.as_deref().unwrap_or("NOTHING");
        println!(
            "{}: caught by {by} ({} s)",
            bug.name,
            began.elapsed().as_secs()
        );
        caught.is_some()
    }

    /// Returns the first test of a checker that fails.
    fn fails(&self, bug: &Bug, checker: &[&str]) -> Option<String> {
        // A bug that does not compile proves nothing, so it counts as not caught.
        let built = self.cargo(&["test", "--locked", "--no-run"], checker);
        let said = String::from_utf8_lossy(&built.stderr);
        if !built.status.success() {
            println!("`{}` does not compile:\n{said}", bug.name);
            return None;
        }
        let run = self.cargo(&["test", "--locked"], checker);
        let said = String::from_utf8_lossy(&run.stdout);
        if run.status.success() {
            let ran = said.lines().any(|line| line.ends_with("... ok"));
            assert!(ran, "no test is called {checker:?}");
            return None;
        }
        let failed = said.lines().find_map(|line| {
            let test = line.strip_prefix("test ")?;
            test.strip_suffix(" ... FAILED").map(str::to_owned)
        });
        // A failure without a failing test says nothing about the bug, unless the whole process ended.
        Some(failed.unwrap_or_else(|| format!("{} (it ended the process)", checker.join(" "))))
    }

    fn cargo(&self, what: &[&str], checker: &[&str]) -> Output {
        let filter = checker
            .iter()
            .position(|part| !part.starts_with("--") && !is_target(part, checker));
        let (targets, filters) = checker.split_at(filter.unwrap_or(checker.len()));
        let filters = if what.contains(&"--no-run") {
            &[][..]
        } else {
            filters
        };
        Command::new(env!("CARGO"))
            .current_dir(&self.root)
            .env("CARGO_TARGET_DIR", &self.target)
            .env("NSGATE_SEEDS", "0..2000")
            .env("NSGATE_FLEET_SEEDS", "0..1000")
            .env("NSGATE_FAULTS", "all")
            .env_remove("NSGATE_MUTANTS")
            // It is set where tests are timed, and would build other dependencies.
            .env_remove("RUSTC_BOOTSTRAP")
            .args(what)
            .args(targets)
            .args(filters)
            .output()
            .unwrap()
    }
}

/// Returns true if the word is the name that follows `--test`.
fn is_target(word: &str, checker: &[&str]) -> bool {
    checker.windows(2).any(|pair| pair == ["--test", word])
}

/// Copies the files that have changed, so that only these are built again, and removes those that are gone.
fn copy(from: &Path, to: &Path) {
    if from.is_dir() {
        fs::create_dir_all(to).unwrap();
        for entry in fs::read_dir(to).unwrap() {
            let left = entry.unwrap().path();
            if from.join(left.file_name().unwrap()).exists() {
                continue;
            }
            if left.is_dir() {
                fs::remove_dir_all(left).unwrap();
            } else {
                fs::remove_file(left).unwrap();
            }
        }
        for entry in fs::read_dir(from).unwrap() {
            let name = entry.unwrap().file_name();
            copy(&from.join(&name), &to.join(&name));
        }
    } else if from.is_file() && fs::read(from).ok() != fs::read(to).ok() {
        fs::copy(from, to).unwrap();
    }
}
