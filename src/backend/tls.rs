//! What the gateway shows and trusts when it calls a catalog over TLS.

use std::path::Path;
use std::sync::Arc;

use hyper_rustls::ConfigBuilderExt;
use rustls::client::WantsClientCert;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, ConfigBuilder, RootCertStore, WantsVerifier};

use crate::config::{ClientIdentity, ClientTls};
use crate::error::BoxError;

/// The configuration for `tls` of a backend. Without a `ca`, the system's authorities are trusted.
pub(super) fn client_config(tls: Option<&ClientTls>) -> Result<Arc<ClientConfig>, BoxError> {
    let builder = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()?;
    let builder = match tls.and_then(|tls| tls.ca.as_deref()) {
        Some(file) => trust_only(builder, file)?,
        None => builder.with_native_roots()?,
    };
    let mut config = match tls.and_then(|tls| tls.identity.as_ref()) {
        Some(identity) => show(builder, identity)?,
        None => builder.with_no_client_auth(),
    };
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

fn trust_only(
    builder: ConfigBuilder<ClientConfig, WantsVerifier>,
    file: &Path,
) -> Result<ConfigBuilder<ClientConfig, WantsClientCert>, BoxError> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(file)? {
        roots
            .add(certificate)
            .map_err(|error| in_file(file, &error))?;
    }
    Ok(builder.with_root_certificates(roots))
}

fn show(
    builder: ConfigBuilder<ClientConfig, WantsClientCert>,
    identity: &ClientIdentity,
) -> Result<ClientConfig, BoxError> {
    let chain = certificates(&identity.certificate)?;
    let key = PrivateKeyDer::from_pem_file(&identity.private_key)
        .map_err(|error| in_file(&identity.private_key, &error))?;
    builder
        .with_client_auth_cert(chain, key)
        .map_err(|error| in_file(&identity.certificate, &error))
}

fn certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>, BoxError> {
    let read = CertificateDer::pem_file_iter(file).map_err(|error| in_file(file, &error))?;
    let all = read
        .collect::<Result<Vec<_>, _>>()
        .map_err(|error| in_file(file, &error))?;
    if all.is_empty() {
        return Err(in_file(file, &"no certificate in it"));
    }
    Ok(all)
}

fn in_file(file: &Path, problem: &dyn std::fmt::Display) -> BoxError {
    format!("{}: {problem}", file.display()).into()
}

#[cfg(test)]
mod tests;
