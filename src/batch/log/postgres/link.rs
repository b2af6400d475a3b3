//! One connection to the primary, made again when it breaks or when another server becomes the primary.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::timeout;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Row, Statement};

use super::cause::{self, Trouble};
use super::connect::{ANSWER, Connected, Connector};
use super::outage_report::Outage;

/// A connection that is made when it is needed.
pub(super) struct Link {
    connector: Arc<Connector>,
    outage: Arc<Outage>,
    session: Option<Session>,
    /// Told of each notification on the channel of the logs, and of each new connection; `None` if nobody listens.
    heard: Option<Arc<Notify>>,
    /// The longest time that an answer is waited for.
    patience: Duration,
}

struct Session {
    connected: Connected,
    /// The statements that it was asked so far: a few.
    statements: Vec<(&'static str, Statement)>,
}

impl Link {
    pub(super) fn new(connector: Arc<Connector>, outage: Arc<Outage>) -> Self {
        Self {
            connector,
            outage,
            session: None,
            heard: None,
            patience: ANSWER,
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

    /// Gives a connection up whose answer takes longer than `lease`: a heartbeat is of no use then, and the server may have
    /// been replaced.
    pub(super) fn within(self, lease: Duration) -> Self {
        let patience = lease.min(ANSWER);
        Self { patience, ..self }
    }

    /// The number of the run of the server that gave the last answer.
    pub(super) fn run(&self) -> u64 {
        self.session
            .as_ref()
            .map_or(0, |session| session.connected.run)
    }

    /// The reason why the log cannot be written now; `None` if it can.
    pub(super) fn trouble(&self) -> Option<String> {
        self.outage.cause(Duration::ZERO)
    }

    /// Asks the server once. After an error it is unknown whether the server has done it.
    pub(super) async fn query(
        &mut self,
        sql: &'static str,
        parameters: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<Row>, Trouble> {
        let answer = self.ask(sql, parameters).await;
        if let Err(trouble) = &answer {
            // Another connection may lead to another server, which is the primary now.
            self.session = None;
            self.outage.noticed(sql, trouble);
        }
        answer
    }

    /// Does the same for a statement that always writes. Only its answer ends an outage: a server that waits for a standby
    /// answers what only reads.
    pub(super) async fn write(
        &mut self,
        sql: &'static str,
        parameters: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<Row>, Trouble> {
        let answer = self.query(sql, parameters).await;
        if answer.is_ok() {
            self.outage.answered(sql);
        }
        answer
    }

    async fn ask(
        &mut self,
        sql: &'static str,
        parameters: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<Row>, Trouble> {
        let mut session = match self.session.take() {
            Some(session) if !session.connected.client.is_closed() => session,
            _ => {
                let connected = self.connector.connect(self.heard.as_ref()).await?;
                if connected.waits_for_standby {
                    self.outage.waits_for_standby();
                }
                Session {
                    connected,
                    statements: Vec::new(),
                }
            }
        };
        let Connected {
            client,
            server,
            warning,
            ..
        } = &session.connected;
        let asked = async {
            let mut known = session.statements.iter();
            let statement = match known.find(|(known, _)| *known == sql) {
                Some((_, statement)) => statement.clone(),
                None => {
                    let statement = client.prepare(sql).await?;
                    session.statements.push((sql, statement.clone()));
                    statement
                }
            };
            warning.take();
            client.query(&statement, parameters).await
        };
        let rows = tokio::select! {
            biased;
            answered = timeout(self.patience, asked) => answered
                .map_err(|_| Trouble::silent("the server does not answer"))?
                .map_err(|error| cause::trouble(&error))?,
            () = self.connector.has_moved_from(*server) => {
                return Err(Trouble::silent("another server has become the primary"));
            }
        };
        if let Some(words) = warning.take() {
            // Somebody has ended the wait for a standby, for example: a failover could lose what is committed here.
            return Err(Trouble::silent(&format!(
                "the server warns, and may not have made it durable: {words}"
            )));
        }
        self.session = Some(session);
        Ok(rows)
    }
}
