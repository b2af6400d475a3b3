//! The reasons for which the gateway turns requests and connections away, each with its counter.

use prometheus::{IntCounter, IntCounterVec};

/// The limit because of which a request was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// `limits.rate`: the caller sends too many requests.
    Rate,
    /// `limits.caller_share`: the caller has its share of the places of requests that are served.
    Share,
    /// `limits.in_flight`: no place is free.
    InFlight,
    /// The catalog already holds its share of the places with requests that wait for it.
    Catalog,
    /// Too many batches run, or too many of one catalog are unfinished.
    Batches,
    /// Too many requests wait for locked tables.
    Locks,
    /// `limits.json_bodies`: the request bodies in memory take all of it.
    Bodies,
}

/// The reason why a TLS handshake with a client failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TlsFailure {
    /// The client closed the connection before the end of the handshake.
    Closed,
    /// The handshake did not end in time.
    Timeout,
    /// The client spoke plain HTTP.
    PlainHttp,
    /// The client spoke something else.
    NotTls,
    /// Client and gateway have no version, cipher or protocol in common.
    Incompatible,
    /// The client refused the gateway's certificate, or the handshake for another reason.
    Rejected,
    /// The client showed no certificate, and `listen.tls.client_ca` demands one.
    NoCertificate,
    /// The client's certificate is not valid, or not of an authority in `listen.tls.client_ca`.
    Certificate,
    /// Another violation of the protocol.
    Other,
}

/// The counters of failed handshakes. Clones share them.
#[derive(Clone)]
pub struct TlsFailures([IntCounter; TlsFailure::ALL.len()]);

/// The counters of refused requests.
pub(super) struct LimitedRequests([IntCounter; Limit::ALL.len()]);

impl Limit {
    /// All limits.
    pub const ALL: [Self; 7] = [
        Self::Rate,
        Self::Share,
        Self::InFlight,
        Self::Catalog,
        Self::Batches,
        Self::Locks,
        Self::Bodies,
    ];

    /// Returns the word in the label `reason` and in the access log.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Rate => "rate",
            Self::Share => "share",
            Self::InFlight => "in_flight",
            Self::Catalog => "catalog",
            Self::Batches => "batches",
            Self::Locks => "locks",
            Self::Bodies => "bodies",
        }
    }

    /// Returns the limit with this word; `None` if the word means something else.
    pub fn named(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|limit| limit.as_str() == word)
    }
}

impl TlsFailure {
    /// All reasons.
    pub const ALL: [Self; 9] = [
        Self::Closed,
        Self::Timeout,
        Self::PlainHttp,
        Self::NotTls,
        Self::Incompatible,
        Self::Rejected,
        Self::NoCertificate,
        Self::Certificate,
        Self::Other,
    ];

    /// Returns the word in the label `reason`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Closed => "closed",
            Self::Timeout => "timeout",
            Self::PlainHttp => "plain_http",
            Self::NotTls => "not_tls",
            Self::Incompatible => "incompatible",
            Self::Rejected => "rejected",
            Self::NoCertificate => "no_certificate",
            Self::Certificate => "certificate",
            Self::Other => "other",
        }
    }
}

impl TlsFailures {
    pub(super) fn new(family: &IntCounterVec) -> Self {
        Self(TlsFailure::ALL.map(|reason| family.with_label_values(&[reason.as_str()])))
    }

    /// Counts a failed handshake.
    pub fn count(&self, reason: TlsFailure) {
        self.0[reason as usize].inc();
    }
}

impl LimitedRequests {
    pub(super) fn new(family: &IntCounterVec) -> Self {
        Self(Limit::ALL.map(|limit| family.with_label_values(&[limit.as_str()])))
    }

    /// Counts a refused request.
    pub(super) fn count(&self, limit: Limit) {
        self.0[limit as usize].inc();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_limit_is_found_by_its_word_and_each_reason_has_its_own_place() {
        for (place, limit) in Limit::ALL.into_iter().enumerate() {
            assert_eq!(Limit::named(limit.as_str()), Some(limit));
            assert_eq!(limit as usize, place);
        }
        assert_eq!(Limit::named("expired"), None);
        for (place, reason) in TlsFailure::ALL.into_iter().enumerate() {
            assert_eq!(reason as usize, place, "{reason:?}");
        }
    }
}
