//! TLS to the servers of `batch.log`, with the files of `batch.log_tls` as they are when a connection is made.

use std::fs;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use rustls::ClientConfig;
use rustls_native_certs::load_native_certs;
use tokio_postgres_rustls::MakeRustlsConnect;

use crate::config::ClientTls;
use crate::error::BoxError;
use crate::error::cause::{chain, joined};
use crate::pem;

/// The TLS of new connections.
pub(super) struct LogTls {
    files: ClientTls,
    loaded: Mutex<Loaded>,
}

/// The files that were read last.
struct Loaded {
    connect: MakeRustlsConnect,
    /// Their times and lengths; `None` for a file that could not be read.
    seen: Vec<Option<(SystemTime, u64)>>,
}

impl LogTls {
    /// Reads the files.
    ///
    /// # Errors
    /// One of them cannot be used.
    pub(super) fn read(files: &ClientTls) -> Result<Self, BoxError> {
        let seen = look_at(files);
        let connect = MakeRustlsConnect::new(client_config(files)?);
        Ok(Self {
            files: files.clone(),
            loaded: Mutex::new(Loaded { connect, seen }),
        })
    }

    /// Returns the TLS of a new connection. Reads the files again if they have changed; while they cannot be used, the
    /// former ones stay in use.
    pub(super) fn current(&self) -> MakeRustlsConnect {
        let mut loaded = self.loaded.lock().unwrap_or_else(PoisonError::into_inner);
        let seen = look_at(&self.files);
        if seen != loaded.seen {
            loaded.seen = seen;
            match client_config(&self.files) {
                Ok(config) => loaded.connect = MakeRustlsConnect::new(config),
                Err(error) => tracing::warn!(
                    cause = joined(chain(&*error)),
                    "the files of `batch.log_tls` have changed and cannot be used; the former ones stay in use until they are repaired or the gateway is restarted"
                ),
            }
        }
        loaded.connect.clone()
    }
}

fn look_at(files: &ClientTls) -> Vec<Option<(SystemTime, u64)>> {
    let shown = files.identity.iter();
    let shown = shown.flat_map(|shown| [&shown.certificate, &shown.private_key]);
    let look = |path: &Path| {
        let found = fs::metadata(path).ok()?;
        Some((found.modified().ok()?, found.len()))
    };
    files
        .ca
        .iter()
        .chain(shown)
        .map(|path| look(path))
        .collect()
}

/// Builds the configuration of TLS, which verifies the name of the server.
fn client_config(tls: &ClientTls) -> Result<ClientConfig, BoxError> {
    let builder = ClientConfig::builder_with_provider(pem::provider())
        .with_safe_default_protocol_versions()?;
    let builder = match &tls.ca {
        Some(file) => builder.with_root_certificates(pem::authorities(file)?),
        None => {
            let mut roots = rustls::RootCertStore::empty();
            roots.add_parsable_certificates(load_native_certs().certs);
            builder.with_root_certificates(roots)
        }
    };
    Ok(match &tls.identity {
        Some(shown) => {
            let identity = pem::identity(&shown.certificate, &shown.private_key)?;
            let resolver = rustls::sign::SingleCertAndKey::from(identity);
            builder.with_client_cert_resolver(Arc::new(resolver))
        }
        None => builder.with_no_client_auth(),
    })
}
