//! The command `nsgate demo`: hands over to the tour of the Python package, which starts this program in turn.

use std::env;
use std::ffi::OsString;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Ends with 0 where Python can import the tour.
const HAS_TOUR: &str = "from importlib.util import find_spec
import sys
sys.exit(find_spec('nsgate') is None or find_spec('nsgate.demo') is None)";

/// Replaces this process by the tour. Returns only if it cannot.
pub(crate) fn run(arguments: &[OsString]) -> Result<String, String> {
    let program = env::current_exe()
        .map_err(|error| format!("nsgate demo: the path of this program is unknown: {error}"))?;
    // A virtual environment has the Python that nsgate was installed with beside nsgate.
    let beside = program.with_file_name("python3");
    let Some(python) = [beside.clone(), PathBuf::from("python3")]
        .into_iter()
        .find(|python| has_tour(python))
    else {
        return Err(format!(
            "nsgate demo: neither {} nor python3 in PATH can import nsgate.demo\n  \
             install the Python package with its clients: pip install 'nsgate[client]'",
            beside.display()
        ));
    };
    let error = Command::new(&python)
        .args(["-m", "nsgate.demo"])
        .args(arguments)
        .env("NSGATE_BIN", &program)
        .exec();
    Err(format!(
        "nsgate demo: cannot run {}: {error}",
        python.display()
    ))
}

fn has_tour(python: &Path) -> bool {
    let status = Command::new(python)
        .args(["-c", HAS_TOUR])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    status.is_ok_and(|status| status.success())
}
