//! The page `/backends`: each catalog, its addresses and its mounts.

use serde::{Deserialize, Serialize};

use super::AdminState;
use crate::backend::{Backend, EndpointStatus};
use crate::protocol::identifier::Identifier;

/// The page `/backends`.
#[derive(Debug, Serialize, Deserialize)]
pub struct BackendList {
    /// The catalogs, by name.
    pub backends: Vec<CatalogState>,
}

/// One catalog.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct CatalogState {
    /// The backend's name in the configuration.
    pub name: String,
    /// The kind of its connection.
    pub implementation: String,
    /// True if at least one address serves.
    pub up: bool,
    /// The last error; `None` if there was none.
    pub error: Option<String>,
    /// The answer to "does the catalog manage versions?", as far as it is known.
    pub managed_versioning: String,
    /// `set` if the gateway tells it to, otherwise `keep`.
    pub managed_versioning_setting: String,
    /// The addresses of the catalog.
    pub endpoints: Vec<AddressState>,
    /// The mounts that it serves.
    pub mounts: Vec<MountState>,
    /// The number of mounts that are not listed.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub more_mounts: usize,
}

/// One address of a catalog.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct AddressState {
    /// The address without user information.
    pub address: String,
    /// True if it answered its last health check.
    pub up: bool,
    /// The reason why it did not; `None` if it did.
    pub error: Option<String>,
    /// `closed`, `open` or `half-open`.
    pub breaker: String,
    /// The last failure, which opened the breaker; `None` while it is closed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
    /// The number of requests whose answer has not ended.
    pub in_flight: u32,
}

/// One mount of a catalog.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct MountState {
    /// The namespace that clients see.
    pub namespace: Vec<String>,
    /// The namespace in the catalog.
    pub backend_namespace: Vec<String>,
}

impl AddressState {
    /// True if requests are sent to it.
    pub fn serves(&self) -> bool {
        self.up && self.breaker == "closed"
    }
}

/// Makes `/backends`, with at most `most` mounts of each catalog.
pub(super) fn list(shown: &AdminState, most: usize) -> BackendList {
    let world = &shown.current.load().world;
    let mut mounts = vec![(Vec::new(), 0); world.backends.len()];
    for mount in world.routes.mounts() {
        let (listed, more) = &mut mounts[mount.backend];
        if listed.len() == most {
            *more += 1;
            continue;
        }
        listed.push(MountState {
            namespace: names(&mount.namespace),
            backend_namespace: names(&mount.backend_namespace),
        });
    }
    let backends = world.backends.iter().zip(mounts);
    BackendList {
        backends: backends
            .map(|(backend, mounts)| catalog(backend, mounts))
            .collect(),
    }
}

fn catalog(backend: &Backend, (mounts, more_mounts): (Vec<MountState>, usize)) -> CatalogState {
    CatalogState {
        name: backend.name().to_string(),
        implementation: backend.implementation().to_owned(),
        up: backend.is_up(),
        error: backend.last_error(),
        managed_versioning: backend.versioning().word().to_owned(),
        managed_versioning_setting: setting(backend).to_owned(),
        endpoints: backend.endpoints().into_iter().map(address).collect(),
        mounts,
        more_mounts,
    }
}

fn setting(backend: &Backend) -> &'static str {
    if backend.sets_managed_versioning() {
        "set"
    } else {
        "keep"
    }
}

fn address(endpoint: EndpointStatus) -> AddressState {
    AddressState {
        address: endpoint.address,
        up: endpoint.up,
        error: endpoint.error,
        breaker: endpoint.breaker.to_owned(),
        failure: endpoint.failure,
        in_flight: endpoint.in_flight,
    }
}

fn names(identifier: &Identifier) -> Vec<String> {
    identifier.names().map(str::to_owned).collect()
}

fn is_zero(count: &usize) -> bool {
    *count == 0
}
