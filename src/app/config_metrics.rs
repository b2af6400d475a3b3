//! What the metrics are told of the configuration in use.

use std::path::Path;
use std::time::SystemTime;

use crate::config::{Config, Implementation};
use crate::metrics::Metrics;
use crate::pem;

pub(super) fn tell(metrics: &Metrics, config: &Config) {
    let limits = &config.limits;
    metrics.limits(limits.in_flight, limits.connections);
    metrics.retain_backends(|name| config.backends.contains_key(name));
    let certificates = certificates(config);
    let ends = certificates
        .iter()
        .filter_map(|(of, file)| Some((of.as_str(), end(file)?)));
    metrics.certificates(ends);
}

/// The certificates that the gateway shows: to clients, and to catalogs.
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

/// When the first certificate of a chain ends. It was sound a moment ago; if it is not any more, the reload that
/// follows says so.
fn end(file: &Path) -> Option<SystemTime> {
    pem::end(pem::certificates(file).ok()?.first()?)
}
