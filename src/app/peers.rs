//! The other gateways that share the batch log: the address for them, and what must be alike in all.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;

use aws_lc_rs::digest::{Context, SHA256};
use rustls::ServerConfig;
use tokio::task::JoinHandle;

use super::active::ActiveConfig;
use super::build::BuildError;
use super::service_manager::listen;
use super::{Failure, say};
use crate::admin::Admin;
use crate::config::{Config, ServerTls};
use crate::gateway::RoutingSnapshot;
use crate::layer::share::{Entrance, PeerClient};
use crate::server::listener::{Listener, Serving};
use crate::server::refused_peers::RefusedPeers;
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
        let address = backend.addresses().first().cloned()?;
        // What selects tells tables apart, as their names do.
        Some(match &config.backends.get(name)?.selects {
            Some(selects) => format!("{address} {selects:?}").into(),
            None => address,
        })
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

/// The ends of the connections to other gateways, as one configuration has them.
#[derive(Clone)]
pub(super) struct PeerEnds {
    /// The client to them.
    pub(super) client: Arc<PeerClient>,
    /// The TLS settings of the address for them; `None` for plain HTTP.
    tls: Option<Arc<ServerConfig>>,
    refused: Option<Arc<RefusedPeers>>,
}

impl PeerEnds {
    /// Builds the ends; `None` if no gateways share the log. They are taken from `before` if nothing about them has
    /// changed.
    pub(super) fn build(
        config: &Config,
        before: Option<(&Config, Option<&Self>)>,
        same: impl Fn(&Path) -> bool,
    ) -> Result<Option<Self>, BuildError> {
        let of = |config: &Config| config.batch.gateways.as_ref().map(|it| it.tls.clone());
        let shared = config.batch.log.file().is_none();
        let Some(wanted) = of(config).filter(|_| shared) else {
            return Ok(None);
        };
        let unchanged = |(old, _): &(&Config, _)| {
            let files = wanted.iter();
            let mut files = files.flat_map(|tls| [&tls.certificate, &tls.private_key, &tls.ca]);
            of(old).as_ref() == Some(&wanted) && files.all(|file| same(file))
        };
        if let Some((_, Some(ends))) = before.filter(unchanged) {
            return Ok(Some(ends.clone()));
        }
        let problem = |error| BuildError::new("batch.gateways.tls", error);
        let tls = wanted.as_ref().map(|tls| {
            tls::server_config(&ServerTls {
                certificate: tls.certificate.clone(),
                private_key: tls.private_key.clone(),
                client_ca: Some(tls.ca.clone()),
            })
        });
        Ok(Some(Self {
            client: Arc::new(PeerClient::new(wanted.as_ref()).map_err(problem)?),
            tls: tls.transpose().map_err(problem)?,
            refused: wanted.map(|tls| Arc::new(RefusedPeers::new(tls.ca))),
        }))
    }

    /// Returns the settings of the listener for other gateways.
    pub(super) fn serving(ends: Option<&Self>, clients: &Serving) -> Serving {
        Serving {
            tls: ends.and_then(|ends| ends.tls.clone()),
            gauge: None,
            tls_failures: None,
            refused_peers: ends.and_then(|ends| ends.refused.clone()),
            ..clients.clone()
        }
    }
}

/// Serves what other gateways pass on, until `stop` is ready.
pub(super) fn serve(
    listener: Listener,
    in_use: &Arc<ActiveConfig>,
    admin: &Admin,
    stop: impl Future<Output = ()> + Send + 'static,
) -> Result<JoinHandle<usize>, Failure> {
    let address = listener.address();
    let Some(fleet) = in_use.lasting.batches.fleet().cloned() else {
        return Err(Failure::Configuration(
            "batch.gateways: the log is not shared".into(),
        ));
    };
    let serving = in_use.serving_peers();
    if serving.load().tls.is_none() && !address.ip().is_loopback() {
        tracing::warn!(%address, "gateways pass tokens and data to each other without TLS; write `batch.gateways.tls`, or keep others out of their network");
    }
    let format = in_use.snapshot().config.telemetry.log;
    say(format, &format!("nsgate for other gateways on {address}"));
    let entrance = Entrance::new(in_use.stack(), admin.for_gateways(), fleet);
    Ok(tokio::spawn(listener.serve(serving, entrance, stop)))
}
