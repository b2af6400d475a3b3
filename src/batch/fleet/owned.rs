//! The guards that the owner of the log has claimed for its batches.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::{Instant, sleep, timeout};

use super::{Guard, GuardStore};
use crate::batch::locks::{Hold, Locks, TableKey};
use crate::batch::log::LogError;

/// The time for which a guard stays after the last batch. A table on which batches are frequent is guarded all the time,
/// so that they need not wait for the other gateways.
const STAYS: Duration = Duration::from_secs(1);
/// The interval at which guards are released, and the most that are released at a time.
pub(in crate::batch) const RELEASE_EVERY: Duration = Duration::from_millis(500);
const RELEASED: usize = 256;
/// The pause before guards are claimed again if the log does not answer.
const CLAIM_AGAIN: Duration = Duration::from_millis(50);
/// The number of times that the guards of recovered batches are claimed again if the log does not answer.
const REPLACES: u32 = 120;

/// The guards of the tables of batches.
pub struct OwnedGuards {
    store: Arc<dyn GuardStore>,
    tables: Mutex<HashMap<TableKey, Owned>>,
}

struct Owned {
    guard: Guard,
    /// True once every other gateway has acknowledged.
    is_granted: bool,
    /// The time at which it was last needed.
    needed: Instant,
}

/// The reason why tables were not guarded.
#[derive(Debug)]
pub enum Unguarded {
    /// The other gateways did not acknowledge in time.
    TimedOut,
    /// The log does not answer, or another gateway owns it.
    Log(LogError),
}

impl OwnedGuards {
    /// Creates the guards of a gateway that owns no log yet.
    pub fn new(store: Arc<dyn GuardStore>) -> Self {
        Self {
            store,
            tables: Mutex::default(),
        }
    }

    /// Guards tables, which the caller holds exclusively, within `wait`. Returns those for which another gateway knows a
    /// change that had no answer. A table that is guarded already costs nothing.
    pub(in crate::batch) async fn claim(
        &self,
        tables: Vec<(TableKey, Guard)>,
        wait: Duration,
    ) -> Result<Vec<TableKey>, Unguarded> {
        let now = Instant::now();
        let mut missing = Vec::new();
        {
            let mut owned = self.tables();
            for (table, guard) in tables {
                let known = owned.get_mut(&table);
                match known {
                    Some(known) if known.is_granted && (known.guard.names || !guard.names) => {
                        known.needed = now;
                    }
                    _ => {
                        let claimed = Owned {
                            guard: guard.clone(),
                            is_granted: false,
                            needed: now,
                        };
                        owned.insert(table.clone(), claimed);
                        missing.push((table, guard));
                    }
                }
            }
        }
        if missing.is_empty() {
            return Ok(Vec::new());
        }
        let guards: Vec<Guard> = missing.iter().map(|(_, guard)| guard.clone()).collect();
        let claim = async {
            loop {
                match self.store.claim(guards.clone()).await {
                    // Whether it was done is not known; doing it again changes nothing.
                    Err(LogError::Away { .. }) => sleep(CLAIM_AGAIN).await,
                    claimed => break claimed,
                }
            }
        };
        let claimed = timeout(wait, claim).await;
        let strays = claimed
            .map_err(|_| Unguarded::TimedOut)?
            .map_err(Unguarded::Log)?;
        Ok(self.granted(missing, &strays))
    }

    /// Guards the tables of recovered batches, and no others of the catalogs at `addresses`.
    pub(in crate::batch) async fn replace(
        &self,
        tables: Vec<(TableKey, Guard)>,
        addresses: &[String],
    ) -> Result<Vec<TableKey>, LogError> {
        let guards: Vec<Guard> = tables.iter().map(|(_, guard)| guard.clone()).collect();
        let mut tries = 0;
        let strays = loop {
            match self.store.replace(guards.clone(), addresses.to_vec()).await {
                // Whether it was done is not known; doing it again changes nothing.
                Err(LogError::Away { .. }) if tries < REPLACES => {
                    tries += 1;
                    sleep(RELEASE_EVERY).await;
                }
                replaced => break replaced?,
            }
        };
        Ok(self.granted(tables, &strays))
    }

    fn granted(&self, tables: Vec<(TableKey, Guard)>, strays: &[String]) -> Vec<TableKey> {
        let needed = Instant::now();
        let mut found = Vec::new();
        let mut owned = self.tables();
        for (table, guard) in tables {
            if strays.contains(&guard.key) {
                found.push(table.clone());
            }
            let granted = Owned {
                guard,
                is_granted: true,
                needed,
            };
            owned.insert(table, granted);
        }
        found
    }

    /// Releases the guards that are not needed any more: no batch holds the table, and `is_needed` says so.
    pub(in crate::batch) async fn release(
        &self,
        locks: &Locks,
        is_needed: impl Fn(&TableKey) -> bool,
    ) -> Result<(), LogError> {
        let now = Instant::now();
        let idle: Vec<(TableKey, String)> = {
            let owned = self.tables();
            let idle = owned
                .iter()
                .filter(|(_, known)| known.needed + STAYS <= now);
            let named = idle.map(|(table, known)| (table.clone(), known.guard.key.clone()));
            named.take(RELEASED).collect()
        };
        let (mut held, mut released) = (Hold::none(locks), Vec::new());
        for (table, key) in idle {
            // While it is held, no batch begins on it.
            let hold = locks.exclusive([table.clone()], Duration::ZERO).await;
            match hold.ok().filter(|_| !is_needed(&table)) {
                Some(hold) => {
                    held.join(hold);
                    released.push((table, key));
                }
                None => {
                    if let Some(known) = self.tables().get_mut(&table) {
                        known.needed = now;
                    }
                }
            }
        }
        if released.is_empty() {
            return Ok(());
        }
        for (table, _) in &released {
            if let Some(known) = self.tables().get_mut(table) {
                // If the answer is lost, it may be gone.
                known.is_granted = false;
            }
        }
        let keys = released.iter().map(|(_, key)| key.clone()).collect();
        self.store.release(keys).await?;
        let mut owned = self.tables();
        for (table, _) in &released {
            owned.remove(table);
        }
        Ok(())
    }

    /// The number of guarded tables.
    pub fn len(&self) -> usize {
        self.tables().len()
    }

    /// True if no table is guarded.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn tables(&self) -> MutexGuard<'_, HashMap<TableKey, Owned>> {
        self.tables.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
