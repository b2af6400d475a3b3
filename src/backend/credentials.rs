//! Whose `Authorization` a catalog sees.

use http::header::{AUTHORIZATION, HeaderName};
use http::{HeaderMap, HeaderValue};

use super::Authority;
use crate::config::{Authorization, RestConfig};

/// A backend's static headers and its rule for the caller's token.
pub(super) struct Credentials {
    /// Sent with every request; may hold `authorization`, which then replaces the caller's.
    fixed: Vec<(HeaderName, HeaderValue)>,
    forward: bool,
    service: Option<HeaderValue>,
}

impl Credentials {
    /// As `config` has it.
    pub(super) fn new(config: &RestConfig) -> Self {
        Self {
            fixed: config.headers.clone(),
            forward: config.authorization == Authorization::Forward,
            service: config.service_authorization.clone(),
        }
    }

    /// Whether the gateway has anything to show when it asks for itself.
    pub(super) fn has_service(&self) -> bool {
        self.service.is_some() || !self.fixed.is_empty()
    }

    /// Writes them. Without an authority the request is the caller's, and `headers` hold its own token.
    pub(super) fn apply(&self, authority: Option<&Authority>, headers: &mut HeaderMap) {
        let token = match authority {
            Some(Authority::Service) => self.service.as_ref(),
            Some(Authority::Caller(token)) if self.forward => token.as_ref(),
            None if self.forward => headers.get(AUTHORIZATION),
            Some(Authority::Caller(_)) | None => None,
        };
        match token {
            // The common case: what is there stays there.
            Some(_) if authority.is_none() => {}
            Some(token) => {
                let token = token.clone();
                headers.insert(AUTHORIZATION, token);
            }
            None => {
                headers.remove(AUTHORIZATION);
            }
        }
        let service = matches!(authority, Some(Authority::Service)) && self.service.is_some();
        for (name, value) in &self.fixed {
            if !(service && *name == AUTHORIZATION) {
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
        Credentials::new(&config)
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
            credentials(policy, fixed, own).apply(authority.as_ref(), &mut headers);
            let seen = headers.get(AUTHORIZATION).map(|v| v.to_str().unwrap());
            assert_eq!(seen, expected, "{policy:?} {fixed} {own} {authority:?}");
            assert_eq!(headers["x-api-key"], "k");
        }
    }
}
