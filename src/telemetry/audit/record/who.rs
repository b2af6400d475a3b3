//! The callers of the audit log, and the facts about a batch that outlive its request.

use std::net::SocketAddr;
use std::sync::Arc;

use http::HeaderValue;
use serde::Serialize;

use super::brief::{CLAIM, brief_shared};
use crate::request::RequestRecord;
use crate::request::caller::Caller;
use crate::request::change::TableChange;
use crate::request::peer::Peer;

/// The most bytes of `forwarded_for`.
const MAX_FORWARDED: usize = 256;

/// The caller of a request.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Who {
    #[serde(skip_serializing_if = "Option::is_none")]
    issuer: Option<Arc<str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    subject: Option<Arc<str>>,
    /// The subject of the client's certificate.
    #[serde(skip_serializing_if = "Option::is_none")]
    certificate: Option<Arc<str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    client: Option<SocketAddr>,
    #[serde(skip_serializing_if = "Option::is_none")]
    forwarded_for: Option<Box<str>>,
}

/// The facts about a batch for its lines: from the request that began it, or from the batch log.
#[derive(Clone)]
pub struct BatchFacts {
    /// The transaction.
    pub transaction: Box<str>,
    /// The changes.
    pub tables: Arc<[TableChange]>,
    /// The caller; empty if the batch was recovered.
    pub who: Who,
    /// The id of the request; empty if the batch was recovered.
    pub request: Box<str>,
    /// The contract's name of the request; `None` if the batch was recovered.
    pub operation: Option<&'static str>,
    /// True if it was recovered from the batch log.
    pub is_recovered: bool,
}

impl Who {
    /// Returns the caller of a request, as far as it is known.
    pub fn of(exchange: &RequestRecord) -> Self {
        let named = |text: &Arc<str>| Some(Arc::clone(text)).filter(|text| !text.is_empty());
        let caller = exchange.caller();
        let head = exchange.head();
        Self {
            issuer: caller.and_then(|caller| named(caller.issuer())),
            subject: caller.and_then(|caller| named(caller.subject())),
            forwarded_for: head.and_then(|head| head.forwarded_for.as_ref().map(forwarded_for)),
            ..Self::at(head.and_then(|head| head.peer.as_ref()))
        }
    }

    /// Returns the caller with claims and subjects that are cut if they are long.
    pub(super) fn brief(mut self) -> Self {
        for claim in [&mut self.issuer, &mut self.subject, &mut self.certificate] {
            *claim = claim.take().map(|claim| brief_shared(&claim, CLAIM));
        }
        self
    }

    /// The bytes of its texts. They may be shared with others.
    pub(super) fn bytes(&self) -> usize {
        let claims = [&self.issuer, &self.subject, &self.certificate];
        let claims = claims.into_iter().flatten().map(|claim| claim.len());
        claims.sum::<usize>() + self.forwarded_for.as_ref().map_or(0, |text| text.len())
    }

    /// Returns the caller as limits tell callers apart.
    pub(in crate::telemetry::audit) fn caller(&self) -> Caller<'_> {
        let issuer = self.issuer.as_deref().unwrap_or_default();
        match (&self.subject, &self.certificate, self.client) {
            (Some(subject), _, _) => Caller::of_subject(issuer, subject),
            (None, Some(holder), _) => Caller::of_subject("", holder),
            (None, None, Some(client)) => Caller::at(client.ip()),
            (None, None, None) => Caller::Unknown,
        }
    }

    /// The address at the other end of the connection; `None` if it is not known.
    #[cfg(test)]
    pub(in crate::telemetry::audit) fn client(&self) -> Option<SocketAddr> {
        self.client
    }

    /// Returns a caller of whom only the connection is known.
    pub fn at(peer: Option<&Peer>) -> Self {
        let holder = peer.and_then(Peer::holder);
        Self {
            certificate: holder.map(|holder| Arc::clone(holder.subject())),
            client: peer.map(Peer::address),
            ..Self::default()
        }
    }
}

/// Returns the header as text, cut to its length. Bytes that are no text become characters of three bytes, so the text
/// is cut again.
fn forwarded_for(value: &HeaderValue) -> Box<str> {
    let bytes = value.as_bytes();
    let text = String::from_utf8_lossy(&bytes[..bytes.len().min(MAX_FORWARDED)]);
    text[..text.floor_char_boundary(MAX_FORWARDED)].into()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test says what it expects")]
    use super::*;

    #[test]
    fn a_forwarded_address_that_is_no_text_has_at_most_256_bytes_too() {
        let text = forwarded_for(&HeaderValue::from_bytes(&[0xff; 400]).unwrap());
        assert_eq!(&*text, "\u{fffd}".repeat(85));
        let text = forwarded_for(&HeaderValue::from_static("203.0.113.7"));
        assert_eq!(&*text, "203.0.113.7");
    }
}
