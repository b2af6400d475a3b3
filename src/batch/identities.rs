//! The identity of a catalog, which outlives the name of its backend: locks, hidden versions and cool-downs belong to a
//! catalog, and a reload or a restart may give its backend another name.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::backend::Backend;
use crate::batch::log::{CatalogRef, Intent};

/// The number of addresses that are remembered besides those in use. The oldest are forgotten first.
const REMEMBERED: usize = 4096;

/// A rule that returns the identity of a backend with this name and these addresses; `None` if it does not apply.
type Rank<'a> = dyn Fn(&str, &[String]) -> Option<Arc<str>> + 'a;

/// The identities of all catalogs since the process began.
#[derive(Default)]
pub struct Identities(Mutex<KnownCatalog>);

#[derive(Default)]
struct KnownCatalog {
    /// The identity of each address, and the configuration in which it was last in use.
    by_address: HashMap<Arc<str>, (Arc<str>, u64)>,
    /// The identities of the backends in use, by name.
    in_use: HashMap<Arc<str>, Arc<str>>,
    /// The number of configurations so far.
    now: u64,
}

/// Finds the backends of this configuration that entries of the log are about.
pub struct Finder<'a> {
    identities: &'a Identities,
    by_address: HashMap<&'a str, &'a Arc<Backend>>,
    by_name: HashMap<&'a str, &'a Arc<Backend>>,
    by_identity: HashMap<&'a str, &'a Arc<Backend>>,
}

impl Identities {
    /// Returns an identity for each backend of a new configuration, which is given by name and addresses: the identity
    /// of the catalog at one of its addresses; else that of the backend in use with its name; else its name. No two are
    /// equal.
    pub fn identify(&self, wanted: &[(&str, Vec<String>)]) -> Vec<Arc<str>> {
        let known = self.known();
        let mut found: Vec<Option<Arc<str>>> = vec![None; wanted.len()];
        let mut taken: HashSet<Arc<str>> = HashSet::new();
        let at = |address: &String| known.by_address.get(&**address).map(|(id, _)| id);
        let mut assign = |rank: &Rank<'_>| {
            for (place, (name, addresses)) in wanted.iter().enumerate() {
                if found[place].is_none()
                    && let Some(id) = rank(name, addresses)
                    && taken.insert(Arc::clone(&id))
                {
                    found[place] = Some(id);
                }
            }
        };
        // A backend that keeps its name and an address comes before one that only has an address.
        assign(&|name, addresses| {
            let own = known.in_use.get(name)?;
            let keeps = addresses.iter().any(|address| at(address) == Some(own));
            keeps.then(|| Arc::clone(own))
        });
        assign(&|_, addresses| at(addresses.first()?).cloned());
        assign(&|_, addresses| addresses.iter().find_map(at).cloned());
        assign(&|name, _| known.in_use.get(name).cloned());
        assign(&|name, _| Some(name.into()));
        let found = found.into_iter().zip(wanted);
        let all = found.map(|(found, (name, _))| {
            found.unwrap_or_else(|| {
                let id = known.unused(name, |id| taken.contains(id));
                taken.insert(Arc::clone(&id));
                id
            })
        });
        all.collect()
    }

    /// Records that these backends are in use now.
    pub fn are(&self, backends: &[Arc<Backend>]) {
        let mut known = self.known();
        known.now += 1;
        known.in_use.clear();
        for backend in backends {
            let id = backend.catalog();
            known
                .in_use
                .insert(Arc::clone(backend.name()), Arc::clone(id));
            for address in backend.addresses() {
                known.place(address, id);
            }
        }
        let excess = known.by_address.len().saturating_sub(REMEMBERED);
        if excess > 0 {
            let now = known.now;
            let mut ages: Vec<u64> = known.by_address.values().map(|(_, at)| *at).collect();
            ages.sort_unstable();
            let oldest = ages[excess - 1];
            known
                .by_address
                .retain(|_, (_, at)| *at > oldest || *at == now);
        }
    }

    /// Returns a finder over these backends, which must be in use.
    pub fn finder<'a>(&'a self, backends: &'a [Arc<Backend>]) -> Finder<'a> {
        let addresses = backends.iter().flat_map(|backend| {
            let addresses = backend.addresses().iter();
            addresses.map(move |address| (&**address, backend))
        });
        Finder {
            identities: self,
            by_address: addresses.collect(),
            by_name: backends.iter().map(|b| (&**b.name(), b)).collect(),
            by_identity: backends.iter().map(|b| (&**b.catalog(), b)).collect(),
        }
    }

    /// Returns the identity of a catalog that has no backend in use. A backend that leads to it later will get this
    /// identity.
    fn lost(&self, name: &Arc<str>, address: Option<&Arc<str>>) -> Arc<str> {
        let mut known = self.known();
        let in_use: HashSet<Arc<str>> = known.in_use.values().cloned().collect();
        let known_by = address.and_then(|address| known.by_address.get(&**address));
        if let Some((id, _)) = known_by.filter(|(id, _)| !in_use.contains(id)) {
            return Arc::clone(id);
        }
        if !in_use.contains(name) {
            if let Some(address) = address {
                known.place(address, name);
            }
            return Arc::clone(name);
        }
        let id = known.unused(name, |id| in_use.contains(id));
        if let Some(address) = address {
            known.place(address, &id);
        }
        id
    }

    fn known(&self) -> MutexGuard<'_, KnownCatalog> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl KnownCatalog {
    fn place(&mut self, address: &Arc<str>, id: &Arc<str>) {
        let of_now = (Arc::clone(id), self.now);
        self.by_address.insert(Arc::clone(address), of_now);
    }

    /// Returns the name with a number that no catalog has or had.
    fn unused(&self, name: &str, taken: impl Fn(&str) -> bool) -> Arc<str> {
        let numbered = (2..).map(|number: u64| format!("{name}~{number}"));
        let had = |id: &str| self.by_address.values().any(|(known, _)| **known == *id);
        let mut free = numbered.filter(|id| !taken(id) && !had(id));
        free.next().unwrap_or_default().into()
    }
}

impl Finder<'_> {
    /// Returns the backend in use that leads to the catalog with this identity; `None` if there is none.
    pub fn backend(&self, identity: &str) -> Option<Arc<Backend>> {
        self.by_identity
            .get(identity)
            .map(|found| Arc::clone(found))
    }

    /// Sets the current name and the identity of the backend in every entry. The backend is found by address, else by
    /// name; not by name if that backend has the address of another entry.
    pub fn name(&self, intent: &mut Intent) {
        let by_address = |catalog: &CatalogRef| {
            let address = catalog.address.as_deref()?;
            self.by_address.get(address).copied()
        };
        let others: Vec<(Arc<str>, &Arc<Backend>)> = intent
            .entries
            .iter()
            .filter_map(|entry| Some((Arc::clone(&entry.backend), by_address(&entry.catalog)?)))
            .collect();
        for entry in &mut intent.entries {
            let by_name = || {
                let found = self.by_name.get(&*entry.backend).copied()?;
                let mut others = others.iter();
                let is_another =
                    others.any(|(name, other)| Arc::ptr_eq(found, other) && *name != entry.backend);
                (!is_another).then_some(found)
            };
            if let Some(found) = by_address(&entry.catalog).or_else(by_name) {
                entry.backend = Arc::clone(found.name());
                entry.catalog.known_as(found.name(), found.catalog());
            } else {
                let address = entry.catalog.address.as_ref();
                let lost = self.identities.lost(&entry.backend, address);
                let name = Arc::clone(&entry.backend);
                entry.catalog.known_as(&name, &lost);
            }
        }
    }
}

#[cfg(test)]
mod tests;
