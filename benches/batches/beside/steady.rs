//! Batches at a steady rate from many clients, each on a table of its own, until they are told to stop.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use futures_util::future::BoxFuture;
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior, interval_at};

use super::RATE;
use super::plain::CLIENTS;
use crate::catalog::Catalog;

/// Asks for one batch of two entries: that version of that table in the catalogs of these numbers.
pub type Send =
    Arc<dyn Fn(usize, [usize; 2], u64) -> BoxFuture<'static, ()> + std::marker::Send + Sync>;

/// Batches that are being asked for.
pub struct Steady {
    over: Arc<AtomicBool>,
    done: Arc<AtomicU64>,
    clients: JoinSet<()>,
    began: Instant,
}

/// The table that a client's batches are on in these two catalogs.
pub fn table([one, other]: [usize; 2], client: usize) -> String {
    format!("batch{one}{other}-{client}")
}

impl Steady {
    /// Begins, in these two of the catalogs.
    pub fn begin(catalogs: &[Catalog], which: [usize; 2], send: &Send) -> Self {
        let mut steady = Self {
            over: Arc::default(),
            done: Arc::default(),
            clients: JoinSet::new(),
            began: Instant::now(),
        };
        let every = Duration::from_secs(1) * u32::try_from(CLIENTS).unwrap() / RATE;
        for client in 0..CLIENTS {
            let first = steady.began + every * u32::try_from(client).unwrap() / 64;
            let (over, done, send) = (steady.over.clone(), steady.done.clone(), send.clone());
            let latest = catalogs[which[0]].latest(&table(which, client));
            steady.clients.spawn(async move {
                let mut turns = interval_at(first, every);
                turns.set_missed_tick_behavior(MissedTickBehavior::Delay);
                for version in latest + 1.. {
                    turns.tick().await;
                    if over.load(Ordering::Relaxed) {
                        return;
                    }
                    send(client, which, version).await;
                    done.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        steady
    }

    /// Ends; answers with the rate that was kept.
    pub async fn end(self) -> f64 {
        let rate = self.done.load(Ordering::Relaxed) as f64 / self.began.elapsed().as_secs_f64();
        self.over.store(true, Ordering::Relaxed);
        self.clients.join_all().await;
        rate
    }

    /// How many there were so far.
    pub fn done(&self) -> u64 {
        self.done.load(Ordering::Relaxed)
    }
}
