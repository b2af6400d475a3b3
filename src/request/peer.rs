//! The client's address, in the form in which catalogs get it.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use http::HeaderValue;

use crate::protocol::principal::Principal;

/// The client at the other end of a connection. Made once for each connection; cheap to clone.
#[derive(Clone, Debug)]
pub struct Peer(Arc<PeerInfo>);

#[derive(Clone, Debug)]
struct PeerInfo {
    address: SocketAddr,
    forwarded_for: HeaderValue,
    forwarded: HeaderValue,
    certified: Option<Principal>,
    is_secure: bool,
}

impl Peer {
    /// Creates the peer at `address`; `secure` is true if it came over TLS.
    pub fn new(address: SocketAddr, secure: bool) -> Self {
        let proto = if secure { "https" } else { "http" };
        let (plain, node) = match address.ip().to_canonical() {
            IpAddr::V4(ip) => (ip.to_string(), ip.to_string()),
            // RFC 7239, section 6: an IPv6 node is quoted and in brackets.
            IpAddr::V6(ip) => (ip.to_string(), format!("\"[{ip}]\"")),
        };
        let value = |text: String| {
            HeaderValue::try_from(text).expect("addresses are written in visible ASCII")
        };
        Self(Arc::new(PeerInfo {
            address,
            forwarded_for: value(plain),
            forwarded: value(format!("for={node};proto={proto}")),
            certified: None,
            is_secure: secure,
        }))
    }

    /// Adds a client certificate of this subject that was verified.
    #[must_use]
    pub fn certified(mut self, subject: &str) -> Self {
        Arc::make_mut(&mut self.0).certified = Some(Principal::certified(subject));
        self
    }

    /// The principal that its certificate alone proves; `None` if it has none.
    pub fn holder(&self) -> Option<&Principal> {
        self.0.certified.as_ref()
    }

    /// True if the connection uses TLS.
    pub fn is_secure(&self) -> bool {
        self.0.is_secure
    }

    /// The client's address.
    pub fn address(&self) -> SocketAddr {
        self.0.address
    }

    /// The value of `x-forwarded-for`.
    pub fn forwarded_for(&self) -> &HeaderValue {
        &self.0.forwarded_for
    }

    /// The value of `forwarded` (RFC 7239).
    pub fn forwarded(&self) -> &HeaderValue {
        &self.0.forwarded
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test says what it expects")]
    use super::*;

    #[test]
    fn a_peer_is_told_as_the_rfc_spells_it() {
        let cases = [
            (
                "192.0.2.7:1",
                false,
                "192.0.2.7",
                "for=192.0.2.7;proto=http",
            ),
            (
                "[2001:db8::1]:1",
                true,
                "2001:db8::1",
                "for=\"[2001:db8::1]\";proto=https",
            ),
            (
                "[::ffff:192.0.2.7]:1",
                true,
                "192.0.2.7",
                "for=192.0.2.7;proto=https",
            ),
        ];
        for (address, secure, plain, forwarded) in cases {
            let peer = Peer::new(address.parse().unwrap(), secure);
            assert_eq!(peer.forwarded_for(), plain);
            assert_eq!(peer.forwarded(), forwarded);
        }
    }
}
