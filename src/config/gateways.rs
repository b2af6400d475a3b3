//! `batch.gateways`: how gateways that share a batch log reach each other (`address`, `advertise`, `name`, `tls`).

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use super::keys::{Keys, Section};
use super::kind::{address, file, maybe, table, text};

/// `batch.gateways`: the address for the other gateways.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gateways {
    /// The address to listen on; port 0 lets the system choose.
    pub address: SocketAddr,
    /// The address at which other gateways reach this one; `None` for `address`.
    pub advertise: Option<String>,
    /// The name by which operators know this gateway; `None` for the name of its host.
    pub name: Option<String>,
    /// TLS between the gateways; `None` for plain HTTP.
    pub tls: Option<GatewayTls>,
}

/// `batch.gateways.tls`: the certificate that gateways show to each other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GatewayTls {
    /// The certificate chain, leaf first, for servers and clients.
    pub certificate: PathBuf,
    /// The private key of the certificate.
    pub private_key: PathBuf,
    /// The authorities of which one must have signed the certificate of each gateway.
    pub ca: PathBuf,
    /// The name in the certificate of each gateway; `None` for the host of its address.
    pub server_name: Option<String>,
}

impl Section for Gateways {
    fn blank() -> Self {
        Self {
            address: SocketAddr::from((Ipv4Addr::LOCALHOST, 8079)),
            advertise: None,
            name: None,
            tls: None,
        }
    }

    fn keys(&mut self, keys: &mut Keys<'_, '_>) {
        keys.key(
            "address",
            &mut self.address,
            address(),
            "Where the other gateways reach this one, for requests about tables that batches are changing. Not for clients.",
        );
        keys.key(
            "advertise",
            &mut self.advertise,
            maybe(text("host and port, such as ${POD_IP}:8079")),
            "The host and port that the other gateways are told, if they are not those of `address`.",
        );
        keys.key(
            "name",
            &mut self.name,
            maybe(text("a name, such as ${HOSTNAME}")),
            "The name by which operators know this gateway; absent: the name of its host.",
        );
        keys.key(
            "tls",
            &mut self.tls,
            maybe(table()),
            "TLS between the gateways; absent: plain HTTP.",
        );
    }
}

impl Section for GatewayTls {
    fn blank() -> Self {
        Self {
            certificate: PathBuf::new(),
            private_key: PathBuf::new(),
            ca: PathBuf::new(),
            server_name: None,
        }
    }

    fn keys(&mut self, keys: &mut Keys<'_, '_>) {
        let pem = "write the path of a PEM file";
        keys.required(
            "certificate",
            &mut self.certificate,
            file(),
            pem,
            "The certificate chain of this gateway, leaf first, for both directions (PEM).",
        );
        keys.required(
            "private_key",
            &mut self.private_key,
            file(),
            pem,
            "Its private key (PEM).",
        );
        keys.required(
            "ca",
            &mut self.ca,
            file(),
            pem,
            "The authorities of which one has signed the certificate of every gateway (PEM).",
        );
        keys.key(
            "server_name",
            &mut self.server_name,
            maybe(text("a DNS name, such as nsgate.internal")),
            "The name in the certificates of the gateways; absent: the host of each address.",
        );
    }
}
