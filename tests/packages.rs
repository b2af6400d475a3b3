//! The program and the Python package find each other, wherever they were installed.
#![allow(clippy::unwrap_used, reason = "a test may fail by panicking")]

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const PROGRAM: &str = env!("CARGO_BIN_EXE_nsgate");

/// Stands in for a Python that has the tour: tells how it was called.
const WITH_TOUR: &str = "[ \"$1\" = -c ] || echo \"$0|$NSGATE_BIN|$*\"";
/// Stands in for a Python without the package.
const WITHOUT: &str = "exit 1";

fn script(path: &Path, body: &str) {
    fs::write(path, format!("#!/bin/sh\n{body}\n")).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

/// Returns the exit code and all that was written.
fn result(command: &mut Command) -> (Option<i32>, String) {
    let Output {
        status,
        stdout,
        stderr,
    } = command.output().unwrap();
    let text = [stdout, stderr].map(|text| String::from_utf8(text).unwrap());
    (status.code(), text.concat())
}

/// A folder `bin` with the program, a folder `path` that is all of PATH, and in each a Python, if one is given.
fn demo(beside: Option<&str>, in_path: Option<&str>) -> (Option<i32>, String, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().canonicalize().unwrap();
    let [bin, path] = ["bin", "path"].map(|name| root.join(name));
    for (folder, python) in [(&bin, beside), (&path, in_path)] {
        fs::create_dir(folder).unwrap();
        if let Some(body) = python {
            script(&folder.join("python3"), body);
        }
    }
    let program = bin.join("nsgate");
    // A copy cannot be run while a child of another test has it open for writing.
    fs::hard_link(PROGRAM, &program)
        .or_else(|_| fs::copy(PROGRAM, &program).map(drop))
        .unwrap();
    let mut command = Command::new(&program);
    command.args(["demo", "--serve", "--help"]).env_clear();
    let (code, text) = result(command.env("PATH", &path));
    (code, text, root)
}

#[test]
fn demo_hands_over_to_the_python_beside_it_and_then_to_one_in_path() {
    for (beside, in_path, expected) in [
        (Some(WITH_TOUR), Some(WITH_TOUR), "bin"),
        (Some(WITHOUT), Some(WITH_TOUR), "path"),
        (None, Some(WITH_TOUR), "path"),
    ] {
        let (code, text, root) = demo(beside, in_path);
        let python = root.join(expected).join("python3");
        let program = root.join("bin/nsgate");
        let call = format!(
            "{}|{}|-m nsgate.demo --serve --help\n",
            python.display(),
            program.display()
        );
        assert_eq!((code, text), (Some(0), call));
    }
}

#[test]
fn demo_without_the_python_package_says_how_to_get_it() {
    for (beside, in_path) in [(Some(WITHOUT), Some(WITHOUT)), (None, None)] {
        let (code, text, root) = demo(beside, in_path);
        let expected = format!(
            "nsgate demo: neither {} nor python3 in PATH can import nsgate.demo\n  \
             install the Python package with its clients: pip install 'nsgate[client]'\n",
            root.join("bin/python3").display()
        );
        assert_eq!((code, text), (Some(1), expected));
    }
}

#[test]
fn completions_are_printed_for_each_shell() {
    for shell in ["bash", "zsh", "fish"] {
        let (code, text) = result(Command::new(PROGRAM).args(["completions", shell]));
        assert_eq!(code, Some(0));
        assert!(text.contains("dev-token"), "{shell}: {text}");
    }
}

/// Runs `python3 -m nsgate`, or nothing where there is no Python.
fn module(arguments: &[&str], variables: &[(&str, &Path)]) -> Option<(Option<i32>, String)> {
    if std::env::var_os("NSGATE_SKIP_REAL").is_some() {
        eprintln!("SKIPPED: needs Python");
        return None;
    }
    let package = Path::new(env!("CARGO_MANIFEST_DIR")).join("python");
    let mut command = Command::new("python3");
    command.args(["-m", "nsgate"]).args(arguments);
    command.env_remove("NSGATE_BIN").env("PYTHONPATH", package);
    command.env("PYTHONDONTWRITEBYTECODE", "1");
    Some(result(command.envs(variables.iter().copied())))
}

#[test]
fn the_python_module_runs_the_program() {
    let version = format!("nsgate {}\n", nsgate::build::DESCRIPTION);
    let path = std::env::var("PATH").unwrap();
    let folder = Path::new(PROGRAM).parent().unwrap().display();
    let path = format!("{folder}:{path}");
    let Some(found) = module(&["--version"], &[("PATH", Path::new(&path))]) else {
        return;
    };
    assert_eq!(found, (Some(0), version.clone()));

    let chosen = module(&["--version"], &[("NSGATE_BIN", Path::new(PROGRAM))]);
    assert_eq!(chosen, Some((Some(0), version)));

    // Arguments and the exit code are the program's.
    let (code, text) = module(&["explode"], &[("NSGATE_BIN", Path::new(PROGRAM))]).unwrap();
    assert!(text.contains("'explode'"), "{text}");
    assert_eq!(code, Some(2));

    let missing = Path::new("/nowhere/nsgate");
    let (code, text) = module(&["--version"], &[("NSGATE_BIN", missing)]).unwrap();
    let expected = "python -m nsgate: cannot run /nowhere/nsgate: No such file or directory\n";
    assert_eq!((code, text.as_str()), (Some(1), expected));
}

#[test]
fn the_python_module_without_clients_says_how_to_get_them() {
    if std::env::var_os("NSGATE_SKIP_REAL").is_some() {
        eprintln!("SKIPPED: needs Python");
        return;
    }
    let package = Path::new(env!("CARGO_MANIFEST_DIR")).join("python");
    let script =
        "import sys; sys.path.append(sys.argv[1]); import nsgate; nsgate.Error; nsgate.connect";
    // -S: without what is installed on this machine.
    let mut command = Command::new("python3");
    command.args(["-S", "-B", "-c", script]).arg(package);
    let (code, text) = result(&mut command);
    let expected =
        "ModuleNotFoundError: nsgate.connect needs lance_namespace: pip install 'nsgate[client]'";
    assert_eq!((code, text.lines().last()), (Some(1), Some(expected)));
}
