//! Batches at a steady rate from many clients, each on a table of its own, until they are stopped.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use futures_util::future::BoxFuture;
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior, interval_at};

use super::RATE;
use super::plain::CLIENTS;
use crate::catalog::Catalog;
use crate::house::batch;

/// Sends a batch for the client with this number; the arguments are the client, the target and the
/// body.
pub type Ask = Arc<dyn Fn(usize, &'static str, String) -> BoxFuture<'static, ()> + Send + Sync>;

/// The work of the batches, in two catalogs that are given by their numbers.
#[derive(Clone, Copy)]
pub enum Work {
    /// Each batch creates the next version of a table.
    Versions([usize; 2]),
    /// One batch declares a table, and the next one deregisters it.
    Names([usize; 2]),
}

/// Batches that are running.
pub struct Steady {
    over: Arc<AtomicBool>,
    done: Arc<AtomicU64>,
    clients: JoinSet<()>,
    began: Instant,
}

impl Work {
    /// Returns the table of a client's batches.
    fn table(self, client: usize) -> String {
        match self {
            Self::Versions([one, other]) => format!("batch{one}{other}-{client}"),
            Self::Names(_) => format!("name{client}"),
        }
    }

    /// Creates the tables that the batches need.
    pub fn prepare(self, catalogs: &[Catalog]) {
        if let Self::Versions(which) = self {
            for (catalog, client) in which
                .iter()
                .flat_map(|it| (0..CLIENTS).map(move |n| (it, n)))
            {
                catalogs[*catalog].seed(self.table(client), 1);
            }
        }
    }

    /// Returns the target and the body of a client's next batch.
    pub fn next(self, catalogs: &[Catalog], client: usize) -> (&'static str, String) {
        let (table, Self::Versions(which) | Self::Names(which)) = (self.table(client), self);
        let quoted = which.map(|catalog| format!("c{catalog}\",\"{table}"));
        if let Self::Versions([first, _]) = self {
            let version = catalogs[first].latest(&table) + 1;
            return (
                "/v1/table/version/batch-create",
                batch(quoted.into_iter(), version),
            );
        }
        let what = if catalogs[which[0]].has(&table) {
            "deregister_table"
        } else {
            "declare_table"
        };
        let operations = quoted.map(|id| format!("{{\"{what}\":{{\"id\":[\"{id}\"]}}}}"));
        (
            "/v1/table/batch-commit",
            format!("{{\"operations\":[{}]}}", operations.join(",")),
        )
    }
}

impl Steady {
    /// Starts the clients.
    pub fn begin(catalogs: &[Catalog], work: Work, ask: &Ask) -> Self {
        let mut steady = Self {
            over: Arc::default(),
            done: Arc::default(),
            clients: JoinSet::new(),
            began: Instant::now(),
        };
        let every = Duration::from_secs(1) * CLIENTS as u32 / RATE;
        for client in 0..CLIENTS {
            let first = steady.began + every * client as u32 / CLIENTS as u32;
            let (over, done, ask) = (steady.over.clone(), steady.done.clone(), ask.clone());
            let catalogs = catalogs.to_vec();
            steady.clients.spawn(async move {
                let mut turns = interval_at(first, every);
                turns.set_missed_tick_behavior(MissedTickBehavior::Delay);
                loop {
                    turns.tick().await;
                    if over.load(Ordering::Relaxed) {
                        return;
                    }
                    let (target, body) = work.next(&catalogs, client);
                    ask(client, target, body).await;
                    done.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        steady
    }

    /// Stops the clients; returns the rate of batches that was reached.
    pub async fn end(self) -> f64 {
        let rate = self.done() as f64 / self.began.elapsed().as_secs_f64();
        self.over.store(true, Ordering::Relaxed);
        self.clients.join_all().await;
        rate
    }

    /// Returns the number of batches so far.
    pub fn done(&self) -> u64 {
        self.done.load(Ordering::Relaxed)
    }
}
