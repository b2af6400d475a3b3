//! Guards the tables of batches against requests that other gateways serve.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Weak};
use std::time::Duration;

use futures_util::future::BoxFuture;

use tokio::time::sleep;

use super::{Coordinator, STRAYS};
use crate::backend::Backend;
use crate::batch::fleet::{
    Fleet, Guard, LocalTables, OwnedGuards, Role, Unguarded, guard_key, parts_of,
};
use crate::batch::locks::{LockError, TableKey};
use crate::batch::log::LogError;
use crate::batch::plan::Plan;
use crate::protocol::data_scope::DataScope;

/// The time that a guard of another gateway waits for a change here, before it looks whether that gateway still waits.
const CHANGE: Duration = Duration::from_secs(1);

/// The gateways that share the log of a coordinator.
pub(in crate::batch) struct Sharing {
    pub(in crate::batch) fleet: Arc<Fleet>,
    /// The guards of this gateway's batches; `None` if it has the log for itself.
    pub(in crate::batch) guards: Option<OwnedGuards>,
}

impl Coordinator {
    /// Guards the tables of a batch, which the caller holds.
    pub(super) async fn guard_plan(&self, plan: &Plan) -> Result<(), LockError> {
        let Some(guards) = self.guards() else {
            return Ok(());
        };
        let mut tables: BTreeMap<&TableKey, (&Backend, bool)> = BTreeMap::new();
        for entry in &plan.entries {
            let (_, names) = tables
                .entry(&entry.line.table)
                .or_insert((&entry.backend, false));
            *names |= entry.action.is_about_name();
        }
        // A catalog may have got another address while the batch waited: other gateways know it by that one.
        let now = Addresses::of(&self.backends.borrow());
        let mut claimed = Vec::new();
        for (table, (backend, names)) in tables {
            let address = backend.addresses().first().unwrap_or(backend.name());
            let key = guard_key(address, &table.table);
            let moved = now.guard(table, names).filter(|guard| guard.key != key);
            claimed.push((table.clone(), Guard { key, names }));
            claimed.extend(moved.map(|guard| (table.clone(), guard)));
        }
        self.claim(guards, claimed).await
    }

    /// Guards tables for a reader that holds them exclusively.
    pub(in crate::batch) async fn guard_tables(
        &self,
        tables: &[TableKey],
    ) -> Result<(), LockError> {
        let Some(guards) = self.guards() else {
            return Ok(());
        };
        let addresses = Addresses::of(&self.backends.borrow());
        let tables = tables.iter().filter_map(|table| {
            let guard = addresses.guard(table, false)?;
            Some((table.clone(), guard))
        });
        let tables = tables.collect();
        self.claim(guards, tables).await
    }

    async fn claim(
        &self,
        guards: &OwnedGuards,
        tables: Vec<(TableKey, Guard)>,
    ) -> Result<(), LockError> {
        let wait = self.settings().lock_timeout;
        match guards.claim(tables, wait).await {
            Ok(strays) => {
                self.expect(&strays);
                Ok(())
            }
            Err(Unguarded::TimedOut) => Err(LockError::Unacknowledged),
            Err(Unguarded::Log(cause)) => {
                tracing::debug!(%cause, "a batch could not guard its tables");
                Err(LockError::Unguarded)
            }
        }
    }

    /// Guards the tables of recovered batches, and begins to run batches.
    ///
    /// # Errors
    /// The log cannot be written.
    pub(in crate::batch) async fn begin_owning(&self) -> Result<(), LogError> {
        let Some(sharing) = &self.sharing else {
            return Ok(());
        };
        let addresses = Addresses::of(&self.backends.borrow());
        if let Some(guards) = &sharing.guards {
            let tables = self.to_be_guarded(&addresses);
            let known: Vec<String> = addresses.0.values().map(ToString::to_string).collect();
            let strays = guards.replace(tables, &known).await?;
            self.expect(&strays);
        }
        sharing.fleet.becomes(Role::Owner);
        // A reload that came meanwhile guarded nothing, because there was no owner.
        let has_moved = addresses != Addresses::of(&self.backends.borrow());
        if has_moved {
            self.guard_again().await;
        }
        Ok(())
    }

    /// Guards the tables of batches under the addresses that their catalogs have now. Those of before stay: other gateways
    /// may still use them.
    pub(in crate::batch) async fn guard_again(&self) {
        let Some(guards) = self.guards() else {
            return;
        };
        loop {
            // A gateway that does not own the log guards nothing, and one that takes it claims all by itself.
            let sharing = self.sharing.as_ref();
            if sharing.is_none_or(|sharing| sharing.fleet.role() != Role::Owner) {
                return;
            }
            let tables = self.to_be_guarded(&Addresses::of(&self.backends.borrow()));
            match self.claim(guards, tables).await {
                Ok(()) => return,
                Err(cause) => {
                    tracing::warn!(
                        %cause,
                        "the tables of unfinished batches are not guarded yet under the new addresses of their catalogs; trying again"
                    );
                    sleep(CHANGE).await;
                }
            }
        }
    }

    /// The tables that batches are on, or about which they have left something to know.
    fn to_be_guarded(&self, addresses: &Addresses) -> Vec<(TableKey, Guard)> {
        let mut tables: HashMap<TableKey, bool> = HashMap::new();
        for table in self.locks.held_by_batches() {
            tables.entry(table).or_default();
        }
        for table in self.visibility.tables() {
            tables.entry(table).or_default();
        }
        for table in self.visibility.names.tables() {
            tables.insert(table, true);
        }
        let tables = tables.into_iter().filter_map(|(table, names)| {
            let guard = addresses.guard(&table, names)?;
            Some((table, guard))
        });
        tables.collect()
    }

    /// Releases the guards that batches do not need any more.
    pub(in crate::batch) async fn release_guards(&self) {
        if let Some(guards) = self.guards() {
            let is_needed = |table: &TableKey| {
                self.visibility.has(|| table.clone()) || self.visibility.names.has(table)
            };
            // What was not released is tried again.
            let _ = guards.release(&self.locks, is_needed).await;
        }
    }

    /// The identity of the catalog at this address; `None` if no backend in use leads there.
    fn catalog_at(&self, address: &str) -> Option<Arc<str>> {
        let known = self.backends.borrow();
        let mut backends = known.iter();
        let is_there = |one: &&Arc<Backend>| {
            let first = one.addresses().first();
            first.map_or(**one.name() == *address, |first| **first == *address)
        };
        backends.find(is_there).map(|one| Arc::clone(one.catalog()))
    }

    fn expect(&self, strays: &[TableKey]) {
        for table in strays {
            self.unanswered(&table.without_scope(), None);
        }
    }

    fn guards(&self) -> Option<&OwnedGuards> {
        self.sharing.as_ref()?.guards.as_ref()
    }
}

/// The addresses of catalogs by their identities.
#[derive(PartialEq)]
struct Addresses(HashMap<Arc<str>, Arc<str>>);

impl Addresses {
    fn of(backends: &[Arc<Backend>]) -> Self {
        let known = backends.iter().map(|backend| {
            let address = backend.addresses().first().unwrap_or(backend.name());
            (Arc::clone(backend.catalog()), Arc::clone(address))
        });
        Self(known.collect())
    }

    fn guard(&self, table: &TableKey, names: bool) -> Option<Guard> {
        let address = self.0.get(&table.backend)?;
        let key = guard_key(address, &table.table);
        Some(Guard { key, names })
    }
}

/// The tables of a coordinator, for guards of other gateways.
pub(in crate::batch) struct CoordinatorTables(pub(in crate::batch) Weak<Coordinator>);

impl LocalTables for CoordinatorTables {
    fn settled(&self, key: &str) -> BoxFuture<'static, bool> {
        let coordinator = self.0.upgrade();
        let parts = parts_of(key).map(|(address, table)| (address.to_owned(), table));
        Box::pin(async move {
            let (Some(coordinator), Some((address, table))) = (coordinator, parts) else {
                return false;
            };
            let Some(backend) = coordinator.catalog_at(&address) else {
                // No request of this gateway reaches that catalog.
                return false;
            };
            let scope = DataScope::default();
            let table = TableKey {
                backend,
                scope,
                table,
            };
            // A guard does not tell which part of the catalog's data it is about: the requests before it do not, either,
            // until their callers are known.
            let mut tables = coordinator.locks.namesakes(&table);
            tables.push(table.clone());
            loop {
                let held = tables.iter().cloned();
                let hold = coordinator.locks.exclusive(held, CHANGE).await;
                if hold.is_ok() {
                    return coordinator.visibility.has_strays(&table);
                }
            }
        })
    }

    fn all_settled(&self) -> bool {
        self.0.upgrade().is_none_or(|coordinator| {
            coordinator.locks.sweep();
            coordinator.locks.is_empty() && !coordinator.visibility.has_any_strays()
        })
    }

    fn expect_strays(&self) {
        if let Some(coordinator) = self.0.upgrade() {
            coordinator.visibility.expect_strays(STRAYS);
        }
    }
}
