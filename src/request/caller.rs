//! Whose request it is, where callers are told apart: to limit how often they ask, and how much they take.
//!
//! A caller is the subject of its token, together with who issued it, or the subject of its certificate. Where there is
//! neither it is the address the connection comes from; of an IPv6 address the first 64 bits, since a single host has
//! all that follow.

use std::net::IpAddr;

use http::Request;

use crate::request::context::RequestContext;

/// One who asks.
#[derive(Hash)]
pub enum Caller<'r> {
    /// The subject of a token or a certificate.
    Subject {
        /// Who says so.
        issuer: &'r str,
        /// Its name there.
        subject: &'r str,
    },
    /// Nobody who is known, from this address.
    Address(IpAddr),
    /// Nobody who is known, from nowhere.
    Unknown,
}

impl<'r> Caller<'r> {
    /// Who sent a request.
    pub fn of<B>(request: &'r Request<B>) -> Self {
        let learned = RequestContext::of(request.extensions());
        match &learned.principal {
            Some(principal) if !principal.subject().is_empty() => {
                Self::of_subject(principal.issuer(), principal.subject())
            }
            _ => learned
                .peer
                .as_ref()
                .map_or(Self::Unknown, |peer| Self::at(peer.address().ip())),
        }
    }

    /// A subject.
    pub fn of_subject(issuer: &'r str, subject: &'r str) -> Self {
        Self::Subject { issuer, subject }
    }

    /// Somebody at an address.
    pub fn at(address: IpAddr) -> Self {
        Self::Address(match address.to_canonical() {
            IpAddr::V6(ip) => IpAddr::V6((ip.to_bits() >> 64 << 64).into()),
            ip @ IpAddr::V4(_) => ip,
        })
    }
}
