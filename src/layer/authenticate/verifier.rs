//! Finds the caller of a request: in the cache first, then with the issuer's keys.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use http::Request;
use http::header::AUTHORIZATION;

use super::memory::{CachedToken, Credential, TokenCache};
use crate::auth::keys::{Clock, Issuer, KeyMatch, KeySearch, Keys, PendingFetch};
use crate::auth::token::{Headers, Refusal, UnverifiedToken, bearer};
use crate::config::Limits;
use crate::metrics::{self, CacheLookup};
use crate::protocol::principal::Principal;
use crate::request::context::RequestContext;

/// Verifies callers.
pub struct Verifier {
    /// The issuers by `iss`.
    issuers: HashMap<String, Arc<Issuer>>,
    anonymous: Option<Principal>,
    /// The longest token, in bytes.
    max_token: usize,
    memory: TokenCache,
    headers: Headers,
    /// One count for each request that waits for keys.
    waiting: Arc<()>,
    clock: Arc<dyn Clock>,
    metrics: metrics::Auth,
}

/// The most requests that wait for keys at a time. Their callers may be anybody.
const MOST_WAITING: usize = 1024;

/// A request's wait for keys.
pub(super) struct KeyWait {
    fetch: PendingFetch,
    _counted: Arc<()>,
}

/// The result of judging a request's caller.
pub(super) enum Verdict {
    /// The caller, whose token is cached, or who needs none.
    Known(Principal),
    /// The caller, whose token was verified just now.
    Checked(Principal),
    /// The token's key is being fetched; judge again when the wait is over.
    Later(KeyWait),
}

/// The last credential of a connection: most send the same with every request, and need no lookup then.
#[derive(Default)]
pub(super) struct LastCredential(Option<CachedToken>);

impl Verifier {
    /// Admits the callers whose tokens are by the issuers of `keys`.
    pub fn new(keys: &Keys, clock: Arc<dyn Clock>, metrics: metrics::Auth) -> Self {
        let issuers = keys.issuers().iter();
        metrics.know_reasons(&Refusal::REASONS);
        Self {
            issuers: issuers
                .map(|i| (i.policy().issuer().to_owned(), Arc::clone(i)))
                .collect(),
            anonymous: None,
            max_token: Limits::default().token_bytes,
            memory: TokenCache::new(),
            headers: Headers::default(),
            waiting: Arc::default(),
            clock,
            metrics,
        }
    }

    /// Admits every caller, and checks no token.
    #[must_use]
    pub fn anonymous(mut self) -> Self {
        self.anonymous = Some(Principal::anonymous());
        self
    }

    /// Refuses tokens of more than so many bytes.
    #[must_use]
    pub fn with_longest_token(mut self, bytes: usize) -> Self {
        self.max_token = bytes;
        self
    }

    /// Judges a request by its headers and its connection, without waiting.
    pub(super) fn judge<B>(
        &self,
        request: &Request<B>,
        last: &mut LastCredential,
    ) -> Result<Verdict, Refusal> {
        if let Some(everyone) = &self.anonymous {
            let known = holder(request).unwrap_or(everyone);
            return Ok(Verdict::Known(known.clone()));
        }
        let now = self.clock.wall();
        if let Some(principal) = last.again(request, now) {
            self.metrics.looked_up(CacheLookup::Hit);
            return Ok(Verdict::Known(principal));
        }
        let shown = Credential::by(request)?;
        if let Some(principal) = last.get(&self.memory, shown, now) {
            self.metrics.looked_up(CacheLookup::Hit);
            return Ok(Verdict::Known(principal));
        }
        self.metrics.looked_up(CacheLookup::Miss);
        let unverified = self.read(shown.token)?;
        let issuer = self.issuer(&unverified)?;
        match issuer.search(unverified.header()) {
            KeySearch::Wait(fetch) => self.wait(fetch).map(Verdict::Later),
            KeySearch::Over(found) => {
                let principal = self.settle(issuer, shown, unverified, found, now)?;
                Ok(Verdict::Checked(principal))
            }
        }
    }

    fn wait(&self, fetch: PendingFetch) -> Result<KeyWait, Refusal> {
        // The verifier has one reference itself.
        if Arc::strong_count(&self.waiting) > MOST_WAITING {
            return Err(Refusal::NoKeys);
        }
        Ok(KeyWait {
            fetch,
            _counted: Arc::clone(&self.waiting),
        })
    }

    /// Judges a request after the fetch of its issuer's keys; the result is final.
    pub(super) fn judge_again<B>(&self, request: &Request<B>) -> Result<Principal, Refusal> {
        let shown = Credential::by(request)?;
        let unverified = self.read(shown.token)?;
        let issuer = self.issuer(&unverified)?;
        let found = issuer.find(unverified.header());
        self.settle(issuer, shown, unverified, found, self.clock.wall())
    }

    /// Counts a refusal in the metrics.
    pub(super) fn count(&self, refusal: &Refusal) {
        self.metrics.refused(refusal.reason());
    }

    fn read<'t>(&self, token: &'t str) -> Result<UnverifiedToken<'t>, Refusal> {
        if token.len() > self.max_token {
            return Err(Refusal::Malformed("it is longer than is accepted here"));
        }
        UnverifiedToken::read(token, &self.headers)
    }

    fn issuer(&self, token: &UnverifiedToken<'_>) -> Result<&Arc<Issuer>, Refusal> {
        let issuer = token.issuer().and_then(|iss| self.issuers.get(iss));
        let issuer = issuer.ok_or(Refusal::Issuer)?;
        // This comes before the search for keys: a token that cannot be accepted must not cause a fetch.
        issuer.accepts(token)?;
        Ok(issuer)
    }

    fn settle(
        &self,
        issuer: &Issuer,
        shown: Credential<'_>,
        unverified: UnverifiedToken<'_>,
        found: KeyMatch,
        now: Duration,
    ) -> Result<Principal, Refusal> {
        let header = unverified.unknown_header();
        let verified = issuer.judge(unverified, found, now, shown.certificate)?;
        if let Some((encoded, header)) = header {
            self.headers.keep(encoded, header);
        }
        let known = self.memory.remember(verified);
        Ok(known.principal().clone())
    }
}

impl KeyWait {
    /// Waits until the fetch is over.
    pub(super) async fn over(self) {
        self.fetch.over().await;
    }
}

impl LastCredential {
    /// Returns the caller if the request has the last credential, byte for byte and in the usual form, and it
    /// is still valid. Then nothing of it needs to be parsed.
    fn again<B>(&self, request: &Request<B>, now: Duration) -> Option<Principal> {
        let known = self.0.as_ref()?;
        let mut values = request.headers().get_all(AUTHORIZATION).iter();
        let (value, None) = (values.next()?, values.next()) else {
            return None;
        };
        let token = value.as_bytes().strip_prefix(b"Bearer ")?;
        (known.is(token, certificate(request)) && known.is_good(now))
            .then(|| known.principal().clone())
    }

    /// Returns the caller if this credential came before, over any connection, and is still valid.
    fn get(
        &mut self,
        memory: &TokenCache,
        shown: Credential<'_>,
        now: Duration,
    ) -> Option<Principal> {
        self.0 = memory.get(shown, now);
        self.0.as_ref().map(|known| known.principal().clone())
    }
}

impl<'a> Credential<'a> {
    fn by<B>(request: &'a Request<B>) -> Result<Self, Refusal> {
        Ok(Self {
            token: bearer(request.headers())?,
            certificate: certificate(request),
        })
    }
}

/// Returns the subject of the caller's certificate; `None` if it has none.
fn certificate<B>(request: &Request<B>) -> Option<&str> {
    holder(request).map(|holder| &**holder.subject())
}

fn holder<B>(request: &Request<B>) -> Option<&Principal> {
    RequestContext::of(request.extensions())
        .peer
        .as_ref()?
        .holder()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests say what they expect")]

    use aws_lc_rs::signature::{Ed25519KeyPair, KeyPair as _};
    use base64::Engine as _;
    use base64::engine::general_purpose::URL_SAFE_NO_PAD;

    use super::*;
    use crate::auth::keys::SystemClock;
    use crate::config::{self, Algorithm, Auth, KeySource};
    use crate::metrics::Metrics;

    async fn verifier(pair: &Ed25519KeyPair) -> Verifier {
        let folder = tempfile::tempdir().unwrap();
        let x = URL_SAFE_NO_PAD.encode(pair.public_key());
        let set = format!(r#"{{"keys":[{{"kty":"OKP","crv":"Ed25519","x":"{x}"}}]}}"#);
        std::fs::write(folder.path().join("keys.json"), set).unwrap();
        let mut issuer = config::Issuer::new("https://one.test", "catalog");
        issuer.algorithms = vec![Algorithm::EdDSA];
        issuer.keys.source = KeySource::File(folder.path().join("keys.json"));
        let auth = Auth {
            issuers: vec![issuer],
            anonymous: false,
        };
        let metrics = Metrics::new();
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::default());
        let keys = Keys::new(&auth, &clock, metrics.auth()).unwrap();
        keys.issuers()[0].refresh().await;
        Verifier::new(&keys, clock, metrics.auth().clone())
    }

    #[tokio::test]
    async fn only_a_verified_token_makes_its_header_known() {
        let pair = Ed25519KeyPair::from_seed_unchecked(&[7; 32]).unwrap();
        let verifier = verifier(&pair).await;
        let claims = r#"{"iss":"https://one.test","aud":"catalog","sub":"ann","exp":9999999999}"#;
        let signed = [r#"{"alg":"EdDSA"}"#, claims].map(|part| URL_SAFE_NO_PAD.encode(part));
        let signed = signed.join(".");
        let token = |signature: &[u8]| format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature));
        let (good, forged) = (
            token(pair.sign(signed.as_bytes()).as_ref()),
            token(&[7; 64]),
        );
        let judge = |token: &str| {
            let request = Request::builder().header(AUTHORIZATION, format!("Bearer {token}"));
            verifier.judge(&request.body(()).unwrap(), &mut LastCredential::default())
        };
        let unknown = |token: &str| {
            let read = UnverifiedToken::read(token, &verifier.headers).unwrap();
            read.unknown_header().is_some()
        };
        assert!(matches!(judge(&forged), Err(Refusal::Signature)));
        assert!(unknown(&good));
        assert!(matches!(judge(&good), Ok(Verdict::Checked(_))));
        assert!(!unknown(&good));
        // The known header says nothing about the token.
        assert!(matches!(judge(&forged), Err(Refusal::Signature)));
        assert!(matches!(judge(&good), Ok(Verdict::Known(_))));
    }
}
