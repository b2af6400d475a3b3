//! The place of the batch log: a file, or a schema in PostgreSQL.

use std::fmt;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::json;
use tokio_postgres::config::{Host, SslMode, TargetSessionAttrs};

use super::kind::{Scalar, file_to_write, printable, string_schema};
use super::load::reader::Text;
use super::{BatchConfig, ClientTls, WithoutLog};

/// The default of `batch.schema`.
pub const SCHEMA: &str = "nsgate";
const EXPECTS: &str =
    "the path of a file, or the address of a database such as postgres://nsgate@db.example/nsgate";
/// The longest name that PostgreSQL keeps as it is.
const MAX_NAME: usize = 63;

/// `batch.log`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LogAddress {
    /// A file, for one gateway; created if it does not exist.
    File(PathBuf),
    /// A database.
    Postgres(PostgresAddress),
}

/// The address of a database, without a password.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PostgresAddress {
    text: String,
    parsed: Box<tokio_postgres::Config>,
}

/// A batch log in PostgreSQL, and how the gateway connects to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PostgresLogConfig {
    /// The address, for messages.
    pub address: String,
    /// Hosts, database, user and password, and whether TLS is used.
    pub connection: tokio_postgres::Config,
    /// The authorities and the client certificate; used only with TLS.
    pub tls: ClientTls,
    /// The schema.
    pub schema: String,
    /// The time after which a silent gateway is taken for dead.
    pub lease: Duration,
    /// True if tables are served while the server is away for longer than the lease.
    pub serves_without: bool,
}

impl LogAddress {
    /// Returns the path of the log; `None` if it is not a file.
    pub fn file(&self) -> Option<&Path> {
        match self {
            Self::File(path) => Some(path),
            Self::Postgres(_) => None,
        }
    }

    /// Parses a path, or an address that begins with `postgres://`.
    ///
    /// # Errors
    /// Says what is wrong with an address, and the remedy, but never the address: it may hold a password.
    pub fn parse(text: &str) -> Result<Self, String> {
        if is_database(text) {
            PostgresAddress::parse(text).map(Self::Postgres)
        } else if text.contains("://") {
            Err(format!("is an address of another kind; write {EXPECTS}"))
        } else {
            Ok(Self::File(text.into()))
        }
    }
}

impl From<PathBuf> for LogAddress {
    fn from(path: PathBuf) -> Self {
        Self::File(path)
    }
}

impl fmt::Display for LogAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => path.display().fmt(f),
            Self::Postgres(address) => f.write_str(&address.text),
        }
    }
}

impl PostgresAddress {
    fn parse(text: &str) -> Result<Self, String> {
        // No error may show the address: it may hold a password.
        let mut parsed: tokio_postgres::Config = text.parse().map_err(|_| {
            "is not the address of a database; write postgres://USER@HOST:PORT/DATABASE, with `,` between several hosts".to_owned()
        })?;
        if parsed.get_password().is_some() {
            return Err(
                "holds a password, which would be shown; write it in `batch.log_password`"
                    .to_owned(),
            );
        }
        let query = text.split_once('?').map_or("", |(_, query)| query);
        let mut pairs = query.split('&').filter(|pair| !pair.is_empty());
        let is_place = |pair: &str| matches!(pair.split('=').next(), Some("host" | "port"));
        if !pairs.all(is_place) {
            return Err(
                "has another parameter than `host` and `port` after `?`; write only these (for TLS, `batch.log_tls`)"
                    .to_owned(),
            );
        }
        if parsed.get_user().is_none_or(str::is_empty) {
            return Err("names no user; write postgres://USER@HOST/DATABASE".to_owned());
        }
        if parsed.get_dbname().is_none_or(str::is_empty) {
            return Err("names no database; write postgres://USER@HOST/DATABASE".to_owned());
        }
        if parsed.get_hosts().is_empty() {
            return Err("names no host; write postgres://USER@HOST/DATABASE".to_owned());
        }
        parsed.target_session_attrs(TargetSessionAttrs::ReadWrite);
        Ok(Self {
            text: text.to_owned(),
            parsed: Box::new(parsed),
        })
    }

    /// True if every host is this machine, so that nobody can listen on the way.
    pub fn is_local(&self) -> bool {
        self.parsed.get_hosts().iter().all(|host| match host {
            Host::Unix(_) => true,
            Host::Tcp(name) => {
                name.eq_ignore_ascii_case("localhost")
                    || name.parse().is_ok_and(|ip: IpAddr| ip.is_loopback())
            }
        })
    }
}

impl PostgresLogConfig {
    /// Returns the log at `address`. Without `tls`, a connection that leaves this machine is encrypted and trusts the
    /// system's authorities, and any other is plain.
    pub fn new(
        address: &PostgresAddress,
        password: Option<&str>,
        tls: Option<&ClientTls>,
        schema: &str,
        lease: Duration,
    ) -> Self {
        let mut connection = (*address.parsed).clone();
        if let Some(password) = password {
            connection.password(password);
        }
        let is_plain = tls.is_none() && address.is_local();
        connection.ssl_mode(if is_plain {
            SslMode::Disable
        } else {
            SslMode::Require
        });
        Self {
            address: address.text.clone(),
            connection,
            tls: tls.cloned().unwrap_or_default(),
            schema: schema.to_owned(),
            lease,
            serves_without: false,
        }
    }
}

impl BatchConfig {
    /// Returns the log in PostgreSQL; `None` if the log is a file.
    pub fn postgres(&self) -> Option<PostgresLogConfig> {
        match &self.log {
            LogAddress::File(_) => None,
            LogAddress::Postgres(address) => Some(self.postgres_at(address)),
        }
    }

    /// Returns a log in PostgreSQL with these settings.
    pub fn postgres_at(&self, address: &PostgresAddress) -> PostgresLogConfig {
        let password = self.log_password.as_ref().map(|secret| secret.expose());
        let tls = self.log_tls.as_ref();
        let log = PostgresLogConfig::new(address, password, tls, &self.schema, self.lease);
        PostgresLogConfig {
            serves_without: self.without_log == WithoutLog::Serve,
            ..log
        }
    }
}

/// A file that is created when it is needed, or a database.
pub(super) fn log_address() -> Scalar<LogAddress> {
    Scalar::new(
        EXPECTS,
        string_schema(),
        |text| {
            if text.value.contains("://") {
                return LogAddress::parse(printable(text)?);
            }
            file_to_write().parse(text).map(LogAddress::File)
        },
        |address| json!(address.to_string()),
    )
}

/// The name of a schema.
pub(super) fn schema_name() -> Scalar<String> {
    Scalar::new(
        "a name of small letters, digits and `_`, such as nsgate; names that begin with `pg_` are PostgreSQL's own",
        string_schema(),
        parse_schema,
        |name| json!(name),
    )
}

fn parse_schema(text: &Text) -> Result<String, String> {
    let name = printable(text)?;
    is_schema(name)
        .then(|| name.to_owned())
        .ok_or_else(|| format!("{} is not the name of a schema", text.shown()))
}

/// True if `name` can be the schema of a batch log.
pub fn is_schema(name: &str) -> bool {
    let is_word = |letter: char| letter.is_ascii_lowercase() || letter == '_';
    name.len() <= MAX_NAME
        && name.starts_with(is_word)
        && name
            .chars()
            .all(|letter| is_word(letter) || letter.is_ascii_digit())
        && !name.starts_with("pg_")
}

fn is_database(text: &str) -> bool {
    text.starts_with("postgres://") || text.starts_with("postgresql://")
}
