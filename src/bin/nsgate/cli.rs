//! The command line.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgGroup, Args, Parser, Subcommand, ValueEnum};
use http::Uri;
use nsgate::build;
use nsgate::config::{LogAddress, SCHEMA, Secret, is_schema};

/// One front door for many table catalogs.
#[derive(Debug, Parser)]
#[command(name = "nsgate", version, long_version = build::DESCRIPTION, about, arg_required_else_help = true)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// The command.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run the gateway until SIGTERM
    Serve(ConfigFile),
    /// Report every problem of a configuration; exit 1 if there is one that keeps the gateway from starting
    Check(Check),
    /// Print the JSON Schema of the configuration
    Schema,
    /// Say which mount and backend serve an identifier, and what a caller may do there
    Explain(Explain),
    /// Say whether all is well, and if not what a person has to do; exit 1 if a person has to act
    Status(AdminAddress),
    /// Ask a running gateway whether it can serve; exit 1 if not. For images and load balancers; needs no token
    Health(Health),
    /// Have a running gateway read its configuration again; exit 1 if it refuses
    Reload(AdminAddress),
    /// Look at the batches that are not over, and decide what waits for a person
    Batches(Batches),
    /// List the gateways that share a batch log, and which one owns it
    Gateways(AdminAddress),
    /// Install a batch log in PostgreSQL, or move a batch log to another place
    #[command(subcommand)]
    Log(OfLog),
    /// Print a signed token for trials; the first time, make a key pair and jwks.json in a folder
    DevToken(DevToken),
    /// Run the guided tour of the Python package: catalogs, a gateway and a client on this machine
    #[command(disable_help_flag = true)]
    Demo(Demo),
    /// Print the completions of a shell
    Completions {
        /// The shell
        shell: Shell,
    },
}

/// The arguments of the tour, `--help` included: the Python package knows them.
#[derive(Debug, Args)]
pub(crate) struct Demo {
    /// Arguments for `python3 -m nsgate.demo`, such as --help
    #[arg(
        value_name = "ARGUMENTS",
        trailing_var_arg = true,
        allow_hyphen_values = true
    )]
    pub(crate) arguments: Vec<OsString>,
}

/// A shell that has completions for nsgate.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum Shell {
    Bash,
    Zsh,
    Fish,
}

/// The configuration to check.
#[derive(Debug, Args)]
pub(crate) struct Check {
    #[command(flatten)]
    pub(crate) file: ConfigFile,
    /// Ask each catalog, too, and a batch log in PostgreSQL: whether it answers, and whether batches can work with it
    #[arg(long)]
    pub(crate) online: bool,
    /// The form of the result
    #[arg(long, value_name = "FORM", default_value = "text")]
    pub(crate) format: CheckFormat,
    /// Print JSON, as `--format json` does
    #[arg(long, conflicts_with = "format")]
    pub(crate) json: bool,
}

/// The form in which `nsgate check` reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum CheckFormat {
    /// A line for each problem, as compilers write them, and `ok` if there is no error
    Text,
    /// One JSON document
    Json,
    /// Workflow commands of GitHub Actions, which mark the lines in a pull request
    Github,
}

/// The identifier to explain, and the caller.
#[derive(Debug, Args)]
pub(crate) struct Explain {
    #[command(flatten)]
    pub(crate) file: ConfigFile,
    /// The text between the names
    #[arg(long, value_name = "TEXT", default_value = "$", value_parser = clap::builder::NonEmptyStringValueParser::new())]
    pub(crate) delimiter: String,
    /// The identifier as clients spell it, such as 'prod$eu$t1'; the delimiter alone is the root
    #[arg(value_name = "ID")]
    pub(crate) identifier: String,
    /// Say what the caller with this token may do; `-` reads it from standard input. The token is verified, never printed
    #[arg(long, value_name = "FILE", conflicts_with_all = ["claims", "scopes"])]
    pub(crate) token: Option<PathBuf>,
    /// Fetch the keys of the token's issuer, if they are behind an address
    #[arg(long, requires = "token")]
    pub(crate) online: bool,
    /// Say what a caller whose token has this claim (and others, as often as given) may do; the value is JSON or, if it is not, text
    #[arg(long = "claim", value_name = "NAME=VALUE", value_parser = claim)]
    pub(crate) claims: Vec<(String, String)>,
    /// Say what a caller whose token has this scope (and others, as often as given) may do
    #[arg(long = "scope", value_name = "SCOPE")]
    pub(crate) scopes: Vec<String>,
}

/// The address to ask for the gateway's health.
#[derive(Debug, Args)]
pub(crate) struct Health {
    /// The admin address; or a whole address to ask, such as http://127.0.0.1:8080/healthz
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:9090", value_parser = admin)]
    pub(crate) url: Uri,
    /// Take the admin address from this configuration, on this machine
    #[arg(long, value_name = "FILE", conflicts_with = "url")]
    pub(crate) config: Option<PathBuf>,
    /// Ask only whether the process lives, not whether it can serve
    #[arg(long)]
    pub(crate) live: bool,
    /// The longest wait for the answer, such as 500ms or 4s
    #[arg(long, value_name = "TIME", default_value = "4s", value_parser = pause)]
    pub(crate) timeout: Duration,
    #[command(flatten)]
    pub(crate) tls: AdminTls,
}

/// The TLS settings for an admin address that begins with `https://`.
#[derive(Debug, Args, Default)]
pub(crate) struct AdminTls {
    /// Authorities trusted instead of the system's (PEM)
    #[arg(long, value_name = "FILE", global = true)]
    pub(crate) ca: Option<PathBuf>,
    /// The certificate shown to the gateway (PEM), if it wants one
    #[arg(long, value_name = "FILE", requires = "private_key", global = true)]
    pub(crate) certificate: Option<PathBuf>,
    /// Its private key (PEM)
    #[arg(long, value_name = "FILE", requires = "certificate", global = true)]
    pub(crate) private_key: Option<PathBuf>,
}

/// The gateway, and the command for its batches.
#[derive(Debug, Args)]
pub(crate) struct Batches {
    #[command(flatten)]
    pub(crate) gateway: AdminAddress,
    #[command(subcommand)]
    pub(crate) what: OfBatches,
}

/// The admin address of a running gateway.
#[derive(Debug, Args)]
pub(crate) struct AdminAddress {
    /// The gateway's admin address
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:9090", global = true, value_parser = admin)]
    pub(crate) admin: Uri,
    /// The gateway's `admin.token`, if it has one; other users of this machine cannot see the variable
    #[arg(long, env = "NSGATE_ADMIN_TOKEN", hide_env_values = true, global = true, value_parser = secret)]
    pub(crate) token: Option<Secret>,
    /// Print the gateway's own JSON, for programs
    #[arg(long, global = true)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) tls: AdminTls,
}

/// The command for batches.
#[derive(Debug, Subcommand)]
pub(crate) enum OfBatches {
    /// List the batches that are not over, and what each waits for
    List,
    /// Follow the list until Ctrl-C, also over a restart of the gateway
    Watch {
        /// The time between two looks, such as 500ms or 2s
        #[arg(long, value_name = "TIME", default_value = "2s", value_parser = pause)]
        interval: Duration,
    },
    /// Show each entry of one batch, what is the matter with it, and what can be done
    Show {
        /// The batch, as `list` and the gateway's log name it
        id: String,
    },
    /// Decide what a batch cannot decide by itself; `show` says what each decision does
    Resolve(Resolve),
}

/// The command for a batch log.
#[derive(Debug, Subcommand)]
pub(crate) enum OfLog {
    /// Install the schema, or bring it up to date, as a user who may create it
    Prepare {
        /// The database, such as postgres://admin@db.example/nsgate
        #[arg(value_name = "URL", value_parser = log_address)]
        at: LogAddress,
        /// The user of the gateway, who gets the rights that it needs
        #[arg(long, value_name = "USER")]
        grant: Option<String>,
        #[command(flatten)]
        access: LogAccess,
    },
    /// Move all batches to an empty log while no gateway runs; afterwards no gateway can use the old one
    Move {
        /// The log: a file, or a database
        #[arg(long, value_name = "LOG", value_parser = log_address)]
        from: LogAddress,
        /// The new log: a file that does not exist, or a database with an empty schema
        #[arg(long, value_name = "LOG", value_parser = log_address)]
        to: LogAddress,
        #[command(flatten)]
        access: LogAccess,
    },
}

/// The way to a log in PostgreSQL.
#[derive(Debug, Args)]
pub(crate) struct LogAccess {
    /// The schema, as in `batch.schema`
    #[arg(long, value_name = "NAME", default_value = SCHEMA, value_parser = log_schema)]
    pub(crate) schema: String,
    /// The user's password, if the server asks for one; other users of this machine cannot see the variable
    #[arg(long, env = "NSGATE_LOG_PASSWORD", hide_env_values = true, value_parser = secret)]
    pub(crate) password: Option<Secret>,
    /// Authorities trusted instead of the system's (PEM)
    #[arg(long, value_name = "FILE")]
    pub(crate) ca: Option<PathBuf>,
    /// The certificate shown to the server (PEM)
    #[arg(long, value_name = "FILE", requires = "private_key")]
    pub(crate) certificate: Option<PathBuf>,
    /// Its private key (PEM)
    #[arg(long, value_name = "FILE", requires = "certificate")]
    pub(crate) private_key: Option<PathBuf>,
}

/// The decision, and the operator who takes it.
#[derive(Debug, Args)]
#[command(group(ArgGroup::new("decision").required(true).args(["commit", "abort"])))]
pub(crate) struct Resolve {
    /// The batch, as `list` names it
    pub(crate) id: String,
    /// Let be what is there: it becomes visible, and its tables unlock
    #[arg(long)]
    pub(crate) commit: bool,
    /// Abort what is undecided; delete on your word what could not be proven to be the batch's
    #[arg(long)]
    pub(crate) abort: bool,
    /// The operator who decides; kept in the batch log [default: $USER, or $LOGNAME]
    #[arg(long, value_name = "NAME")]
    pub(crate) who: Option<String>,
    /// The reason; kept in the batch log
    #[arg(long, value_name = "TEXT", default_value = "")]
    pub(crate) why: String,
}

/// The contents of the token.
#[derive(Debug, Args)]
pub(crate) struct DevToken {
    /// The folder of the key pair and of jwks.json
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: PathBuf,
    /// The claim `iss`
    #[arg(long, default_value = "https://dev.nsgate.test")]
    pub(crate) issuer: String,
    /// The claim `aud`
    #[arg(long, default_value = "catalog")]
    pub(crate) audience: String,
    /// The claim `sub`
    #[arg(long, default_value = "dev")]
    pub(crate) subject: String,
    /// The claim `scope`: words separated by spaces
    #[arg(long)]
    pub(crate) scope: Option<String>,
    /// A further claim; the value is JSON or, if it is not, text
    #[arg(long = "claim", value_name = "NAME=VALUE", value_parser = claim)]
    pub(crate) claims: Vec<(String, String)>,
    /// The lifetime of the token, such as 15m, 1h or 30d
    #[arg(long, default_value = "1h", value_parser = ttl)]
    pub(crate) ttl: Duration,
}

fn claim(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("write NAME=VALUE, such as tenant=acme".to_owned()),
    }
}

fn admin(text: &str) -> Result<Uri, String> {
    let words = "write http://HOST:PORT or https://HOST:PORT, as the gateway says when it starts";
    let uri: Uri = text.parse().map_err(|_| words)?;
    if uri
        .authority()
        .is_some_and(|authority| authority.as_str().contains('@'))
    {
        return Err(
            "an address here holds no user or password; give the token with --token".to_owned(),
        );
    }
    match (uri.scheme_str(), uri.host(), uri.query()) {
        (Some("http" | "https"), Some(_), None) => Ok(uri),
        _ => Err(words.to_owned()),
    }
}

#[expect(
    clippy::unnecessary_wraps,
    reason = "a parser of the command line may fail"
)]
fn secret(text: &str) -> Result<Secret, String> {
    Ok(Secret::new(text))
}

fn log_address(text: &str) -> Result<LogAddress, String> {
    LogAddress::parse(text)
}

fn log_schema(text: &str) -> Result<String, String> {
    is_schema(text)
        .then(|| text.to_owned())
        .ok_or_else(|| "write small letters, digits and `_`, such as nsgate; names that begin with `pg_` are PostgreSQL's own".to_owned())
}

/// Reads a time of 100 ms or more.
fn pause(text: &str) -> Result<Duration, String> {
    const SHORTEST: Duration = Duration::from_millis(100);
    let millis = text.strip_suffix("ms").map(str::parse);
    let pause = match millis {
        Some(millis) => millis.map(Duration::from_millis).map_err(drop),
        None => ttl(text).map_err(drop),
    };
    let pause = pause.ok().filter(|pause| *pause >= SHORTEST);
    pause.ok_or_else(|| "write a number and a unit, 100ms or more, such as 500ms or 2s".to_owned())
}

fn ttl(text: &str) -> Result<Duration, String> {
    const UNITS: [(&str, u64); 4] = [("s", 1), ("m", 60), ("h", 3600), ("d", 24 * 3600)];
    let seconds = UNITS.iter().find_map(|(unit, seconds)| {
        let number: u64 = text.strip_suffix(unit)?.parse().ok()?;
        number.checked_mul(*seconds)
    });
    let seconds = seconds.ok_or("write a number and a unit, such as 15m, 1h or 30d")?;
    Ok(Duration::from_secs(seconds))
}

/// The configuration to work with.
#[derive(Debug, Args)]
pub(crate) struct ConfigFile {
    /// The configuration file
    #[arg(long, value_name = "FILE", env = "NSGATE_CONFIG")]
    pub(crate) config: PathBuf,
}
