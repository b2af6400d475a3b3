//! Sets the metrics that depend on the active configuration.

use std::path::Path;
use std::time::SystemTime;

use crate::config::{Config, Implementation};
use crate::metrics::Metrics;
use crate::pem;

pub(super) fn tell(metrics: &Metrics, config: &Config) {
    let limits = &config.limits;
    metrics.limits(limits.in_flight, limits.connections);
    metrics.retain_backends(|name| config.backends.contains_key(name));
    let ends = certificate_ends(config);
    metrics.certificates(ends.iter().map(|(of, end)| (of.as_str(), *end)));
}

/// Returns the times at which the certificates expire that the gateway presents.
pub(super) fn certificate_ends(config: &Config) -> Vec<(String, SystemTime)> {
    let files = certificates(config).into_iter();
    files
        .filter_map(|(of, file)| Some((of, end(file)?)))
        .collect()
}

/// Returns the certificates that the gateway presents: to clients, operators and catalogs.
fn certificates(config: &Config) -> Vec<(String, &Path)> {
    let own = config.listen.tls.as_ref();
    let own = own.map(|tls| ("listen".to_owned(), &*tls.certificate));
    let backends = config.backends.iter().filter_map(|(name, backend)| {
        let Implementation::Rest(rest) = &backend.implementation else {
            return None;
        };
        let identity = rest.tls.as_ref()?.identity.as_ref()?;
        Some((format!("backends.{name}"), &*identity.certificate))
    });
    let admin = config.admin.tls.as_ref();
    let admin = admin.map(|tls| ("admin".to_owned(), &*tls.certificate));
    own.into_iter().chain(admin).chain(backends).collect()
}

/// Returns the time at which the first certificate of a chain expires; `None` if the file has become invalid a
/// moment ago, which the next reload reports.
fn end(file: &Path) -> Option<SystemTime> {
    pem::end(pem::certificates(file).ok()?.first()?)
}
