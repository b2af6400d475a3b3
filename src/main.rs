//! The program: arguments, configuration, run. Nothing else ends the process.

mod cli;

use std::fmt::Write as _;
use std::io::Write as _;
use std::process::ExitCode;

use clap::Parser;
use nsgate::config::load::{self, Loaded};
use nsgate::config::schema;

use cli::{Cli, Command, ConfigFile};

/// Bad input or configuration.
const BAD_INPUT: u8 = 1;

fn main() -> ExitCode {
    let result = match Cli::parse().command {
        Command::Check(file) => check(&file),
        Command::Schema => Ok(format!("{:#}", schema::json())),
    };
    match result {
        Ok(output) => {
            // A reader that has gone away, as `head` does, is no failure.
            let _ = writeln!(std::io::stdout(), "{output}");
            ExitCode::SUCCESS
        }
        Err(failure) => {
            let _ = writeln!(std::io::stderr(), "{}", failure.message);
            ExitCode::from(failure.exit_code)
        }
    }
}

/// Why the process ends with another code than 0.
struct Failure {
    exit_code: u8,
    message: String,
}

fn check(file: &ConfigFile) -> Result<String, Failure> {
    loaded(file).map(|_| "ok".to_owned())
}

/// The configuration, its warnings said.
fn loaded(file: &ConfigFile) -> Result<Loaded, Failure> {
    let loaded = load::from_path(&file.config).map_err(|problems| Failure {
        exit_code: BAD_INPUT,
        message: problems.to_string(),
    })?;
    let mut warnings = String::new();
    for warning in &loaded.warnings {
        let _ = writeln!(warnings, "{warning}");
    }
    let _ = std::io::stderr().write_all(warnings.as_bytes());
    Ok(loaded)
}
