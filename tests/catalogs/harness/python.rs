//! The Python environment of the tests, made once below the target directory.

use std::fs::{self, File};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, Once, OnceLock};

use serde_json::{Value, json};

use super::{Clients, file};

const MISSING: &str = "The tests with real catalogs need Python 3.11 or newer with venv and pip: \
    install python3-venv, or set NSGATE_SKIP_REAL=1 to skip tests with real catalogs.";

/// A Python interpreter that has the packages of `requirements.txt`.
pub struct Python {
    interpreter: PathBuf,
}

impl Python {
    /// Returns the environment; `None` if the tests with real catalogs are skipped, which it prints.
    pub fn ready() -> Option<&'static Self> {
        static READY: OnceLock<Python> = OnceLock::new();
        if std::env::var_os("NSGATE_SKIP_REAL").is_some_and(|value| value == "1") {
            // Prints to the stream itself, because the test harness captures the output of passing tests.
            static SAID: Once = Once::new();
            let say = || {
                writeln!(
                    std::io::stderr(),
                    "SKIPPED (NSGATE_SKIP_REAL=1): the tests with real catalogs"
                )
            };
            SAID.call_once(|| say().unwrap());
            return None;
        }
        Some(READY.get_or_init(|| Self {
            interpreter: made(Path::new(env!("CARGO_TARGET_TMPDIR"))),
        }))
    }

    /// Returns a command that runs one of the scripts beside the tests.
    pub fn script(&self, name: &str) -> Command {
        let mut command = self.command();
        command.arg(file(name));
        command
    }

    /// Returns a command that runs an installed module.
    pub fn module(&self, name: &str) -> Command {
        let mut command = self.command();
        command.args(["-m", name]);
        command
    }

    fn command(&self) -> Command {
        let mut command = Command::new(&self.interpreter);
        command.args(["-W", "ignore"]);
        command.env("PYTHONPATH", file("../../python"));
        // The gateway is on this machine, so no proxy may be used.
        command
            .env("NO_PROXY", "*")
            .env("PYTHONDONTWRITEBYTECODE", "1");
        command
    }

    /// Runs a script and reads the JSON that it prints. It runs in a process that has run others before, if there is one.
    pub fn run(&self, name: &str, arguments: &[&str]) -> Value {
        // The processes in which no script runs. They end when their standard input closes, with this one.
        static IDLE: Mutex<Vec<Clients>> = Mutex::new(Vec::new());
        let idle = IDLE.lock().unwrap().pop();
        let process = idle.unwrap_or_else(|| Clients::start(&mut self.script("runs.py")));
        let mut answer = process.order(&json!([name, arguments]));
        let raised = answer["raised"].as_str();
        assert!(
            raised.is_none(),
            "{name} {arguments:?}:\n{}",
            raised.unwrap()
        );
        IDLE.lock().unwrap().push(process);
        answer["printed"].take()
    }
}

/// Returns the interpreter of the environment in `folder`. One process makes it if it is missing; others wait.
fn made(folder: &Path) -> PathBuf {
    let requirements = file("requirements.txt");
    let mut hasher = DefaultHasher::new();
    for list in [
        &requirements,
        &file("../../deploy/quickstart/requirements.txt"),
    ] {
        fs::read(list).unwrap().hash(&mut hasher);
    }
    let home = folder.join(format!("catalogs-venv-{:016x}", hasher.finish()));
    let interpreter = home.join("bin").join("python");
    let complete = home.join("complete");

    fs::create_dir_all(folder).unwrap();
    let lock = File::create(home.with_extension("lock")).unwrap();
    lock.lock().unwrap();
    if !complete.exists() {
        let _ = fs::remove_dir_all(&home);
        eprintln!(
            "making the Python environment of the tests in {}",
            home.display()
        );
        done(Command::new("python3").args(["-m", "venv"]).arg(&home));
        let pip = [
            "-m",
            "pip",
            "install",
            "--quiet",
            "--disable-pip-version-check",
            "-r",
        ];
        done(Command::new(&interpreter).args(pip).arg(&requirements));
        File::create(complete).unwrap();
    }
    interpreter
}

fn done(command: &mut Command) {
    match command.output() {
        Ok(output) if output.status.success() => {}
        Ok(output) => {
            let errors = String::from_utf8_lossy(&output.stderr);
            panic!("{command:?} failed:\n{errors}\n{MISSING}")
        }
        Err(error) => panic!("{command:?}: {error}\n{MISSING}"),
    }
}
