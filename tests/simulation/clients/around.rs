//! One batch at gateways that share a log, with plain writes and reads at the others around it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use tokio::time::sleep;

use super::{Change, Client};

/// The tables of the batch, and one that it is not on.
const TABLES: [usize; 2] = [0, 1];
const OTHER: usize = 2;

impl Client {
    /// Sends a batch to the owner of the log or to another gateway. It is read at each gateway before, meanwhile and
    /// afterwards, and written to beside it.
    pub async fn around_a_batch(mut self, aborts: bool, at_owner: bool) {
        let gateways = self.front.owner_and_others().await;
        let &[owner, one, other] = gateways.as_slice() else {
            panic!("three gateways")
        };
        self.at = Some(one);
        self.append_to(TABLES[0]).await;
        self.at = Some(if at_owner { owner } else { one });
        let (mut reader, mut writer) = (self.another(1), self.another(2));
        reader.at = Some(other);
        writer.at = Some(if at_owner { one } else { other });
        let (world, is_over) = (Arc::clone(&self.world), AtomicBool::new(false));
        let reads = async {
            for _ in 0..2 {
                for table in TABLES {
                    reader.list(table, false).await;
                }
                sleep(Duration::from_millis(5)).await;
            }
        };
        let writes = async {
            writer.append_to(OTHER).await;
            // Once the batch is in the log, so that it has its locks whatever happened before.
            while !is_over.load(Relaxed) && world.lock().ledger.records().is_empty() {
                sleep(Duration::from_millis(5)).await;
            }
            writer.write(TABLES[0], Change::Insert, false).await;
        };
        let batch = async {
            let mut wanted = Vec::new();
            for table in TABLES {
                wanted.extend(self.next(table, false).await);
            }
            if !wanted.is_empty() {
                let op = self.plan(&wanted, true);
                if aborts {
                    self.lose_last_manifest(op);
                }
                self.send(op, true).await;
            }
            is_over.store(true, Relaxed);
        };
        tokio::join!(batch, reads, writes);
        for at in [owner, one, other] {
            self.at = Some(at);
            for table in TABLES {
                self.describe(table, false, None).await;
            }
        }
        self.append_to(TABLES[1]).await;
    }

    /// Creates a version at one gateway, and then has the owner of the log run a batch that builds on what is shown. That
    /// is the same version if the first create has not landed.
    pub async fn create_before_a_batch(mut self) {
        let gateways = self.front.owner_and_others().await;
        self.at = gateways.get(1).copied();
        self.append_to(TABLES[0]).await;
        self.at = gateways.first().copied();
        let mut wanted = Vec::new();
        for table in TABLES {
            wanted.extend(self.next(table, false).await);
        }
        if !wanted.is_empty() {
            let op = self.plan(&wanted, true);
            self.send(op, true).await;
        }
        for at in gateways {
            self.at = Some(at);
            for table in TABLES {
                self.describe(table, false, None).await;
            }
        }
    }

    async fn append_to(&mut self, table: usize) {
        if let Some(next) = self.next(table, false).await {
            let op = self.plan(&[next], false);
            self.send(op, false).await;
        }
    }
}
