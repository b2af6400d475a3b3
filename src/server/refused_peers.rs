//! Reports gateways that were refused at the address for other gateways. A person must act, and needs no line for each try.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// The shortest time between two lines.
const PAUSE: Duration = Duration::from_secs(60);

/// The refused TLS handshakes of other gateways.
pub struct RefusedPeers {
    /// The file with the authorities of their certificates.
    ca: PathBuf,
    reported: Mutex<Option<Instant>>,
}

impl RefusedPeers {
    /// Creates the report of a listener that accepts certificates of the authorities in `ca`.
    pub fn new(ca: PathBuf) -> Self {
        Self {
            ca,
            reported: Mutex::default(),
        }
    }

    /// Reports a handshake that failed, unless one was reported a moment ago.
    pub(super) fn report(&self, client: SocketAddr, cause: &str) {
        {
            let mut reported = self.reported.lock().unwrap_or_else(PoisonError::into_inner);
            if reported.is_some_and(|last| last.elapsed() < PAUSE) {
                return;
            }
            *reported = Some(Instant::now());
        }
        tracing::warn!(
            %client, cause, ca = %self.ca.display(),
            "a connection to `batch.gateways.address` was refused. If it is a gateway: give it a valid certificate of an authority in the file `ca`, and name it in its `batch.gateways.tls`"
        );
    }
}
