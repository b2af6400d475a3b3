//! The address for the other gateways that share the batch log.

use std::sync::Arc;

use arc_swap::ArcSwap;
use tokio::task::JoinHandle;

use super::active::ActiveConfig;
use super::{Failure, say};
use crate::admin::Admin;
use crate::config::{Config, ServerTls};
use crate::layer::share::Entrance;
use crate::server::listener::{Listener, Serving};
use crate::server::tls;

/// Binds the address for other gateways; `None` if none share the log.
pub(super) async fn bind(config: &Config) -> Result<Option<Listener>, Failure> {
    let shared = config.batch.log.file().is_none();
    match config.batch.gateways.as_ref().filter(|_| shared) {
        Some(gateways) => super::bind("batch.gateways.address", gateways.address)
            .await
            .map(Some),
        None => Ok(None),
    }
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
    say(&format!("nsgate for other gateways on {address}"));
    let entrance = Entrance::new(in_use.stack(), admin.for_gateways(), fleet);
    let serving = Arc::new(ArcSwap::from_pointee(serving));
    Ok(tokio::spawn(listener.serve(serving, entrance, stop)))
}
