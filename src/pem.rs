//! Certificates, keys and authorities in PEM files. Errors name the file and the remedy.

mod sections;

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use rustls::RootCertStore;
use rustls::crypto::CryptoProvider;
use rustls::crypto::aws_lc_rs::default_provider;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;
use x509_cert::Certificate;
use x509_cert::der::{DateTime, Decode as _};

const CERTIFICATE: &str = "BEGIN CERTIFICATE";
const KEY: &str = "BEGIN PRIVATE KEY";

/// The reason why a file or its contents cannot be used, and what would be right. It never holds a part of the file: a
/// key may be where a certificate belongs.
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

/// Reads the certificates of `file`, at least one. A private key beside them is left to [`key`].
pub fn certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>, Unusable> {
    let sections = sections::read(file).map_err(|wrong| unusable(file, &wrong, CERTIFICATE))?;
    let all: Vec<_> = sections
        .into_iter()
        .filter_map(|(kind, der)| CertificateDer::from_pem(kind, der))
        .collect();
    if all.is_empty() {
        return Err(unusable(file, "holds no certificate", CERTIFICATE));
    }
    Ok(all)
}

/// Reads the authorities of `file`, at least one.
pub fn authorities(file: &Path) -> Result<RootCertStore, Unusable> {
    let mut authorities = RootCertStore::empty();
    for certificate in certificates(file)? {
        authorities.add(certificate).map_err(|_| {
            Unusable(format!(
                "{} holds a certificate that cannot vouch for others; write the authority's own",
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
            _ => format!("{key} cannot be used with {certificate}; write an RSA, ECDSA or Ed25519 key and its X.509 certificate"),
        })
    })
}

/// Reads the private key of `file`. Certificates beside it are left to [`certificates`].
pub fn key(file: &Path) -> Result<PrivateKeyDer<'static>, Unusable> {
    let sections = sections::read(file).map_err(|wrong| unusable(file, &wrong, KEY))?;
    let mut keys = sections
        .into_iter()
        .filter_map(|(kind, der)| PrivateKeyDer::from_pem(kind, der));
    let key = keys
        .next()
        .ok_or_else(|| unusable(file, "holds no private key", KEY))?;
    match keys.count() {
        0 => Ok(key),
        _ => Err(unusable(
            file,
            "holds several private keys, of which one would be used; keep that one",
            KEY,
        )),
    }
}

fn unusable(file: &Path, wrong: &str, section: &str) -> Unusable {
    let file = file.display();
    Unusable(if wrong.contains("; ") {
        format!("{file} {wrong}")
    } else {
        format!("{file} {wrong}; write the path of a PEM file with `{section}` in it")
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

#[cfg(test)]
mod tests;
