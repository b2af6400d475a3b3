//! Decides which `Authorization` a catalog sees.
//!
//! The gateway's own requests carry, with `oauth`, a token that it got with its client credentials. With
//! `oauth.exchange`, a caller's request carries the token that the caller's token was exchanged for, and never the
//! caller's token itself. The gateway's own token is never sent with a caller's request: the catalog would take the
//! caller for the gateway.

mod channel;
mod message;
mod refusal;
mod server;
mod slot;
mod timing;
mod tokens;

use http::header::{AUTHORIZATION, HeaderName};
use http::{HeaderMap, HeaderValue};

use super::Authority;
use crate::config::{Authorization, RestConfig};
use crate::error::BoxError;

pub use refusal::Refusal;
use tokens::Tokens;
pub(super) use tokens::{IssuedToken, TokenLookup};

/// A backend's static headers and its rule for the caller's token.
pub(super) struct Credentials {
    /// The headers that are sent with every request. An `authorization` among them replaces the caller's.
    fixed: Vec<(HeaderName, HeaderValue)>,
    forward: bool,
    service: Option<HeaderValue>,
    tokens: Option<Box<Tokens>>,
}

impl Credentials {
    /// Builds the credentials from `config`. Contacts no server.
    pub(super) fn new(config: &RestConfig) -> Result<Self, BoxError> {
        let tokens = config.oauth.as_ref().map(|oauth| {
            let tokens = Tokens::new(oauth, config.tls.as_ref())
                .map_err(|error| format!("oauth: {error}"))?;
            Ok::<_, BoxError>(Box::new(tokens))
        });
        Ok(Self {
            fixed: config.headers.clone(),
            forward: config.authorization == Authorization::Forward,
            service: config.service_authorization.clone(),
            tokens: tokens.transpose()?,
        })
    }

    /// True if the gateway has credentials for its own requests.
    pub(super) fn has_service(&self) -> bool {
        self.service.is_some() || self.tokens.is_some() || !self.fixed.is_empty()
    }

    /// True if the gateway's own requests have an `Authorization` that callers' requests do not have, or lack the caller's
    /// token, so that the catalog cannot judge the caller.
    pub(super) fn privileges_own(&self) -> bool {
        self.service.is_some() || self.tokens.is_some() || self.forward
    }

    /// True if the configuration says that the catalog asks for no credentials.
    pub(super) fn needs_none(&self) -> bool {
        !self.forward
    }

    /// Returns the headers that are sent with every request.
    pub(super) fn fixed(&self) -> &[(HeaderName, HeaderValue)] {
        &self.fixed
    }

    /// Returns the token that a request needs from a token server; `None` if it needs none.
    pub(super) fn token(
        &self,
        authority: Option<&Authority>,
        headers: &HeaderMap,
    ) -> Option<TokenLookup> {
        let tokens = self.tokens.as_deref()?;
        match authority {
            Some(Authority::Service) => Some(tokens.own()),
            Some(Authority::Caller(token)) => tokens.of_caller(token.as_ref()?),
            None => tokens.of_caller(headers.get(AUTHORIZATION)?),
        }
    }

    /// Writes the credentials into `headers`. Without an authority the request is the caller's, and `headers` hold
    /// its own token. `lent` is the token that [`Credentials::token`] led to.
    pub(super) fn apply(
        &self,
        authority: Option<&Authority>,
        lent: Option<&IssuedToken>,
        headers: &mut HeaderMap,
    ) {
        let own = matches!(authority, Some(Authority::Service));
        let token = match (&self.tokens, lent) {
            (_, Some(lent)) => Some(lent.value.clone()),
            // A health check uses the token that is available, or none.
            (Some(tokens), None) if own => tokens.own_now(),
            (Some(tokens), None) if tokens.trades() => None,
            _ => match authority {
                Some(Authority::Service) => self.service.clone(),
                Some(Authority::Caller(token)) if self.forward => token.clone(),
                // In the common case, the caller's header stays as it is.
                None if self.forward => return self.fix(false, headers),
                Some(Authority::Caller(_)) | None => None,
            },
        };
        let keeps = own && token.is_some();
        match token {
            Some(token) => headers.insert(AUTHORIZATION, token),
            None => headers.remove(AUTHORIZATION),
        };
        self.fix(keeps, headers);
    }

    /// Writes the static headers. With `keeps`, `authorization` stays as it is.
    fn fix(&self, keeps: bool, headers: &mut HeaderMap) {
        for (name, value) in &self.fixed {
            if !(keeps && *name == AUTHORIZATION) {
                headers.insert(name.clone(), value.clone());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test says what it expects")]
    use super::*;

    const FIXED: &str = "Bearer fixed";
    const SERVICE: &str = "Bearer service";
    const CALLER: &str = "Bearer caller";

    fn credentials(policy: Authorization, fixed: bool, service: bool) -> Credentials {
        let mut config = RestConfig::new("http://catalog".parse().unwrap());
        config.authorization = policy;
        config.headers = vec![(HeaderName::from_static("x-api-key"), "k".parse().unwrap())];
        if fixed {
            let value = HeaderValue::from_static(FIXED);
            config.headers.push((AUTHORIZATION, value));
        }
        config.service_authorization = service.then(|| HeaderValue::from_static(SERVICE));
        Credentials::new(&config).unwrap()
    }

    #[test]
    fn a_catalog_sees_the_token_that_the_policy_names() {
        use Authorization::{Forward, None as Nothing};
        let caller = || Some(Authority::Caller(Some(HeaderValue::from_static(CALLER))));
        let service = || Some(Authority::Service);
        let cases = [
            (Forward, false, false, None, Some(CALLER)),
            (Forward, false, true, None, Some(CALLER)),
            (Forward, true, true, None, Some(FIXED)),
            (Nothing, false, true, None, None),
            (Nothing, true, true, None, Some(FIXED)),
            (Forward, false, true, caller(), Some(CALLER)),
            (Forward, true, false, caller(), Some(FIXED)),
            (Forward, false, false, Some(Authority::Caller(None)), None),
            (Nothing, false, false, caller(), None),
            (Forward, false, true, service(), Some(SERVICE)),
            (Forward, true, true, service(), Some(SERVICE)),
            (Forward, true, false, service(), Some(FIXED)),
            (Forward, false, false, service(), None),
        ];
        for (policy, fixed, own, authority, expected) in cases {
            let mut headers = HeaderMap::new();
            headers.insert(AUTHORIZATION, HeaderValue::from_static(CALLER));
            credentials(policy, fixed, own).apply(authority.as_ref(), None, &mut headers);
            let seen = headers.get(AUTHORIZATION).map(|v| v.to_str().unwrap());
            assert_eq!(seen, expected, "{policy:?} {fixed} {own} {authority:?}");
            assert_eq!(headers["x-api-key"], "k");
        }
    }

    #[test]
    fn the_gateways_own_requests_show_no_caller_unless_none_do() {
        use Authorization::{Forward, None as Nothing};
        let privileges = |policy, service| credentials(policy, true, service).privileges_own();
        assert!(privileges(Forward, false) && privileges(Forward, true));
        assert!(privileges(Nothing, true) && !privileges(Nothing, false));
    }
}
