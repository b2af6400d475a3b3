//! The program: arguments, configuration, run, and the exit code of every command. No other code ends the process.

mod batches;
mod check;
mod cli;
mod completions;
mod demo;
mod explain;
mod gateways;
mod health;
mod log;
mod reload;
mod status;

use std::fmt::Write as _;
use std::io::Write as _;
use std::process::ExitCode;

use clap::Parser;
use clap::error::{ContextKind, ContextValue};
use nsgate::app;
use nsgate::config::MASK;
use nsgate::config::load::{self, Loaded};
use nsgate::config::reload::Reading;
use nsgate::config::schema;
use nsgate::telemetry::past_log;
use tracing::Level;

use cli::{Cli, Command, ConfigFile};

/// Takes 3 % off the cost of a request, and 4 KiB off an idle connection: its blocks lie on pages of their own, of
/// which only those that are touched are resident. A thread of its own gives back memory that was not used for ten
/// seconds.
#[cfg(feature = "jemalloc")]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// The exit code for bad input or configuration.
const BAD_INPUT: u8 = 1;
/// The exit code of `nsgate status` if a person has to act.
const NEEDS_PERSON: u8 = 1;

fn main() -> ExitCode {
    let result = match arguments().command {
        Command::Serve(file) => serve(&file),
        Command::Check(arguments) => check::run(&arguments),
        Command::Explain(arguments) => loaded(&arguments.file)
            .and_then(|loaded| explain::explain(&loaded, &arguments).map_err(Failure::bad_input)),
        Command::Batches(arguments) => batches::run(&arguments).map_err(Failure::bad_input),
        Command::Status(arguments) => match status::run(&arguments).map_err(Failure::bad_input) {
            Ok(seen) if seen.needs_person => {
                return print(&seen.text, ExitCode::from(NEEDS_PERSON));
            }
            seen => seen.map(|seen| seen.text),
        },
        Command::Gateways(arguments) => gateways::run(&arguments).map_err(Failure::bad_input),
        Command::Health(arguments) => health::run(&arguments).map_err(Failure::bad_input),
        Command::Reload(arguments) => reload::run(&arguments),
        Command::Log(arguments) => log::run(&arguments).map_err(Failure::bad_input),
        Command::DevToken(arguments) => dev_token(arguments),
        Command::Demo(arguments) => demo::run(&arguments.arguments).map_err(Failure::bad_input),
        Command::Completions { shell } => Ok(completions::of(shell).to_owned()),
        Command::Schema => Ok(format!("{:#}", schema::json())),
    };
    match result {
        Ok(output) if output.is_empty() => ExitCode::SUCCESS,
        Ok(output) => print(&output, ExitCode::SUCCESS),
        Err(failure) => {
            let _ = if failure.is_output {
                writeln!(std::io::stdout(), "{}", failure.message)
            } else {
                writeln!(std::io::stderr(), "{}", failure.message)
            };
            ExitCode::from(failure.exit_code)
        }
    }
}

/// Parses the command line. An address that is refused is not repeated: it may hold a password.
fn arguments() -> Cli {
    Cli::try_parse().unwrap_or_else(|mut error| {
        for kind in [ContextKind::InvalidValue, ContextKind::InvalidArg] {
            let given = error.get(kind).map(ToString::to_string);
            if given.is_some_and(|given| given.contains("://")) {
                error.insert(kind, ContextValue::String(MASK.to_owned()));
            }
        }
        error.exit()
    })
}

/// Prints the output, and returns `code`, or the code for bad input if not all of it was written. A reader that has gone
/// away, as `head` does, is no failure.
fn print(output: &str, code: ExitCode) -> ExitCode {
    let mut stdout = std::io::stdout();
    match writeln!(stdout, "{output}").and_then(|()| stdout.flush()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            let _ = writeln!(std::io::stderr(), "the output cannot be written: {error}");
            ExitCode::from(BAD_INPUT)
        }
        _ => code,
    }
}

/// The reason why the process ends with another code than 0.
struct Failure {
    exit_code: u8,
    message: String,
    /// True if the message is what the command is for, such as a list of problems in JSON.
    is_output: bool,
}

impl Failure {
    #[allow(
        clippy::needless_pass_by_value,
        reason = "it is what map_err hands over"
    )]
    fn bad_input(message: impl ToString) -> Self {
        Self {
            exit_code: BAD_INPUT,
            message: message.to_string(),
            is_output: false,
        }
    }

    /// Ends with the exit code for bad input, and prints `output` as if nothing had failed.
    fn printed(output: String) -> Self {
        Self {
            is_output: true,
            ..Self::bad_input(output)
        }
    }
}

fn serve(file: &ConfigFile) -> Result<String, Failure> {
    let Reading { loaded, digests } = Reading::of(&file.config);
    let loaded = loaded.map_err(Failure::bad_input)?;
    let format = loaded.config.telemetry.log;
    let run = app::run(&file.config, loaded, digests);
    run.map(|()| String::new()).map_err(|failure| Failure {
        exit_code: failure.exit_code(),
        message: past_log(format, Level::ERROR, &failure.to_string()),
        is_output: false,
    })
}

fn dev_token(arguments: cli::DevToken) -> Result<String, Failure> {
    let args = nsgate::dev_token::DevToken {
        dir: arguments.dir,
        issuer: arguments.issuer,
        audience: arguments.audience,
        subject: arguments.subject,
        scope: arguments.scope,
        claims: arguments.claims,
        ttl: arguments.ttl,
    };
    nsgate::dev_token::run(&args).map_err(Failure::bad_input)
}

/// Prints the warnings for the author of a configuration.
fn warn(loaded: &Loaded) {
    let mut warnings = String::new();
    for warning in &loaded.warnings {
        let _ = writeln!(warnings, "{warning}");
    }
    let _ = std::io::stderr().write_all(warnings.as_bytes());
}

/// Loads the configuration, and prints its warnings.
fn loaded(file: &ConfigFile) -> Result<Loaded, Failure> {
    let loaded = load::from_path(&file.config).map_err(Failure::bad_input)?;
    warn(&loaded);
    Ok(loaded)
}
