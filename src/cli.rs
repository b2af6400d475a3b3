//! The command line.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

/// One front door for many table catalogs.
#[derive(Debug, Parser)]
#[command(name = "nsgate", version, about, arg_required_else_help = true)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Report every problem of a configuration; exit 1 if there is one that keeps the gateway from starting
    Check(ConfigFile),
    /// Print the JSON Schema of the configuration
    Schema,
    /// Say which mount and backend serve an identifier, and the path sent upstream
    Explain(Explain),
}

/// What to explain.
#[derive(Debug, Args)]
pub(crate) struct Explain {
    #[command(flatten)]
    pub(crate) file: ConfigFile,
    /// What stands between the names
    #[arg(long, value_name = "TEXT", default_value = "$", value_parser = clap::builder::NonEmptyStringValueParser::new())]
    pub(crate) delimiter: String,
    /// The identifier as clients spell it, such as 'prod$eu$t1'; the delimiter alone is the root
    #[arg(value_name = "ID")]
    pub(crate) identifier: String,
}

/// The configuration to work with.
#[derive(Debug, Args)]
pub(crate) struct ConfigFile {
    /// The configuration file
    #[arg(long, value_name = "FILE", env = "NSGATE_CONFIG")]
    pub(crate) config: PathBuf,
}
