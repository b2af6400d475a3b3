//! The tables whose readers give way to a batch that has waited long for them.

use std::time::Duration;

use dashmap::DashMap;
use tokio::time::{Instant, sleep};

use super::{TableHasher, TableKey};

/// The time in which readers of a table give way to no other batch: one that takes long has its turn, too.
pub(super) const PRESSED: Duration = Duration::from_secs(30);
/// The interval at which a read looks whether it must give way.
const LOOK: Duration = Duration::from_millis(250);

/// The tables whose readers must give way, or had to lately, and since when.
#[derive(Default)]
pub(super) struct PressedTables(DashMap<TableKey, Instant, TableHasher>);

impl PressedTables {
    /// Waits until whoever reads this table since `began` must give way.
    pub(super) async fn wait(&self, table: &TableKey, began: Instant) {
        while self.0.get(table).is_none_or(|since| *since < began) {
            sleep(LOOK).await;
        }
    }

    /// Lets the readers of a table give way, unless they had to lately.
    pub(super) fn press(&self, table: &TableKey) {
        let now = Instant::now();
        let mut since = self.0.entry(table.clone()).or_insert(now);
        if *since + PRESSED < now {
            *since = now;
        }
    }

    /// Forgets the tables whose readers had to give way long ago.
    pub(super) fn sweep(&self) {
        let now = Instant::now();
        self.0.retain(|_, since| *since + PRESSED >= now);
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
