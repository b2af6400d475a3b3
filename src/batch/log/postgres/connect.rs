//! Connections to the primary among the servers of `batch.log`.

use std::fmt::Write as _;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::future::poll_fn;
use futures_util::stream::FuturesUnordered;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::Notify;
use tokio::time::timeout;
use tokio_postgres::config::{Host, SslMode, TargetSessionAttrs};
use tokio_postgres::error::{DbError, Severity};
use tokio_postgres::{AsyncMessage, Client, Config, Connection, NoTls, SimpleQueryMessage};

use super::cause::{self, Trouble};
use super::outside::Outside;
use super::tls::LogTls;
use crate::batch::fleet::{Deadline, LogCopy};
use crate::config::PostgresLogConfig;
use crate::error::BoxError;

/// The port of a host without one.
const PORT: u16 = 5432;
/// The longest time that a connection to one server may take.
const CONNECT: Duration = Duration::from_secs(5);
/// The longest time that the server may take for an answer. Then the connection is given up: what it was asked is asked
/// again through another one, and waits there for what the server still does for the first.
pub(super) const ANSWER: Duration = Duration::from_secs(10);
/// The time after which the server gives up a statement, for example one that waits for a lock. It is shorter than
/// [`ANSWER`], so that the server says why. A connection for heartbeats, guards or batches waits for one lease only, and may
/// then say no more than that the server does not answer.
const STATEMENT: Duration = Duration::from_secs(8);
/// The time after which a silent connection is probed, and after which unanswered data ends it.
const IDLE: Duration = Duration::from_secs(5);

/// Asks since when the server runs, and whether a write of a gateway has been waiting for a synchronous standby.
const QUESTION: &str = "SELECT extract(epoch FROM pg_postmaster_start_time()), EXISTS (
    SELECT FROM pg_stat_activity WHERE usename = current_user AND application_name = 'nsgate'
        AND wait_event = 'SyncRep' AND query_start < clock_timestamp() - interval '0.5 s')";

/// The way to the servers of the log.
pub(super) struct Connector {
    /// One configuration for each host.
    servers: Vec<Config>,
    /// The TLS to the server; `None` if nothing is encrypted.
    tls: Option<LogTls>,
    /// The settings of each connection, and [`QUESTION`].
    setup: String,
    /// Told since when it does.
    copy: Arc<LogCopy>,
    /// The server that was the primary last, by its place in `servers`.
    primary: AtomicUsize,
    /// Told when another server is the primary.
    moved: Notify,
    /// The world outside of the process, in a simulation.
    outside: Option<Arc<dyn Outside>>,
}

/// A connection, and the place of its server.
pub(super) struct Connected {
    pub(super) client: Client,
    pub(super) server: usize,
    /// The number of the server's run, among those that this process has seen.
    pub(super) run: u64,
    /// True if the server lets a write wait for a synchronous standby.
    pub(super) waits_for_standby: bool,
    pub(super) warning: Arc<Warning>,
}

/// The last warning that came through a connection, until it is taken.
#[derive(Default)]
pub(super) struct Warning(Mutex<Option<String>>);

impl Warning {
    /// Keeps a notice if it warns. Its words are in the server's language, and its code says nothing.
    fn came(&self, notice: &DbError) {
        // Its place in the server's source is not translated. Other warnings, such as of a vacuum that is due, say nothing of
        // this write.
        let is_of_standbys = notice
            .file()
            .is_some_and(|file| file.ends_with("syncrep.c"));
        if is_of_standbys && notice.parsed_severity() == Some(Severity::Warning) {
            let words = notice.message().to_owned();
            self.0
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .replace(words);
        }
    }

    pub(super) fn take(&self) -> Option<String> {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.take()
    }
}

impl Connector {
    pub(super) fn new(
        log: &PostgresLogConfig,
        outside: Option<Arc<dyn Outside>>,
        copy: Arc<LogCopy>,
    ) -> Result<Self, BoxError> {
        let mut setup = String::new();
        let settings = [
            ("search_path", super::install::quoted(&log.schema)),
            // Whatever the database's default is: no write is acknowledged that a crash could lose.
            ("synchronous_commit", "on".to_owned()),
            // A commit that has not waited for its standby says so in a warning, and in nothing else.
            ("client_min_messages", "warning".to_owned()),
            ("statement_timeout", STATEMENT.as_millis().to_string()),
            (
                "default_transaction_isolation",
                "'read committed'".to_owned(),
            ),
            (
                "idle_in_transaction_session_timeout",
                STATEMENT.as_millis().to_string(),
            ),
        ];
        for (key, value) in settings {
            // Writing to a String cannot fail.
            let _ = write!(setup, "SET {key} = {value};");
        }
        setup.push_str(QUESTION);
        let tls = match log.connection.get_ssl_mode() {
            SslMode::Disable => None,
            _ => Some(LogTls::read(&log.tls)?),
        };
        Ok(Self {
            servers: servers(&log.connection),
            tls,
            setup,
            copy,
            primary: AtomicUsize::new(0),
            moved: Notify::new(),
            outside,
        })
    }

    /// Connects to the primary. Asks all servers at once: one that hangs must not delay the others. `heard` is told of
    /// each notification.
    pub(super) async fn connect(&self, heard: Option<&Arc<Notify>>) -> Result<Connected, Trouble> {
        let asked = (0..self.servers.len()).map(|server| self.connect_to(server, heard));
        let mut asked: FuturesUnordered<_> = asked.collect();
        let mut troubles = Vec::new();
        while let Some(answer) = asked.next().await {
            match answer {
                Ok(connected) => {
                    let before = self.primary.swap(connected.server, Ordering::SeqCst);
                    if before != connected.server {
                        self.moved.notify_waiters();
                    }
                    return Ok(connected);
                }
                Err(trouble) => troubles.push(trouble),
            }
        }
        Err(cause::joined(troubles))
    }

    /// Returns once another server than this one is the primary.
    pub(super) async fn has_moved_from(&self, server: usize) {
        loop {
            let moved = self.moved.notified();
            if self.primary.load(Ordering::SeqCst) != server {
                return;
            }
            moved.await;
        }
    }

    async fn connect_to(
        &self,
        server: usize,
        heard: Option<&Arc<Notify>>,
    ) -> Result<Connected, Trouble> {
        let connect = async {
            let config = &self.servers[server];
            let heard_of = heard.cloned();
            let (client, warning) = match (&self.outside, &self.tls) {
                (Some(outside), _) => {
                    let stream = outside.dial(server).await;
                    let stream = stream.map_err(|error| Trouble::silent(&error.to_string()))?;
                    listening(config.connect_raw(stream, NoTls).await, heard_of)
                }
                (None, Some(tls)) => listening(config.connect(tls.current()).await, heard_of),
                (None, None) => listening(config.connect(NoTls).await, heard_of),
            }?;
            let set_up: Result<(u64, bool), tokio_postgres::Error> = async {
                let (mut run, mut waits_for_standby) = (0, false);
                for message in client.simple_query(&self.setup).await? {
                    if let SimpleQueryMessage::Row(row) = message
                        && let Some(began) = row.get(0)
                    {
                        run = self.copy.is_in(began.to_owned());
                        waits_for_standby = row.get(1) == Some("t");
                    }
                }
                if let Some(heard) = heard {
                    client.batch_execute("LISTEN nsgate").await?;
                    heard.notify_one();
                }
                Ok((run, waits_for_standby))
            }
            .await;
            let (run, waits_for_standby) = set_up.map_err(|error| cause::trouble(&error))?;
            Ok(Connected {
                client,
                server,
                run,
                waits_for_standby,
                warning,
            })
        };
        let made = timeout(CONNECT, connect).await;
        made.unwrap_or_else(|_| Err(Trouble::silent("connecting took too long")))
    }

    /// Returns what ends this process if it is stopped for too long.
    pub(super) fn deadline(&self) -> Deadline {
        match &self.outside {
            None => Deadline::of_kernel(),
            Some(outside) => {
                let outside = Arc::clone(outside);
                Deadline::told(move |left| outside.end_after(left))
            }
        }
    }
}

/// Has a connection tell `heard` of its notifications, and keep its warnings, until it breaks.
fn listening<S, T>(
    connected: Result<(Client, Connection<S, T>), tokio_postgres::Error>,
    heard: Option<Arc<Notify>>,
) -> Result<(Client, Arc<Warning>), Trouble>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    T: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (client, mut connection) = connected.map_err(|error| cause::trouble(&error))?;
    let warning = Arc::new(Warning::default());
    let kept = Arc::clone(&warning);
    tokio::spawn(async move {
        // An error also reaches whoever waits for an answer. A warning is kept before the answer that it comes with.
        while let Some(Ok(message)) = poll_fn(|context| connection.poll_message(context)).await {
            match (message, &heard) {
                (AsyncMessage::Notification(_), Some(heard)) => heard.notify_one(),
                (AsyncMessage::Notice(notice), _) => kept.came(&notice),
                _ => {}
            }
        }
    });
    Ok((client, warning))
}

/// Returns a configuration for each host of the log.
fn servers(log: &Config) -> Vec<Config> {
    let ports = log.get_ports();
    let alone = |(place, host): (usize, &Host)| {
        let mut config = Config::new();
        match host {
            Host::Tcp(name) => config.host(name),
            Host::Unix(folder) => config.host_path(folder),
        };
        let port = ports.get(place).or(ports.first());
        config
            .port(port.copied().unwrap_or(PORT))
            .user(log.get_user().unwrap_or_default())
            .dbname(log.get_dbname().unwrap_or_default())
            .ssl_mode(log.get_ssl_mode())
            .target_session_attrs(TargetSessionAttrs::ReadWrite)
            .application_name("nsgate")
            .connect_timeout(CONNECT)
            .keepalives(true)
            .keepalives_idle(IDLE)
            .keepalives_interval(IDLE / 5)
            .keepalives_retries(3)
            .tcp_user_timeout(ANSWER);
        if let Some(password) = log.get_password() {
            config.password(password);
        }
        config
    };
    log.get_hosts().iter().enumerate().map(alone).collect()
}
