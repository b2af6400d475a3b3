//! Callers, told apart to limit how many requests they send and how many places they take.
//!
//! A caller is the subject of its token, together with the issuer, or the subject of its certificate. If there is
//! neither, it is the address that the connection comes from; of an IPv6 address the first 64 bits, because a single
//! host has all addresses that begin with them.

use std::fmt;
use std::net::IpAddr;

use http::{Extensions, Request};

use crate::protocol::principal::Principal;
use crate::request::context::RequestContext;
use crate::request::peer::Peer;

/// The facts by which a caller is told apart, kept without its request. A clone costs two reference counts.
#[derive(Clone, Default)]
pub struct KnownCaller {
    principal: Option<Principal>,
    peer: Option<Peer>,
}

/// The caller of a request.
#[derive(Hash)]
pub enum Caller<'r> {
    /// The subject of a token or a certificate.
    Subject {
        /// The issuer that vouches for the subject.
        issuer: &'r str,
        /// The subject's name at that issuer.
        subject: &'r str,
    },
    /// An unknown caller at this address.
    Address(IpAddr),
    /// An unknown caller without an address.
    Unknown,
}

impl KnownCaller {
    /// Returns the caller of a request.
    pub fn of<B>(request: &Request<B>) -> Self {
        let learned = RequestContext::of(request.extensions());
        Self {
            principal: learned.principal.clone(),
            peer: learned.peer.clone(),
        }
    }

    /// Returns the caller.
    pub fn caller(&self) -> Caller<'_> {
        Caller::known(self.principal.as_ref(), self.peer.as_ref())
    }
}

impl<'r> Caller<'r> {
    /// Returns the caller of a request.
    pub fn of<B>(request: &'r Request<B>) -> Self {
        Self::among(request.extensions())
    }

    /// Returns the caller of the request with these extensions.
    pub fn among(extensions: &'r Extensions) -> Self {
        let learned = RequestContext::of(extensions);
        Self::known(learned.principal.as_ref(), learned.peer.as_ref())
    }

    fn known(principal: Option<&'r Principal>, peer: Option<&Peer>) -> Self {
        match principal {
            Some(principal) if !principal.subject().is_empty() => {
                Self::of_subject(principal.issuer(), principal.subject())
            }
            _ => peer.map_or(Self::Unknown, |peer| Self::at(peer.address().ip())),
        }
    }

    /// Returns the caller that is this subject.
    pub fn of_subject(issuer: &'r str, subject: &'r str) -> Self {
        Self::Subject { issuer, subject }
    }

    /// Returns the caller that is only known by this address.
    pub fn at(address: IpAddr) -> Self {
        Self::Address(match address.to_canonical() {
            IpAddr::V6(ip) => IpAddr::V6((ip.to_bits() >> 64 << 64).into()),
            ip @ IpAddr::V4(_) => ip,
        })
    }
}

/// Writes a text that distinguishes callers.
impl fmt::Display for Caller<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Subject { issuer, subject } => write!(f, "{issuer}\0{subject}"),
            Self::Address(address) => write!(f, "{address}"),
            Self::Unknown => Ok(()),
        }
    }
}
