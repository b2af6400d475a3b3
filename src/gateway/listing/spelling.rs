//! The names of catalogs as clients must spell them, without those that they may not see.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;

use super::page::{Segment, Spelling};
use super::read_catalog::ListingError;
use super::{Request, merge};
use crate::auth::access::Rights;
use crate::batch::TableKey;
use crate::error::Error;
use crate::protocol::data_scope::DataScope;
use crate::protocol::identifier::Identifier;
use crate::protocol::operation::Operation;
use crate::protocol::rename::is_unfinished;
use crate::route::{Mount, Table};

/// Returns the tables that batches hide; `None` if names have changed.
type Hidden<'a> = &'a (dyn Fn() -> Option<HashSet<TableKey>> + Sync);

/// One level of the tree.
pub(super) struct Level<'a> {
    pub(super) routes: &'a Table,
    pub(super) request: &'a Request<'a>,
    /// The names of the level that lead to mounts. They are not shown once more.
    pub(super) leading: BTreeSet<&'a str>,
    pub(super) hidden: Hidden<'a>,
}

/// The tables of all catalogs.
pub(super) struct Tree<'a> {
    pub(super) routes: &'a Table,
    pub(super) request: &'a Request<'a>,
    /// The mounts of each backend that concern the caller.
    pub(super) mounts: &'a BTreeMap<usize, Vec<&'a Mount>>,
    pub(super) delimiter: &'a str,
    /// Returns the identity of a mount's catalog.
    pub(super) identity: &'a (dyn Fn(&'a Mount) -> (&'a Arc<str>, DataScope) + Sync),
    pub(super) hidden: Hidden<'a>,
}

impl Level<'_> {
    /// Returns the shown namespaces of `listed`.
    fn shown(&self, mut listed: Vec<String>) -> Vec<String> {
        listed.retain(|name| !self.leading.contains(&**name));
        self.request.retain(listed, Rights::show)
    }
}

impl Spelling for Level<'_> {
    fn hidden(&self) -> Option<HashSet<TableKey>> {
        (self.hidden)()
    }

    fn spell(
        &self,
        _: &Segment<'_>,
        hidden: &HashSet<TableKey>,
        mut listed: Vec<String>,
    ) -> Result<Vec<String>, ListingError> {
        if self.request.operation != Operation::ListTables {
            return Ok(self.shown(listed));
        }
        if !hidden.is_empty() {
            let hidden: HashSet<_> = hidden.iter().filter_map(|key| key.table.last()).collect();
            listed.retain(|name| !hidden.contains(&**name));
        }
        listed.retain(|name| !is_unfinished(name));
        let tables = merge::tables(self.routes, self.request.id, listed);
        Ok(self.request.retain(tables, Rights::read))
    }
}

impl Spelling for Tree<'_> {
    fn hidden(&self) -> Option<HashSet<TableKey>> {
        (self.hidden)()
    }

    fn spell(
        &self,
        segment: &Segment<'_>,
        hidden: &HashSet<TableKey>,
        listed: Vec<String>,
    ) -> Result<Vec<String>, ListingError> {
        let mounts = &self.mounts[&segment.mount.backend];
        let (backend, scope) = (self.identity)(mounts[0]);
        let rights = self.request.rights.as_ref();
        let is_shown = |here: &Identifier| rights.is_none_or(|rights| rights.read(here));
        let is_hidden = |there: &Identifier| {
            let hides = |table| {
                let (backend, scope) = (Arc::clone(backend), scope.clone());
                hidden.contains(&TableKey {
                    backend,
                    scope,
                    table,
                })
            };
            there.last().is_some_and(is_unfinished) || (!hidden.is_empty() && hides(there.clone()))
        };
        let delimiter = self.delimiter;
        let spelled =
            merge::all_tables(self.routes, mounts, &listed, delimiter, is_hidden, is_shown);
        Ok(spelled.map_err(Error::from)?)
    }
}
