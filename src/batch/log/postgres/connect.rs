//! One connection to the server, made again when it breaks.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::poll_fn;
use rustls::ClientConfig;
use rustls_native_certs::load_native_certs;
use tokio::sync::Notify;
use tokio::time::timeout;
use tokio_postgres::types::ToSql;
use tokio_postgres::{AsyncMessage, Client, Row, Statement};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::cause::{self, Trouble};
use super::outage_report::Outage;
use crate::config::{ClientTls, PostgresLogConfig};
use crate::error::BoxError;
use crate::pem;

/// The longest time that a connection may take, and an answer. A connection that takes longer is given up: what it was
/// asked is asked again through another one, and waits there for what the server still does for the first.
const CONNECT: Duration = Duration::from_secs(5);
const ANSWER: Duration = Duration::from_secs(10);
/// The time after which the server gives up a statement, for example one that waits for a lock. It is shorter than
/// [`ANSWER`], so that the server says why.
const STATEMENT: Duration = Duration::from_secs(8);
/// The time after which a silent connection is probed, and after which unanswered data ends it.
const IDLE: Duration = Duration::from_secs(5);

/// The way to the server.
pub(super) struct Connector {
    config: tokio_postgres::Config,
    tls: MakeRustlsConnect,
    setup: String,
}

/// A connection that is made when it is needed.
pub(super) struct Link {
    connector: Arc<Connector>,
    outage: Arc<Outage>,
    session: Option<Session>,
    /// Told of each notification on the channel of the logs, and of each new connection; `None` if nobody listens.
    heard: Option<Arc<Notify>>,
}

struct Session {
    client: Client,
    statements: HashMap<&'static str, Statement>,
}

impl Connector {
    pub(super) fn new(log: &PostgresLogConfig) -> Result<Self, BoxError> {
        let mut config = log.connection.clone();
        config
            .application_name("nsgate")
            .connect_timeout(CONNECT)
            .keepalives(true)
            .keepalives_idle(IDLE)
            .keepalives_interval(IDLE / 5)
            .keepalives_retries(3)
            .tcp_user_timeout(ANSWER);
        let mut setup = String::new();
        let settings = [
            ("search_path", super::install::quoted(&log.schema)),
            // Whatever the database's default is: no write is acknowledged that a crash could lose.
            ("synchronous_commit", "on".to_owned()),
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
        Ok(Self {
            config,
            tls: MakeRustlsConnect::new(client_config(&log.tls)?),
            setup,
        })
    }

    pub(super) async fn connect(&self) -> Result<Client, Trouble> {
        self.listen(None).await
    }

    /// Connects, and tells `heard` of each notification.
    async fn listen(&self, heard: Option<Arc<Notify>>) -> Result<Client, Trouble> {
        let connect = async {
            let (client, mut connection) = self.config.connect(self.tls.clone()).await?;
            let listener = heard.clone();
            tokio::spawn(async move {
                // An error also reaches whoever waits for an answer.
                while let Some(Ok(message)) =
                    poll_fn(|context| connection.poll_message(context)).await
                {
                    if let (AsyncMessage::Notification(_), Some(heard)) = (message, &listener) {
                        heard.notify_one();
                    }
                }
            });
            client.batch_execute(&self.setup).await?;
            if let Some(heard) = heard {
                client.batch_execute("LISTEN nsgate").await?;
                heard.notify_one();
            }
            Ok(client)
        };
        let made = timeout(CONNECT.saturating_mul(2), connect).await;
        made.map_err(|_| Trouble::silent("connecting took too long"))?
            .map_err(|error: tokio_postgres::Error| cause::trouble(&error))
    }
}

impl Link {
    pub(super) fn new(connector: Arc<Connector>, outage: Arc<Outage>) -> Self {
        Self {
            connector,
            outage,
            session: None,
            heard: None,
        }
    }

    /// Creates a connection that tells `heard` when another gateway has notified.
    pub(super) fn listening(
        connector: Arc<Connector>,
        outage: Arc<Outage>,
        heard: Arc<Notify>,
    ) -> Self {
        Self {
            heard: Some(heard),
            ..Self::new(connector, outage)
        }
    }

    /// Asks the server once. After an error it is unknown whether the server has done it.
    pub(super) async fn query(
        &mut self,
        sql: &'static str,
        parameters: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<Row>, Trouble> {
        let answer = self.ask(sql, parameters).await;
        match &answer {
            Ok(_) => self.outage.ended(),
            Err(trouble) => {
                // Another connection may lead to another server, which is the primary now.
                self.session = None;
                self.outage.noticed(&trouble.words);
            }
        }
        answer
    }

    async fn ask(
        &mut self,
        sql: &'static str,
        parameters: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<Row>, Trouble> {
        let mut session = match self.session.take() {
            Some(session) if !session.client.is_closed() => session,
            _ => Session {
                client: self.connector.listen(self.heard.clone()).await?,
                statements: HashMap::new(),
            },
        };
        let asked = async {
            let statement = match session.statements.get(sql) {
                Some(statement) => statement.clone(),
                None => {
                    let statement = session.client.prepare(sql).await?;
                    session.statements.insert(sql, statement.clone());
                    statement
                }
            };
            session.client.query(&statement, parameters).await
        };
        let answered = timeout(ANSWER, asked).await;
        let rows = answered
            .map_err(|_| Trouble::silent("the server does not answer"))?
            .map_err(|error| cause::trouble(&error))?;
        self.session = Some(session);
        Ok(rows)
    }
}

/// Builds the configuration of TLS, which verifies the name of the server.
fn client_config(tls: &ClientTls) -> Result<ClientConfig, BoxError> {
    let builder = ClientConfig::builder_with_provider(pem::provider())
        .with_safe_default_protocol_versions()?;
    let builder = match &tls.ca {
        Some(file) => builder.with_root_certificates(pem::authorities(file)?),
        None => {
            let mut roots = rustls::RootCertStore::empty();
            roots.add_parsable_certificates(load_native_certs().certs);
            builder.with_root_certificates(roots)
        }
    };
    Ok(match &tls.identity {
        Some(shown) => {
            let identity = pem::identity(&shown.certificate, &shown.private_key)?;
            let resolver = rustls::sign::SingleCertAndKey::from(identity);
            builder.with_client_cert_resolver(Arc::new(resolver))
        }
        None => builder.with_no_client_auth(),
    })
}
