//! What the gateway shows and trusts when it calls a catalog over TLS.

use std::sync::Arc;

use hyper_rustls::ConfigBuilderExt;
use rustls::client::ResolvesClientCert;
use rustls::sign::SingleCertAndKey;
use rustls::{AlertDescription, CertificateError, ClientConfig, Error, InvalidMessage};

use crate::config::ClientTls;
use crate::error::BoxError;
use crate::pem;

/// The configuration for `tls` of a backend. Without a `ca`, the system's authorities are trusted.
pub(super) fn client_config(tls: Option<&ClientTls>) -> Result<Arc<ClientConfig>, BoxError> {
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
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

/// What is behind `error` where that is TLS, in words that say what to change.
pub(super) fn explain(error: &(dyn std::error::Error + 'static)) -> Option<String> {
    use CertificateError as Bad;
    let tls = tls_error(error)?;
    let words = match tls {
        Error::InvalidCertificate(Bad::UnknownIssuer | Bad::BadSignature) => {
            "its certificate is signed by no authority that is trusted; name its authority in `tls.ca`"
        }
        Error::InvalidCertificate(Bad::Expired | Bad::ExpiredContext { .. }) => {
            "its certificate has expired"
        }
        Error::InvalidCertificate(Bad::NotValidForName | Bad::NotValidForNameContext { .. }) => {
            "its certificate is for other names than the one in its address"
        }
        Error::AlertReceived(AlertDescription::CertificateRequired) => {
            "it asks for a client certificate; name one in `tls.certificate` and `tls.private_key`"
        }
        Error::AlertReceived(alert) if is_about_certificates(*alert) => {
            "it does not accept the client certificate of `tls.certificate`"
        }
        Error::InvalidMessage(InvalidMessage::InvalidContentType) => "it does not speak TLS",
        _ => return None,
    };
    Some(format!("{words} ({tls})"))
}

/// RFC 8446, section 6.2.
fn is_about_certificates(alert: AlertDescription) -> bool {
    use AlertDescription as Alert;
    matches!(
        alert,
        Alert::BadCertificate
            | Alert::UnsupportedCertificate
            | Alert::CertificateRevoked
            | Alert::CertificateExpired
            | Alert::CertificateUnknown
            | Alert::UnknownCA
            | Alert::AccessDenied
    )
}

fn tls_error<'a>(error: &'a (dyn std::error::Error + 'static)) -> Option<&'a Error> {
    if let Some(error) = error.downcast_ref() {
        return Some(error);
    }
    // The source of such an error is what is behind the one inside of it.
    match error.downcast_ref::<std::io::Error>() {
        Some(error) => tls_error(error.get_ref()?),
        None => tls_error(error.source()?),
    }
}

#[cfg(test)]
mod tests;
