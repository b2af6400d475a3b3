//! The guards that a gateway without the log knows: requests for these tables are passed on to the owner.

use std::hash::BuildHasher;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use dashmap::DashMap;

use super::in_flight::{InFlight, Place};
use crate::batch::locks::TableHasher;
use crate::protocol::identifier::Identifier;
use crate::protocol::query::DEFAULT_DELIMITER;

/// The separator of the parts of a key. PostgreSQL takes it in a text.
const SEPARATOR: char = '\u{1f}';
/// The bucket of requests that list names of tables.
const LISTINGS: u64 = u64::MAX;

/// A table that a batch is on, or was on until a moment ago.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Guard {
    /// The key of the table; see [`guard_key`].
    pub key: String,
    /// True if the batch gives or takes names of tables, so that listings depend on it.
    pub names: bool,
}

/// Returns the key of a table: the address of its catalog, which every gateway has, and its names there. Names that are
/// equal once they are joined by `$` share it, as in a [`TableKey`](crate::batch::TableKey).
pub fn guard_key(address: &str, table: &Identifier) -> String {
    let names = table.split(DEFAULT_DELIMITER);
    let mut key = String::with_capacity(address.len() + 1 + names.len());
    key.push_str(address);
    key.push(SEPARATOR);
    key.extend(names.chars().map(|letter| match letter {
        '\0' => SEPARATOR,
        other => other,
    }));
    key
}

/// Returns the address of the catalog and the names of the table of a key.
pub(in crate::batch) fn parts_of(key: &str) -> Option<(&str, Identifier)> {
    let mut parts = key.split(SEPARATOR);
    let address = parts.next()?;
    Identifier::from_names(parts)
        .ok()
        .map(|table| (address, table))
}

/// The guarded tables, and the requests that are served here.
#[derive(Default)]
pub(in crate::batch) struct GuardedTables {
    /// True for each key whose batch gives or takes names.
    keys: DashMap<Arc<str>, bool, TableHasher>,
    /// The number of keys, to see without a lookup that there are none.
    count: AtomicUsize,
    /// The number of keys whose batches give or take names.
    naming: AtomicUsize,
    in_flight: InFlight,
    hasher: TableHasher,
}

impl GuardedTables {
    /// Adds guards. Requests that come from now on are not served here; see [`drain`](Self::drain) for those that came
    /// before.
    pub(in crate::batch) fn add(&self, guards: impl IntoIterator<Item = Guard>) {
        for Guard { key, names } in guards {
            let before = self.keys.insert(key.into(), names);
            if before.is_none() {
                self.count.fetch_add(1, Ordering::SeqCst);
            }
            match (before.unwrap_or(false), names) {
                (false, true) => drop(self.naming.fetch_add(1, Ordering::SeqCst)),
                (true, false) => drop(self.naming.fetch_sub(1, Ordering::SeqCst)),
                _ => {}
            }
        }
    }

    /// Removes the guards that are not among `keys`. They must come from a look that is not older than the last one that
    /// added guards.
    pub(in crate::batch) fn retain(&self, keys: &std::collections::HashSet<String>) {
        self.keys.retain(|key, names| {
            let stays = keys.contains(&**key);
            if !stays {
                self.count.fetch_sub(1, Ordering::SeqCst);
                if *names {
                    self.naming.fetch_sub(1, Ordering::SeqCst);
                }
            }
            stays
        });
    }

    /// The number of guards.
    pub(in crate::batch) fn len(&self) -> usize {
        self.count.load(Ordering::SeqCst)
    }

    /// Gives every request up that is served at the moment.
    pub(super) fn give_up_all(&self) {
        self.in_flight.doom_all();
    }

    /// Forgets all guards, and gives up every request that is served at the moment.
    pub(super) fn forget_all(&self) {
        self.in_flight.doom_all();
        self.retain(&std::collections::HashSet::new());
    }

    /// Waits until no request is served any more that came before the guard, or gives those that are left up: their
    /// answers are not shown. Changes are not given up; the caller waits for their locks.
    pub(in crate::batch) async fn drain(&self, guard: &Guard) {
        if guard.names {
            self.in_flight.drain(LISTINGS).await;
        }
        self.in_flight.drain(self.hash(&guard.key)).await;
    }

    /// Counts a request for a table, unless the table is guarded.
    pub(super) fn enter(&self, key: &str) -> Option<Place> {
        let place = self.in_flight.enter(self.hash(key));
        let is_guarded = self.len() > 0 && self.keys.contains_key(key);
        (!is_guarded).then_some(place)
    }

    /// Counts a request that lists names, unless a batch gives or takes some.
    pub(super) fn enter_listing(&self) -> Option<Place> {
        let place = self.in_flight.enter(LISTINGS);
        (self.naming.load(Ordering::SeqCst) == 0).then_some(place)
    }

    fn hash(&self, key: &str) -> u64 {
        self.hasher.hash_one(key)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test says what it expects")]
    use super::*;

    fn guard(key: &str, names: bool) -> Guard {
        Guard {
            key: key.to_owned(),
            names,
        }
    }

    #[test]
    fn a_key_names_the_table_as_its_catalog_knows_it() {
        let table = |names: &[&str]| Identifier::from_names(names).unwrap();
        let key = guard_key("http://one.test:80", &table(&["a", "b$c"]));
        assert_eq!(
            key,
            guard_key("http://one.test:80", &table(&["a", "b", "c"]))
        );
        assert_ne!(
            key,
            guard_key("http://two.test:80", &table(&["a", "b", "c"]))
        );
        let (address, names) = parts_of(&key).unwrap();
        assert_eq!(address, "http://one.test:80");
        assert_eq!(names, table(&["a", "b", "c"]));
    }

    #[test]
    fn only_requests_for_guarded_tables_are_turned_away() {
        let tables = GuardedTables::default();
        assert!(tables.enter("t").is_some());
        tables.add([guard("t", false)]);
        assert!(tables.enter("t").is_none());
        assert!(tables.enter("u").is_some());
        assert!(tables.enter_listing().is_some());
        tables.add([guard("u", true)]);
        assert!(tables.enter_listing().is_none());
        tables.retain(&["t".to_owned()].into());
        assert!(tables.enter_listing().is_some());
        assert!(tables.enter("u").is_some());
        assert_eq!(tables.len(), 1);
        tables.add([guard("t", true), guard("t", true)]);
        assert_eq!(tables.len(), 1);
        tables.forget_all();
        assert!(tables.enter("t").is_some() && tables.enter_listing().is_some());
    }

    #[tokio::test]
    async fn a_request_that_came_before_its_guard_is_given_up_if_it_does_not_end() {
        let tables = GuardedTables::default();
        let (of_table, listing) = (tables.enter("t").unwrap(), tables.enter_listing().unwrap());
        tables.add([guard("t", false)]);
        tables.drain(&guard("t", false)).await;
        assert!(of_table.is_doomed() && !listing.is_doomed());
        tables.drain(&guard("t", true)).await;
        assert!(listing.is_doomed());
    }
}
