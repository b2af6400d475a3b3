//! The other gateways that share the batch log: the address for them, and what must be alike in all.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::sync::Arc;

use arc_swap::ArcSwap;
use aws_lc_rs::digest::{Context, SHA256};
use tokio::task::JoinHandle;

use super::active::ActiveConfig;
use super::service_manager::listen;
use super::{Failure, say};
use crate::admin::Admin;
use crate::config::{Config, ServerTls};
use crate::gateway::RoutingSnapshot;
use crate::layer::share::Entrance;
use crate::server::listener::{Listener, Serving};
use crate::server::tls;

/// Binds the address for other gateways; `None` if none share the log.
pub(super) async fn bind(config: &Config) -> Result<Option<Listener>, Failure> {
    let shared = config.batch.log.file().is_none();
    match config.batch.gateways.as_ref().filter(|_| shared) {
        Some(gateways) => listen("batch.gateways.address", gateways.address, None)
            .await
            .map(Some),
        None => Ok(None),
    }
}

/// Returns a digest of where each namespace is mounted from: the address of the catalog, and the namespace there.
pub(super) fn routes_digest(config: &Config, world: &RoutingSnapshot) -> String {
    let address = |name: &str| {
        let mut backends = world.backends.iter();
        let backend = backends.find(|backend| **backend.name() == *name)?;
        backend.addresses().first().cloned()
    };
    let addresses: HashMap<&str, Option<Arc<str>>> = config
        .backends
        .keys()
        .map(|name| (name.as_str(), address(name)))
        .collect();
    let mut mounts: Vec<_> = config
        .mounts
        .iter()
        .map(|mount| {
            let address = addresses.get(&*mount.backend).cloned().flatten();
            (&mount.namespace, address, &mount.backend_namespace)
        })
        .collect();
    mounts.sort();
    let mut digest = Context::new(&SHA256);
    for mount in mounts {
        // With lengths and quotes, so that different mounts never read alike.
        digest.update(format!("{mount:?}\n").as_bytes());
    }
    let whole = digest.finish();
    let mut text = String::new();
    for byte in &whole.as_ref()[..16] {
        // Writing to a String cannot fail.
        let _ = write!(text, "{byte:02x}");
    }
    text
}

/// Serves what other gateways pass on, until `stop` is ready.
pub(super) fn serve(
    listener: Listener,
    in_use: &Arc<ActiveConfig>,
    admin: &Admin,
    stop: impl Future<Output = ()> + Send + 'static,
) -> Result<JoinHandle<usize>, Failure> {
    let snapshot = in_use.snapshot();
    let gateways = snapshot.config.batch.gateways.as_ref();
    let tls = gateways.and_then(|gateways| gateways.tls.as_ref());
    let tls = tls.map(|tls| {
        tls::server_config(&ServerTls {
            certificate: tls.certificate.clone(),
            private_key: tls.private_key.clone(),
            client_ca: Some(tls.ca.clone()),
        })
    });
    let tls = tls.transpose();
    let tls =
        tls.map_err(|error| Failure::Configuration(format!("batch.gateways.tls: {error}")))?;
    let is_plain = tls.is_none();
    let serving = Serving {
        tls,
        gauge: None,
        tls_failures: None,
        ..snapshot.serving.clone()
    };
    let address = listener.address();
    let Some(fleet) = in_use.lasting.batches.fleet().cloned() else {
        return Err(Failure::Configuration(
            "batch.gateways: the log is not shared".into(),
        ));
    };
    if is_plain && !address.ip().is_loopback() {
        tracing::warn!(%address, "gateways pass tokens and data to each other without TLS; write `batch.gateways.tls`, or keep others out of their network");
    }
    let format = in_use.snapshot().config.telemetry.log;
    say(format, &format!("nsgate for other gateways on {address}"));
    let entrance = Entrance::new(in_use.stack(), admin.for_gateways(), fleet);
    let serving = Arc::new(ArcSwap::from_pointee(serving));
    Ok(tokio::spawn(listener.serve(serving, entrance, stop)))
}
