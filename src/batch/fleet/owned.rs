//! The guards that the owner of the log holds for its batches: when it claims them, and how long it keeps them.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
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
    /// By the key of the guard: a table has two while its catalog is about to have another address.
    tables: Mutex<HashMap<String, Owned>>,
    /// Told when guards were released.
    released: Notify,
}

struct Owned {
    /// The tables with the name that is guarded, in different parts of their catalog's data.
    tables: HashSet<TableKey>,
    guard: Guard,
    /// True once every other gateway has acknowledged.
    is_granted: bool,
    /// The number of batches that claim it at the moment. It is not released then.
    claims: usize,
    /// True while it is being released. Nobody claims it then: the release could undo the claim.
    is_released: bool,
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
            released: Notify::new(),
        }
    }

    /// Guards tables, within `wait`. Returns those for which another gateway knows a change that had no answer. A table that
    /// is guarded already costs nothing. Unless the caller holds the tables, a guard may be released after a moment.
    pub(in crate::batch) async fn claim(
        &self,
        tables: Vec<(TableKey, Guard)>,
        wait: Duration,
    ) -> Result<Vec<TableKey>, Unguarded> {
        let mut failed = None;
        let claimed = timeout(wait, async {
            let claim = self.begin(tables).await;
            if claim.missing.is_empty() {
                return Ok(Vec::new());
            }
            let guards: Vec<Guard> = claim
                .missing
                .iter()
                .map(|(_, guard)| guard.clone())
                .collect();
            let strays = loop {
                match self.store.claim(guards.clone()).await {
                    // Whether it was done is not known; doing it again changes nothing.
                    Err(away @ LogError::Away { .. }) => {
                        failed = Some(away);
                        sleep(CLAIM_AGAIN).await;
                    }
                    claimed => break claimed,
                }
            };
            let strays = strays.map_err(Unguarded::Log)?;
            Ok(self.granted(claim.missing.clone(), &strays))
        });
        let claimed = claimed.await;
        claimed.unwrap_or_else(|_| Err(failed.map_or(Unguarded::TimedOut, Unguarded::Log)))
    }

    /// Records that tables are claimed, once none of them is being released.
    async fn begin(&self, tables: Vec<(TableKey, Guard)>) -> Claim<'_> {
        loop {
            let released = self.released.notified();
            if let Some(claim) = self.try_begin(&tables) {
                return claim;
            }
            released.await;
        }
    }

    fn try_begin(&self, tables: &[(TableKey, Guard)]) -> Option<Claim<'_>> {
        let now = Instant::now();
        let mut owned = self.tables();
        let is_released = |(_, guard): &(TableKey, Guard)| {
            owned.get(&guard.key).is_some_and(|known| known.is_released)
        };
        if tables.iter().any(is_released) {
            return None;
        }
        let mut missing = Vec::new();
        for (table, guard) in tables {
            let known = owned.entry(guard.key.clone()).or_insert_with(|| Owned {
                tables: HashSet::new(),
                guard: guard.clone(),
                is_granted: false,
                claims: 0,
                is_released: false,
                needed: now,
            });
            if !known.tables.contains(table) {
                known.tables.insert(table.clone());
            }
            known.needed = now;
            if !known.is_granted || (guard.names && !known.guard.names) {
                known.guard.names |= guard.names;
                known.is_granted = false;
                known.claims += 1;
                missing.push((table.clone(), known.guard.clone()));
            }
        }
        Some(Claim {
            guards: self,
            missing,
        })
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
            let known = owned.entry(guard.key.clone()).or_insert_with(|| Owned {
                tables: HashSet::new(),
                guard: guard.clone(),
                is_granted: false,
                claims: 0,
                is_released: false,
                needed,
            });
            known.tables.insert(table);
            // A claim of more may be under way, which is granted by itself.
            if guard.names || !known.guard.names {
                known.guard = guard;
                known.is_granted = true;
            }
            known.needed = needed;
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
        let idle: Vec<(HashSet<TableKey>, String)> = {
            let owned = self.tables();
            let idle = owned
                .iter()
                .filter(|(_, known)| known.needed + STAYS <= now);
            let named = idle.map(|(key, known)| (known.tables.clone(), key.clone()));
            named.take(RELEASED).collect()
        };
        let (mut held, mut released) = (Hold::none(locks), Vec::new());
        for (tables, key) in idle {
            // While they are held, no batch begins on them.
            let hold = locks
                .exclusive(tables.iter().cloned(), Duration::ZERO)
                .await;
            match hold.ok().filter(|_| !tables.iter().any(&is_needed)) {
                Some(hold) => {
                    held.join(hold);
                    released.push(key);
                }
                None => {
                    if let Some(known) = self.tables().get_mut(&key) {
                        known.needed = now;
                    }
                }
            }
        }
        {
            let mut owned = self.tables();
            released.retain(|key| match owned.get_mut(key) {
                // Another table of that name may have been claimed meanwhile.
                Some(known) if known.claims == 0 && known.needed + STAYS <= now => {
                    // If the answer is lost, it may be gone.
                    known.is_granted = false;
                    known.is_released = true;
                    true
                }
                _ => false,
            });
        }
        if released.is_empty() {
            return Ok(());
        }
        let done = self.store.release(released.clone()).await;
        {
            let mut owned = self.tables();
            for key in &released {
                if done.is_ok() {
                    owned.remove(key);
                } else if let Some(known) = owned.get_mut(key) {
                    known.is_released = false;
                }
            }
        }
        self.released.notify_waiters();
        done
    }

    /// The number of guards.
    pub fn len(&self) -> usize {
        self.tables().len()
    }

    /// True if no table is guarded.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn tables(&self) -> MutexGuard<'_, HashMap<String, Owned>> {
        self.tables.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Tables that are being claimed. The claim ends when it is dropped.
struct Claim<'a> {
    guards: &'a OwnedGuards,
    /// The tables that are not guarded yet.
    missing: Vec<(TableKey, Guard)>,
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        let mut owned = self.guards.tables();
        for (_, guard) in &self.missing {
            if let Some(known) = owned.get_mut(&guard.key) {
                known.claims = known.claims.saturating_sub(1);
            }
        }
    }
}

#[cfg(test)]
mod tests;
