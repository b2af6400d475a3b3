//! Keeps the tokens of one backend: the gateway's own, and those that callers' tokens were exchanged for.

use std::sync::Arc;

use aws_lc_rs::digest::{SHA256, digest};
use http::HeaderValue;
use quick_cache::sync::Cache;

use super::refusal::Refusal;
use super::server::{Grant, Server};
use super::slot::{FetchWait, Slot, SlotLookup, Token};
use crate::config::{ClientTls, OAuth};
use crate::error::BoxError;

/// The number of callers' tokens that are remembered; at 8 KiB a token at most 64 MiB, and usually a tenth of
/// that.
const CALLERS: usize = 8192;

/// The tokens from one server.
pub(super) struct Tokens {
    server: Arc<Server>,
    own: Arc<Slot>,
    /// The slots by the SHA-256 of the caller's token; `None` if callers' tokens are not exchanged.
    traded: Option<Cache<[u8; 32], Arc<Slot>>>,
}

/// A token that goes with one request. A request extension.
#[derive(Clone)]
pub(in crate::backend) struct IssuedToken {
    pub(super) value: HeaderValue,
    slot: Arc<Slot>,
}

/// A token that is being fetched.
pub(in crate::backend) struct PendingToken {
    wait: FetchWait,
    slot: Arc<Slot>,
}

/// The result of a lookup for one request.
pub(in crate::backend) enum TokenLookup {
    Token(IssuedToken),
    Coming(PendingToken),
    Refused(Refusal),
}

impl Tokens {
    pub(super) fn new(config: &OAuth, tls: Option<&ClientTls>) -> Result<Self, BoxError> {
        Ok(Self {
            server: Arc::new(Server::new(config, tls)?),
            own: Arc::default(),
            traded: config.exchange.then(|| Cache::new(CALLERS)),
        })
    }

    pub(super) fn trades(&self) -> bool {
        self.traded.is_some()
    }

    /// Looks up the gateway's own token.
    pub(super) fn own(&self) -> TokenLookup {
        TokenLookup::of(&self.own, self.own.look(|| self.ask(Grant::Own)))
    }

    /// Returns the gateway's own token if it is available now; `None` otherwise.
    pub(super) fn own_now(&self) -> Option<HeaderValue> {
        match self.own.look(|| self.ask(Grant::Own)) {
            SlotLookup::Token(value) => Some(value),
            SlotLookup::Refused(_) | SlotLookup::Wait(_) => None,
        }
    }

    fn ask(&self, grant: Grant) -> impl Future<Output = Result<Token, Refusal>> + Send + use<> {
        let server = Arc::clone(&self.server);
        async move { server.ask(&grant).await }
    }

    /// Looks up the token that the caller's `Authorization` is exchanged for; `None` if it holds no bearer
    /// token, or if callers' tokens are not exchanged.
    pub(super) fn of_caller(&self, authorization: &HeaderValue) -> Option<TokenLookup> {
        let token = bearer(authorization)?;
        let mut hash = [0; 32];
        hash.copy_from_slice(digest(&SHA256, token).as_ref());
        let made = self
            .traded
            .as_ref()?
            .get_or_insert_with(&hash, || Ok::<_, std::convert::Infallible>(Arc::default()));
        let slot = match made {
            Ok(slot) => slot,
            Err(never) => match never {},
        };
        let grant = || {
            // A part of a header value is itself a valid header value.
            let mut token = HeaderValue::from_bytes(token).unwrap_or(HeaderValue::from_static(""));
            token.set_sensitive(true);
            Grant::Trade(token)
        };
        Some(TokenLookup::of(&slot, slot.look(|| self.ask(grant()))))
    }
}

impl TokenLookup {
    fn of(slot: &Arc<Slot>, look: SlotLookup) -> Self {
        let slot = || Arc::clone(slot);
        match look {
            SlotLookup::Token(value) => Self::Token(IssuedToken {
                value,
                slot: slot(),
            }),
            SlotLookup::Wait(wait) => Self::Coming(PendingToken { wait, slot: slot() }),
            SlotLookup::Refused(refusal) => Self::Refused(refusal),
        }
    }
}

impl PendingToken {
    /// Waits for the token, five seconds at most.
    pub(in crate::backend) async fn over(self) -> Result<IssuedToken, Refusal> {
        let value = self.wait.over().await?;
        let slot = self.slot;
        Ok(IssuedToken { value, slot })
    }
}

impl IssuedToken {
    /// Notes that a catalog has refused the token. Returns true if another one may be accepted.
    pub(in crate::backend) fn refused(&self) -> bool {
        self.slot.refused(&self.value)
    }
}

/// Returns the token of an `Authorization` header; `None` if it is not a bearer token.
fn bearer(authorization: &HeaderValue) -> Option<&[u8]> {
    let (scheme, token) = authorization.as_bytes().split_at_checked(7)?;
    scheme
        .eq_ignore_ascii_case(b"bearer ")
        .then(|| token.trim_ascii())
}
