//! The client certificate and the trusted authorities for TLS to a catalog.

use std::sync::Arc;

use hyper_rustls::ConfigBuilderExt;
use rustls::ClientConfig;
use rustls::client::ResolvesClientCert;
use rustls::sign::SingleCertAndKey;

use crate::config::ClientTls;
use crate::error::BoxError;
use crate::pem;

/// Builds the configuration for `tls` of a backend. Without a `ca`, it trusts the system's authorities. With `http2`,
/// it offers HTTP/2 first.
pub(in crate::backend) fn client_config(
    tls: Option<&ClientTls>,
    http2: bool,
) -> Result<Arc<ClientConfig>, BoxError> {
    let builder = ClientConfig::builder_with_provider(pem::provider())
        .with_safe_default_protocol_versions()?;
    let builder = match tls.and_then(|tls| tls.ca.as_deref()) {
        Some(file) => builder.with_root_certificates(pem::authorities(file)?),
        None => builder.with_native_roots()?,
    };
    let mut config = match tls.and_then(|tls| tls.identity.as_ref()) {
        Some(shown) => {
            let identity = pem::identity(&shown.certificate, &shown.private_key)?;
            let identity: Arc<dyn ResolvesClientCert> = Arc::new(SingleCertAndKey::from(identity));
            builder.with_client_cert_resolver(identity)
        }
        None => builder.with_no_client_auth(),
    };
    let offered: &[&[u8]] = if http2 {
        &[b"h2", b"http/1.1"]
    } else {
        &[b"http/1.1"]
    };
    config.alpn_protocols = offered.iter().map(|name| name.to_vec()).collect();
    Ok(Arc::new(config))
}

#[cfg(test)]
mod tests;
