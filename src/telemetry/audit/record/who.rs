//! The callers of the audit log, and the facts about a batch that outlive its request.

use std::net::SocketAddr;
use std::sync::Arc;

use http::HeaderValue;
use serde::{Serialize, Serializer};

use crate::request::RequestRecord;
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
    #[serde(
        skip_serializing_if = "Option::is_none",
        serialize_with = "forwarded_for"
    )]
    forwarded_for: Option<HeaderValue>,
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
            forwarded_for: head.and_then(|head| head.forwarded_for.clone()),
            ..Self::at(head.and_then(|head| head.peer.as_ref()))
        }
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

fn forwarded_for<S: Serializer>(value: &Option<HeaderValue>, to: S) -> Result<S::Ok, S::Error> {
    let bytes = value.as_ref().map_or(&[][..], HeaderValue::as_bytes);
    let text = String::from_utf8_lossy(&bytes[..bytes.len().min(MAX_FORWARDED)]);
    to.serialize_str(&text)
}
