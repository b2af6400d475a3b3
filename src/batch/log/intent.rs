//! The intent: the plan of a batch, which is in the log before a catalog is asked to change anything.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::backend::Backend;
use crate::protocol::data_scope::DataScope;
use crate::protocol::identifier::Identifier;

/// The plan of a batch. It holds no token, and nothing of the caller but a fingerprint and the context of the request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Intent {
    /// The changes, in request order.
    pub entries: Vec<IntentEntry>,
    /// The fingerprint of caller and `Idempotency-Key`; `None` if the request had no key.
    pub idempotency: Option<String>,
    /// The fingerprint of the entries.
    pub fingerprint: String,
    /// The context of the request, by key: it goes with every request of the batch, also after a restart.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub context: Vec<(String, String)>,
}

/// One change, and the table that it changes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct IntentEntry {
    /// The name of the configured backend.
    pub backend: Arc<str>,
    /// The catalog's own identifier of the table.
    #[serde(with = "names")]
    pub table: Identifier,
    /// The branch; `None` is the main one.
    pub branch: Option<String>,
    /// The change.
    pub action: Action,
    /// True if another writer's create of that version had no answer when the batch began: a version that looks like
    /// the batch's own may be that writer's.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub contested: bool,
    /// The catalog itself, in case the backend is renamed.
    #[serde(default, skip_serializing_if = "CatalogRef::is_unnamed")]
    pub catalog: CatalogRef,
}

/// A catalog, independent of the name of its backend.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CatalogRef {
    /// The address that it had, in the form of [`BackendConfig::addresses`](crate::config::BackendConfig::addresses);
    /// `None` in logs from before addresses were recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<Arc<str>>,
    /// The identity in this process; `None` if that is the backend's name.
    #[serde(skip)]
    pub(super) identity: Option<Arc<str>>,
    /// The part of its data that has the table, if the table's identifier does not tell.
    #[serde(default, skip_serializing_if = "DataScope::is_empty")]
    pub scope: DataScope,
}

/// One change of one table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Action {
    /// Creates a version.
    CreateVersion {
        /// The version. The table's latest version was this minus one, or the batch creates that one before.
        version: u64,
        /// The size of the staged manifest in bytes; `None` if the client did not name it.
        manifest_size: Option<u64>,
        /// The entity tag of the staged manifest; `None` if the client did not name it.
        e_tag: Option<String>,
    },
    /// Declares a table.
    Declare {
        /// The location that the table is to get; `None` if the client did not name one.
        location: Option<String>,
    },
    /// Registers a table that exists in storage.
    Register {
        /// The location of the table.
        location: String,
    },
    /// Removes a table's name, and leaves its storage as it is.
    Deregister,
    /// Deletes versions.
    DeleteVersions {
        /// The versions to delete.
        ranges: Vec<VersionRange>,
    },
}

/// A range of versions of one branch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct VersionRange {
    /// The first version.
    pub start: u64,
    /// The version after the last one.
    pub end: u64,
}

impl IntentEntry {
    /// Returns the identity of the catalog, by which its tables are locked and hidden.
    pub fn identity(&self) -> &Arc<str> {
        self.catalog.identity.as_ref().unwrap_or(&self.backend)
    }
}

impl CatalogRef {
    /// Returns the catalog of a backend.
    pub fn of(backend: &Backend) -> Self {
        let mut catalog = Self {
            address: backend.addresses().first().cloned(),
            identity: None,
            scope: backend.scope().clone(),
        };
        catalog.known_as(backend.name(), backend.catalog());
        catalog
    }

    /// Records the identity of the catalog behind a backend with this name.
    pub(in crate::batch) fn known_as(&mut self, name: &str, identity: &Arc<str>) {
        self.identity = (**identity != *name).then(|| Arc::clone(identity));
    }

    fn is_unnamed(&self) -> bool {
        self.address.is_none() && self.scope.is_empty()
    }
}

mod names {
    //! Writes an identifier as the list of its names, and reads it.

    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    use super::Identifier;

    pub(super) fn serialize<S: Serializer>(id: &Identifier, to: S) -> Result<S::Ok, S::Error> {
        to.collect_seq(id.names())
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Identifier, D::Error> {
        Identifier::from_names(Vec::<String>::deserialize(from)?).map_err(Error::custom)
    }
}
