//! The key of a table for locks and hidden versions.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use crate::backend::Backend;
use crate::protocol::data_scope::DataScope;
use crate::protocol::identifier::Identifier;
use crate::protocol::query::DEFAULT_DELIMITER;

/// The hasher of maps by table. It has random seeds, and takes a fifth of the time of SipHash: with batches on other
/// tables, a plain describe looks into two such maps and costs 4.0 % more instead of 6.2 % (`instructions` of the
/// benchmark of batches).
pub type TableHasher = foldhash::quality::RandomState;

/// A table, as its catalog knows it: two mounts of one table share the key. Names that are equal once they are joined
/// by `$` share it, too, because some catalogs store them that way.
#[derive(Clone, Debug)]
pub struct TableKey {
    /// The identity of the catalog ([`Backend::catalog`](crate::backend::Backend::catalog)): usually the backend's
    /// name.
    pub backend: Arc<str>,
    /// The part of the catalog's data that has the table, if its identifier does not tell.
    pub scope: DataScope,
    /// The catalog's own identifier.
    pub table: Identifier,
}

impl TableKey {
    /// Returns the key of a table of this backend, which is given in the catalog's spelling.
    pub fn at(backend: &Backend, table: Identifier) -> Self {
        Self {
            backend: Arc::clone(backend.catalog()),
            scope: backend.scope().clone(),
            table,
        }
    }

    /// Returns the key of the table of this name that nothing but its path selects.
    pub fn without_scope(&self) -> Self {
        Self {
            scope: DataScope::default(),
            ..self.clone()
        }
    }

    /// Returns the parts that are compared and hashed.
    fn known_by(&self) -> (&str, &DataScope, Cow<'_, str>) {
        let table = self.table.split(DEFAULT_DELIMITER);
        (&self.backend, &self.scope, table)
    }

    /// True if both have one name in one catalog, whatever part of its data they are in.
    pub fn is_namesake(&self, other: &Self) -> bool {
        let ((backend, _, table), (of, _, name)) = (self.known_by(), other.known_by());
        backend == of && table == name
    }

    /// True if the table is in a namespace, or in one below it.
    pub fn is_below(&self, namespace: &Self) -> bool {
        let (backend, scope, table) = self.known_by();
        let (of, in_scope, above) = namespace.known_by();
        let is_in = || {
            table
                .strip_prefix(&*above)
                .is_some_and(|rest| rest.starts_with('\0'))
        };
        backend == of && scope == in_scope && (namespace.table.is_root() || is_in())
    }
}

impl PartialEq for TableKey {
    fn eq(&self, other: &Self) -> bool {
        self.known_by() == other.known_by()
    }
}

impl Eq for TableKey {}

impl Hash for TableKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.known_by().hash(state);
    }
}

impl PartialOrd for TableKey {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for TableKey {
    fn cmp(&self, other: &Self) -> Ordering {
        self.known_by().cmp(&other.known_by())
    }
}
