//! The route table: which backend serves an identifier. Immutable and pure.
//!
//! [`Prefixes`] explains how a mount is found, however many there are.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::error::Error;
use crate::error::code::Code;
use crate::protocol::identifier::Identifier;
use crate::protocol::operation::Kind;
use crate::protocol::prefixes::{PrefixEntry, Prefixes};

/// A prefix of the tree that clients see, and the backend that serves it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mount {
    /// The prefix as clients spell it.
    pub namespace: Identifier,
    /// The backend's index among all backends in order of their names.
    pub backend: usize,
    /// The backend's name.
    pub backend_name: Arc<str>,
    /// The prefix as the catalog spells it.
    pub backend_namespace: Identifier,
}

/// All mounts. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Table(Arc<Prefixes<Arc<Mount>>>);

impl PrefixEntry for Arc<Mount> {
    fn prefix(&self) -> &Identifier {
        &self.namespace
    }
}

impl Mount {
    /// True if clients and the catalog spell identifiers alike, so that no byte needs to change.
    pub fn keeps_path(&self) -> bool {
        self.namespace == self.backend_namespace
    }

    /// True if the catalog's spelling of an identifier below this mount is a valid identifier.
    fn can_spell(&self, id: &Identifier) -> bool {
        self.keeps_path() || id.can_rebase(&self.namespace, &self.backend_namespace)
    }

    /// Returns the catalog's spelling of an identifier that this mount owns.
    pub fn to_catalog(&self, id: &Identifier) -> Identifier {
        debug_assert!(
            id.starts_with(&self.namespace),
            "{id:?} is not below the mount"
        );
        id.rebase(&self.namespace, &self.backend_namespace)
            .unwrap_or_else(|| id.clone())
    }

    /// Returns the clients' spelling of a catalog's identifier; `None` if it is outside of the mount.
    pub fn to_client(&self, id: &Identifier) -> Option<Identifier> {
        id.rebase(&self.backend_namespace, &self.namespace)
    }
}

impl Table {
    /// Returns a table of `mounts`. Of two mounts with the same namespace, which the configuration refuses,
    /// one is lost.
    pub fn new(mounts: Vec<Mount>) -> Self {
        let mounts = mounts.into_iter().map(Arc::new).collect();
        Self(Arc::new(Prefixes::new(mounts)))
    }

    /// Returns the mount with the longest prefix of names of `id`; `None` if no mount matches, or if `id` in
    /// the catalog's spelling would be too long.
    pub fn find(&self, id: &Identifier) -> Option<&Arc<Mount>> {
        self.0.find(id).filter(|mount| mount.can_spell(id))
    }

    /// Does the same as [`Table::find`], or returns the contract's error for an identifier that no mount
    /// serves.
    pub fn owner(&self, id: &Identifier, kind: Kind) -> Result<&Arc<Mount>, Error> {
        self.find(id).ok_or_else(|| match kind {
            Kind::Namespace => Error::new(
                Code::NamespaceNotFound,
                format!("namespace {id} is not served here"),
            ),
            Kind::Table | Kind::MaterializedView => Error::new(
                Code::TableNotFound,
                format!("table {id} is not served here"),
            ),
            Kind::Transaction => Error::new(
                Code::TransactionNotFound,
                format!("transaction {id} is not known here"),
            ),
        })
    }

    /// Returns the mounts strictly below `id`, sorted by namespace.
    pub fn below(&self, id: &Identifier) -> impl Iterator<Item = &Arc<Mount>> {
        self.0.below(id).iter()
    }

    /// Returns the names right below `id` that lead to mounts, sorted.
    pub fn next_names_below(&self, id: &Identifier) -> BTreeSet<&str> {
        self.below(id)
            .filter_map(|mount| mount.namespace.below(id)?.next())
            .collect()
    }

    /// Returns all mounts, sorted by namespace.
    pub fn mounts(&self) -> &[Arc<Mount>] {
        self.0.all()
    }
}

#[cfg(test)]
mod tests;
