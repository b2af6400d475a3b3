//! The contents of the pages `/ready` and `/backends`.

use http::StatusCode;
use serde_json::{Value, json};

use super::{AdminState, Page, reload};
use crate::backend::{Backend, EndpointStatus};
use crate::protocol::identifier::Identifier;

pub(super) fn ready(shown: &AdminState) -> Page {
    let missing = shown.readiness.missing(&shown.current.load().keys);
    let status = if missing.is_empty() {
        StatusCode::OK
    } else {
        StatusCode::SERVICE_UNAVAILABLE
    };
    let mut page = json!({ "ready": missing.is_empty(), "missing": missing });
    // A file with errors is not in use: it is no reason to stop serving with the active
    // configuration.
    if let Some(last) = shown.reloads.last() {
        page["last_reload"] = reload::summary(&last);
    }
    Page::json(status, &page)
}

pub(super) fn backends(shown: &AdminState) -> Value {
    let world = &shown.current.load().world;
    let mut mounts = vec![Vec::new(); world.backends.len()];
    for mount in world.routes.mounts() {
        mounts[mount.backend].push(json!({
            "namespace": names(&mount.namespace),
            "backend_namespace": names(&mount.backend_namespace),
        }));
    }
    let backends = world.backends.iter().zip(mounts).map(|(backend, mounts)| {
        json!({
            "name": &**backend.name(),
            "implementation": backend.implementation(),
            "up": backend.is_up(),
            "error": backend.last_error(),
            "managed_versioning": backend.versioning().word(),
            "managed_versioning_setting": setting(backend),
            "endpoints": backend.endpoints().iter().map(endpoint).collect::<Vec<_>>(),
            "mounts": mounts,
        })
    });
    json!({ "backends": backends.collect::<Vec<_>>() })
}

fn setting(backend: &Backend) -> &'static str {
    if backend.sets_managed_versioning() {
        "set"
    } else {
        "keep"
    }
}

fn endpoint(standing: &EndpointStatus) -> Value {
    json!({
        "address": standing.address,
        "up": standing.up,
        "error": standing.error,
        "breaker": standing.breaker,
        "in_flight": standing.in_flight,
    })
}

fn names(identifier: &Identifier) -> Vec<&str> {
    identifier.names().collect()
}
