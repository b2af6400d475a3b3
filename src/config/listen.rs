//! `listen` and `admin`: the two addresses, their TLS, `workers`, `drain_timeout`, `health_path`, and the tokens of
//! operators; with the defaults of these keys.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use super::Secret;
use super::keys::{Keys, Section};
use super::kind::{address, bearer, duration, file, health_path, maybe, table, whole};

/// `listen`: the address that clients connect to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listen {
    /// The address to listen on; port 0 lets the system choose.
    pub address: SocketAddr,
    /// The TLS settings; `None` for plain HTTP.
    pub tls: Option<ServerTls>,
    /// The number of threads that serve; 0 for one for each core.
    pub workers: usize,
    /// The time that running requests have after the stop.
    pub drain_timeout: Duration,
    /// The path that tells load balancers without a token whether the gateway is ready; `None` for none.
    pub health_path: Option<String>,
}

/// `listen.tls` and `admin.tls`: PEM files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerTls {
    /// The server's certificate chain, leaf first.
    pub certificate: PathBuf,
    /// The server's private key.
    pub private_key: PathBuf,
    /// The authorities of which one must have signed each client's certificate; `None` if clients need no
    /// certificate.
    pub client_ca: Option<PathBuf>,
}

/// `admin`: the address that operators and scrapers connect to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Admin {
    /// The address to listen on.
    pub address: SocketAddr,
    /// The bearer token of all routes but `/metrics /live /ready`. Always present if `address` is not loopback.
    pub token: Option<Secret>,
    /// The token with which everything can be read and nothing changed; only beside `token`.
    pub read_token: Option<Secret>,
    /// The TLS settings; `None` for plain HTTP.
    pub tls: Option<ServerTls>,
}

impl Default for Listen {
    fn default() -> Self {
        Self {
            address: SocketAddr::from((Ipv4Addr::LOCALHOST, 8080)),
            tls: None,
            workers: 0,
            drain_timeout: Duration::from_secs(30),
            health_path: None,
        }
    }
}

impl Default for Admin {
    fn default() -> Self {
        Self {
            address: SocketAddr::from((Ipv4Addr::LOCALHOST, 9090)),
            token: None,
            read_token: None,
            tls: None,
        }
    }
}

impl Section for Listen {
    fn blank() -> Self {
        Self::default()
    }

    fn keys(&mut self, keys: &mut Keys<'_, '_>) {
        let stop = duration(Duration::ZERO, Duration::from_secs(3600));
        keys.key(
            "address",
            &mut self.address,
            address(),
            "Where clients connect; port 0 lets the system choose.",
        );
        keys.key(
            "tls",
            &mut self.tls,
            maybe(table()),
            "TLS towards clients; absent: plain HTTP.",
        );
        keys.key(
            "workers",
            &mut self.workers,
            whole(0, 1024),
            "Threads that serve; 0: one for each core.",
        );
        keys.key(
            "drain_timeout",
            &mut self.drain_timeout,
            stop,
            "How long running requests may continue after a shutdown begins.",
        );
        keys.key(
            "health_path",
            &mut self.health_path,
            maybe(health_path()),
            "A path for load balancers: 200 if the gateway is ready, else 503, without a token. Not below /v1/.",
        );
    }
}

impl Section for ServerTls {
    fn blank() -> Self {
        Self {
            certificate: PathBuf::new(),
            private_key: PathBuf::new(),
            client_ca: None,
        }
    }

    fn keys(&mut self, keys: &mut Keys<'_, '_>) {
        let pem = "write the path of a PEM file";
        keys.required(
            "certificate",
            &mut self.certificate,
            file(),
            pem,
            "The server's certificate chain, leaf first (PEM).",
        );
        keys.required(
            "private_key",
            &mut self.private_key,
            file(),
            pem,
            "Its private key (PEM).",
        );
        keys.key(
            "client_ca",
            &mut self.client_ca,
            maybe(file()),
            "Clients must show a certificate signed by one of these authorities (PEM).",
        );
    }
}

impl Section for Admin {
    fn blank() -> Self {
        Self::default()
    }

    fn keys(&mut self, keys: &mut Keys<'_, '_>) {
        keys.key(
            "address",
            &mut self.address,
            address(),
            "Where operators and scrapers connect; not on loopback it needs a token.",
        );
        keys.key(
            "token",
            &mut self.token,
            maybe(bearer()),
            "Bearer token of all admin routes but / /metrics /live /ready /alerts/NAME.",
        );
        keys.key(
            "read_token",
            &mut self.read_token,
            maybe(bearer()),
            "A second token, which may read all pages and change nothing; beside `token`.",
        );
        keys.key(
            "tls",
            &mut self.tls,
            maybe(table()),
            "TLS on the admin address; absent: plain HTTP.",
        );
    }
}
