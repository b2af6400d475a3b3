//! Sets the metrics that depend on the active configuration.

use std::path::Path;
use std::time::SystemTime;

use crate::config::Config;
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
    let files = config.certificates();
    files
        .filter_map(|(of, file)| Some((of, end(file)?)))
        .collect()
}

/// Returns the time at which the first certificate of a chain expires; `None` if the file has become invalid a
/// moment ago, which the next reload reports.
fn end(file: &Path) -> Option<SystemTime> {
    pem::end(pem::certificates(file).ok()?.first()?)
}
