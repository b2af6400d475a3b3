//! Certificates, keys and authorities in PEM files. Errors name the file and the remedy.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use rustls::RootCertStore;
use rustls::crypto::CryptoProvider;
use rustls::crypto::aws_lc_rs::default_provider;
use rustls::pki_types::pem::{self, PemObject as _};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;
use x509_cert::Certificate;
use x509_cert::der::{DateTime, Decode as _};

/// The reason why a file or its contents cannot be used, and what would be right. It never holds a part of a private
/// key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Unusable(String);

/// The validity of a certificate at some time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Validity {
    /// The certificate expired at that time.
    Over(DateTime),
    /// The certificate is not valid before that time.
    Ahead(DateTime),
    /// The certificate is valid for that long, until that time.
    Good(Duration, DateTime),
}

/// Returns the cryptography that all TLS uses.
pub fn provider() -> Arc<CryptoProvider> {
    Arc::new(default_provider())
}

/// Reads the certificates of `file`, at least one.
pub fn certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>, Unusable> {
    let all = CertificateDer::pem_file_iter(file).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    let wrong = match all {
        Ok(all) if !all.is_empty() => return Ok(all),
        Ok(_) => "holds no certificate".to_owned(),
        Err(error) => format!("cannot be read as certificates ({})", words(&error)),
    };
    Err(Unusable(format!(
        "{} {wrong}; write the path of a PEM file with `BEGIN CERTIFICATE` in it",
        file.display()
    )))
}

/// Reads the authorities of `file`, at least one.
pub fn authorities(file: &Path) -> Result<RootCertStore, Unusable> {
    let mut authorities = RootCertStore::empty();
    for certificate in certificates(file)? {
        authorities.add(certificate).map_err(|error| {
            Unusable(format!(
                "{} holds a certificate that cannot vouch for others ({error}); write the authority's own",
                file.display()
            ))
        })?;
    }
    Ok(authorities)
}

/// Reads a certificate chain, leaf first, with the private key of its leaf.
pub fn identity(certificate: &Path, private_key: &Path) -> Result<CertifiedKey, Unusable> {
    let chain = certificates(certificate)?;
    let key = key(private_key)?;
    CertifiedKey::from_der(chain, key, &default_provider()).map_err(|error| {
        let (key, certificate) = (private_key.display(), certificate.display());
        Unusable(match error {
            rustls::Error::InconsistentKeys(_) => format!(
                "{key} is not the key of the first certificate in {certificate}; write the two that were made together, the chain with its leaf first"
            ),
            error => format!("{key} cannot be used with {certificate} ({error}); write an RSA, ECDSA or Ed25519 key and its X.509 certificate"),
        })
    })
}

/// Reads the private key of `file`.
pub fn key(file: &Path) -> Result<PrivateKeyDer<'static>, Unusable> {
    PrivateKeyDer::from_pem_file(file).map_err(|error| {
        // Details of the contents are left out: they could be a part of the key.
        let wrong = match error {
            pem::Error::Io(error) => format!("cannot be read ({error})"),
            pem::Error::NoItemsFound => "holds no private key, or an encrypted one".to_owned(),
            _ => "is not well-formed PEM".to_owned(),
        };
        Unusable(format!(
            "{} {wrong}; write the path of a PEM file with `BEGIN PRIVATE KEY` in it",
            file.display()
        ))
    })
}

/// Returns the validity of `certificate` at `now`; `None` if it is not formed as RFC 5280 requires.
pub fn validity(certificate: &CertificateDer<'_>, now: SystemTime) -> Option<Validity> {
    let certificate = Certificate::from_der(certificate).ok()?;
    let validity = certificate.tbs_certificate().validity();
    let (from, until) = (
        validity.not_before.to_date_time(),
        validity.not_after.to_date_time(),
    );
    Some(if now < from.to_system_time() {
        Validity::Ahead(from)
    } else {
        match until.to_system_time().duration_since(now) {
            Ok(left) => Validity::Good(left, until),
            Err(_) => Validity::Over(until),
        }
    })
}

/// Returns the time at which `certificate` expires; `None` if it is not formed as RFC 5280 requires.
pub fn end(certificate: &CertificateDer<'_>) -> Option<SystemTime> {
    let certificate = Certificate::from_der(certificate).ok()?;
    let validity = certificate.tbs_certificate().validity();
    Some(validity.not_after.to_system_time())
}

/// Returns the subject of `certificate` as RFC 4514 writes it, such as `CN=loader,O=Acme`; empty if it has none,
/// `None` if it is not formed as RFC 5280 requires.
pub fn subject(certificate: &CertificateDer<'_>) -> Option<String> {
    let certificate = Certificate::from_der(certificate).ok()?;
    let mut subject = certificate.tbs_certificate().subject().to_string();
    // By RFC 4514, section 2.4, this means the same as an escaped space, and it survives being sent as a header.
    if subject.ends_with("\\ ") {
        subject.pop();
        subject.push_str("20");
    }
    Some(subject)
}

fn words(error: &pem::Error) -> String {
    match error {
        pem::Error::Io(error) => error.to_string(),
        error => error.to_string(),
    }
}

#[cfg(test)]
mod tests;
