//! `listen` and `admin`: the two addresses, and TLS on the first.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use super::Secret;

/// `listen`: the address clients connect to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listen {
    /// Where to listen; port 0 lets the system choose.
    pub address: SocketAddr,
    /// Absent: plain HTTP.
    pub tls: Option<ServerTls>,
    /// Threads that serve; 0: one for each core.
    pub workers: usize,
    /// How long running requests may go on after a stop was asked for.
    pub drain_timeout: Duration,
}

/// `listen.tls`: PEM files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerTls {
    /// The server's certificate chain, leaf first.
    pub certificate: PathBuf,
    /// Its private key.
    pub private_key: PathBuf,
    /// When given, clients must show a certificate signed by one of these authorities.
    pub client_ca: Option<PathBuf>,
}

/// `admin`: the address operators and scrapers connect to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Admin {
    /// Where to listen.
    pub address: SocketAddr,
    /// The bearer token of all routes but `/metrics /live /ready`. Always present when `address` is not loopback.
    pub token: Option<Secret>,
}

impl Default for Listen {
    fn default() -> Self {
        Self {
            address: SocketAddr::from((Ipv4Addr::LOCALHOST, 8080)),
            tls: None,
            workers: 0,
            drain_timeout: Duration::from_secs(30),
        }
    }
}

impl Default for Admin {
    fn default() -> Self {
        Self {
            address: SocketAddr::from((Ipv4Addr::LOCALHOST, 9090)),
            token: None,
        }
    }
}
