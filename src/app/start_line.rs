//! The log's first line: what the gateway starts with.

use std::path::Path;

use super::config_metrics::certificate_ends;
use crate::build;
use crate::config::Config;
use crate::telemetry::rfc3339;

/// The most names of one kind in the line.
const MOST_NAMES: usize = 10;

/// Logs version and build, configuration file, catalogs, mounts, issuers, the ends of certificates, batch log and features.
pub(super) fn log(path: &Path, config: &Config) {
    let issuers = config.auth.issuers.iter();
    let certificates = certificate_ends(config).into_iter();
    tracing::info!(
        version = build::VERSION,
        revision = build::REVISION,
        features = build::FEATURES,
        compiler = build::RUSTC,
        configuration = %path.display(),
        backends = counted(config.backends.keys().cloned()),
        mounts = counted(config.mounts.iter().map(|mount| mount.namespace.join("$"))),
        issuers = counted(issuers.map(|issuer| issuer.issuer.to_string())),
        certificates = counted(certificates.map(|(of, end)| format!("{of} until {}", rfc3339(end)))),
        batch_log = %config.batch.log,
        "starting"
    );
}

/// Returns the number of names and the first of them, such as `2: east, west`.
fn counted(names: impl ExactSizeIterator<Item = String>) -> String {
    let count = names.len();
    if count == 0 {
        return "0".to_owned();
    }
    let shown: Vec<_> = names.take(MOST_NAMES).collect();
    let more = if count > MOST_NAMES { ", …" } else { "" };
    format!("{count}: {}{more}", shown.join(", "))
}
