//! Guards in the database, for the gateway that owns the log: the requests of its batches.

use futures_util::future::BoxFuture;
use tokio::sync::{mpsc, oneshot};

use super::cause::Trouble;
use super::link::Link;
use crate::batch::fleet::{Guard, GuardStore};
use crate::batch::log::LogError;

/// The number of requests for guards that may wait. Beyond it, batches wait.
const QUEUE: usize = 4096;

/// The key that stands for any table, among those for which a gateway knew a change that had no answer.
pub(super) const ANY_TABLE: &str = "*";

/// A request of the gateway that owns the log.
pub(super) enum Request {
    Claim {
        guards: Vec<Guard>,
        /// The addresses of the catalogs of which these are to be the only guards; `None` for guards beside others.
        replaces: Option<Vec<String>>,
        done: oneshot::Sender<Result<Vec<String>, LogError>>,
    },
    Release {
        keys: Vec<String>,
        done: oneshot::Sender<Result<(), LogError>>,
    },
}

/// The way to the thread that keeps the guards.
pub struct PostgresGuards(mpsc::Sender<Request>);

/// The other end of [`PostgresGuards`].
pub(super) struct GuardRequests(pub(super) mpsc::Receiver<Request>);

/// Creates the two ends.
pub(super) fn channel() -> (PostgresGuards, GuardRequests) {
    let (sender, receiver) = mpsc::channel(QUEUE);
    (PostgresGuards(sender), GuardRequests(receiver))
}

/// Notes that changes of a gateway may still land, on any table: it is dead, or it ends before they are answered. The
/// next batch learns it when its tables are guarded.
pub(super) async fn leave_strays(link: &mut Link) -> Result<(), Trouble> {
    let sql = "INSERT INTO stray (key) VALUES ($1) ON CONFLICT DO NOTHING RETURNING key";
    link.query(sql, &[&ANY_TABLE]).await.map(drop)
}

impl PostgresGuards {
    fn claimed(
        &self,
        guards: Vec<Guard>,
        replaces: Option<Vec<String>>,
    ) -> BoxFuture<'static, Result<Vec<String>, LogError>> {
        let sender = self.0.clone();
        Box::pin(async move {
            let (done, claimed) = oneshot::channel();
            let request = Request::Claim {
                guards,
                replaces,
                done,
            };
            sender.send(request).await.map_err(|_| ended())?;
            claimed.await.map_err(|_| ended())?
        })
    }
}

impl GuardStore for PostgresGuards {
    fn claim(&self, guards: Vec<Guard>) -> BoxFuture<'static, Result<Vec<String>, LogError>> {
        self.claimed(guards, None)
    }

    fn replace(
        &self,
        guards: Vec<Guard>,
        addresses: Vec<String>,
    ) -> BoxFuture<'static, Result<Vec<String>, LogError>> {
        self.claimed(guards, Some(addresses))
    }

    fn release(&self, keys: Vec<String>) -> BoxFuture<'static, Result<(), LogError>> {
        let sender = self.0.clone();
        Box::pin(async move {
            let (done, released) = oneshot::channel();
            let request = Request::Release { keys, done };
            sender.send(request).await.map_err(|_| ended())?;
            released.await.map_err(|_| ended())?
        })
    }
}

fn ended() -> LogError {
    LogError::Away {
        path: "in PostgreSQL".into(),
        cause: "this gateway does not own it".into(),
    }
}
