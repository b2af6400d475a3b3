//! Caches verified tokens, so that a busy client costs one signature check.
//!
//! Some clients have a new token for every request. These must not evict those of busy clients, nor fill memory with
//! tokens that are never sent again. So a token that was sent once goes into a small cache of its own, and moves to the
//! large one when it is sent again. If too many new ones came in between, it is verified once more, and [`SeenFilter`]
//! then knows it.
//!
//! Tokens are kept as they came. A token matches only if each of its bytes, and of the subject of the certificate that
//! it comes with, is that of one which was verified. So no forgery can match a cached token: there is nothing to match
//! but the token itself. The key of the cache is a hash of the end of a token's signature, which no two tokens share by
//! accident; if two did, the last one would be cached. The hash is keyed, and the end is compared before the rest, so
//! that the time of a refusal tells nothing about a token to a caller who does not have its signature. A cached token
//! is never accepted past its time, nor after its key was retired.

use std::hash::{BuildHasher as _, Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

use quick_cache::sync::Cache;
use quick_cache::{DefaultHashBuilder, Weighter};

use super::seen::SeenFilter;
use crate::auth::token::VerifiedToken;
use crate::protocol::principal::Principal;

/// The most that all cached tokens may take, in bytes, roughly: some 100,000 of them. Claims that a rule looks at are not
/// counted: such tokens take up to three times as much, and ten times if an issuer fills them with a thousand small claims.
const CAPACITY: u64 = 128 << 20;
/// The most that tokens which were sent once may take, in bytes, roughly.
const ONCE: u64 = 1 << 20;
/// The number of tokens at first; the tables grow with need.
const EXPECTED: usize = 1024;
/// The memory that a token takes besides its text and its context, in bytes, roughly.
const BESIDE: u64 = 448;
/// The number of bytes at the end of a token that are hashed to find it: 192 bits of its signature.
const END: usize = 32;

/// A cache of verified tokens.
pub(super) struct TokenCache {
    /// Tokens by their hash. The table stores it, so it never reads a token to move or remove it.
    known: Cache<u64, CachedToken, Weight>,
    /// Tokens that were sent once.
    once: Cache<u64, CachedToken, Weight>,
    seen: SeenFilter,
    hasher: DefaultHashBuilder,
}

/// The credentials of a caller.
#[derive(Clone, Copy)]
pub(super) struct Credential<'a> {
    pub(super) token: &'a str,
    /// The subject of the caller's certificate; `None` if it has none.
    pub(super) certificate: Option<&'a str>,
}

/// A token that was verified. A clone costs one reference count.
#[derive(Clone)]
pub(super) struct CachedToken(Arc<VerifiedToken>);

#[derive(Clone)]
struct Weight;

impl TokenCache {
    pub(super) fn new() -> Self {
        Self {
            known: Cache::with_weighter(EXPECTED, CAPACITY, Weight),
            once: Cache::with_weighter(EXPECTED, ONCE, Weight),
            seen: SeenFilter::default(),
            hasher: DefaultHashBuilder::default(),
        }
    }

    /// Returns the cached token of these credentials, if it is still valid at `now` (since the epoch).
    pub(super) fn get(&self, shown: Credential<'_>, now: Duration) -> Option<CachedToken> {
        let place = self.hasher.hash_one(shown);
        if let Some(known) = self.known.get(&place) {
            let known = known.by(shown)?;
            if !known.is_good(now) {
                self.known.remove(&place);
                return None;
            }
            return Some(known);
        }
        let known = self.once.get(&place)?.by(shown)?;
        self.once.remove(&place);
        if !known.is_good(now) {
            return None;
        }
        self.known.insert(place, known.clone());
        Some(known)
    }

    /// Caches a token that was verified.
    pub(super) fn remember(&self, verified: VerifiedToken) -> CachedToken {
        let known = CachedToken(Arc::new(verified));
        let (token, certificate) = known.principal().shown();
        let place = self.hasher.hash_one(Credential { token, certificate });
        let home = if self.seen.again(place) {
            &self.known
        } else {
            &self.once
        };
        home.insert(place, known.clone());
        known
    }
}

impl CachedToken {
    /// True if it is this token, with this certificate.
    pub(super) fn is(&self, token: &[u8], certificate: Option<&str>) -> bool {
        let (known, by) = self.principal().shown();
        let known = known.as_bytes();
        end(known) == end(token) && known == token && by == certificate
    }

    /// Returns itself if it is the token of these credentials.
    fn by(self, shown: Credential<'_>) -> Option<Self> {
        self.is(shown.token.as_bytes(), shown.certificate)
            .then_some(self)
    }

    /// True if it is still valid at `now`, and its key is not retired.
    pub(super) fn is_good(&self, now: Duration) -> bool {
        now < self.0.until && !self.0.key.is_retired()
    }

    pub(super) fn principal(&self) -> &Principal {
        &self.0.principal
    }
}

/// Returns the bytes that are hashed to find a token.
fn end(token: &[u8]) -> &[u8] {
    token.last_chunk::<END>().map_or(token, |end| end)
}

impl Hash for Credential<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write(end(self.token.as_bytes()));
        if let Some(subject) = self.certificate {
            state.write(subject.as_bytes());
        }
    }
}

impl Weighter<u64, CachedToken> for Weight {
    fn weight(&self, _: &u64, known: &CachedToken) -> u64 {
        let (token, certificate) = known.principal().shown();
        let context = known.principal().context().bytes();
        BESIDE + (token.len() + certificate.map_or(0, str::len) + context) as u64
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests say what they expect")]

    use super::*;
    use crate::auth::token::{Jwk, Key};
    use crate::config::Algorithm;
    use crate::protocol::claims::Claims;
    use crate::protocol::context::ClaimEntries;
    use crate::protocol::principal::Identity;

    const NOW: Duration = Duration::from_secs(1000);
    const LATER: Duration = Duration::from_secs(2000);

    /// Returns the example key of RFC 8037, A.2.
    fn key() -> Arc<Key> {
        let jwk =
            r#"{"kty":"OKP","crv":"Ed25519","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}"#;
        let jwk: Jwk = serde_json::from_str(jwk).unwrap();
        Arc::new(jwk.key(&[Algorithm::EdDSA]).unwrap())
    }

    fn verified(shown: Credential<'_>, key: &Arc<Key>) -> VerifiedToken {
        VerifiedToken {
            principal: Principal::new(Identity {
                claims: Claims::new(shown.token, shown.certificate),
                ..Identity::default()
            }),
            until: LATER,
            key: Arc::clone(key),
        }
    }

    fn by(token: &str) -> Credential<'_> {
        Credential {
            token,
            certificate: None,
        }
    }

    fn fits(known: &CachedToken, shown: Credential<'_>, now: Duration) -> bool {
        known.is(shown.token.as_bytes(), shown.certificate) && known.is_good(now)
    }

    impl TokenCache {
        fn remembers(&self, shown: Credential<'_>) -> bool {
            self.get(shown, NOW).is_some()
        }
    }

    #[test]
    fn a_token_is_known_by_every_byte_of_it() {
        let (memory, key) = (TokenCache::new(), key());
        let token = format!("{}.{}.{}", "h".repeat(40), "p".repeat(300), "s".repeat(86));
        let known = memory.remember(verified(by(&token), &key));
        let mut others: Vec<String> = (0..token.len())
            .map(|at| format!("{}x{}", &token[..at], &token[at + 1..]))
            .collect();
        others.extend([
            format!("{token}s"),
            format!("h{token}"),
            token[1..].to_owned(),
            token[..token.len() - 1].to_owned(),
            token[token.len() - END..].to_owned(),
            String::new(),
        ]);
        // The token is first in the cache for those that were sent once, then in the other.
        for _ in 0..2 {
            for other in &others {
                assert!(!fits(&known, by(other), NOW), "{other}");
                assert!(!memory.remembers(by(other)), "{other}");
            }
            assert!(fits(&known, by(&token), NOW));
            assert!(memory.remembers(by(&token)));
        }
    }

    #[test]
    fn tokens_with_the_same_end_are_two() {
        let (memory, key) = (TokenCache::new(), key());
        let end = "s".repeat(END);
        let both = ["a", "b"].map(|start| format!("{start}{end}"));
        for token in &both {
            memory.remember(verified(by(token), &key));
            assert!(memory.remembers(by(token)));
        }
        // Neither passes for the other: the first one has to be verified again.
        assert!(!memory.remembers(by(&both[0])));
    }

    #[test]
    fn a_token_is_known_only_with_the_certificate_it_came_with() {
        let key = key();
        let shown = |certificate| Credential {
            token: "a.b.c",
            certificate,
        };
        let all = [None, Some(""), Some("CN=a"), Some("CN=b")];
        for certificate in all {
            let memory = TokenCache::new();
            let known = memory.remember(verified(shown(certificate), &key));
            for other in all {
                assert_eq!(fits(&known, shown(other), NOW), other == certificate);
                assert_eq!(memory.remembers(shown(other)), other == certificate);
            }
        }
    }

    #[test]
    fn nothing_is_known_past_its_time_or_its_key() {
        for shown_again in [false, true] {
            let (memory, key) = (TokenCache::new(), key());
            let remember = || {
                let known = memory.remember(verified(by("a.b.c"), &key));
                assert!(!shown_again || memory.remembers(by("a.b.c")));
                known
            };
            assert!(!fits(&remember(), by("a.b.c"), LATER));
            assert!(memory.get(by("a.b.c"), LATER).is_none());
            // A token that was found to be too old is gone, whatever the clock says next.
            assert!(!memory.remembers(by("a.b.c")));
            let known = remember();
            key.retire();
            assert!(!fits(&known, by("a.b.c"), NOW));
            assert!(!memory.remembers(by("a.b.c")));
        }
    }

    #[test]
    fn tokens_that_are_shown_once_push_out_none_that_are_shown_again() {
        let (memory, key) = (TokenCache::new(), key());
        let token = |name: &str, number: u64| format!("{number:0>700}{name}");
        let busy: Vec<String> = (0..2000).map(|number| token("busy", number)).collect();
        for token in &busy {
            memory.remember(verified(by(token), &key));
            assert!(memory.remembers(by(token)));
        }
        for number in 0..20_000 {
            memory.remember(verified(by(&token("once", number)), &key));
        }
        assert!(busy.iter().all(|token| memory.remembers(by(token))));
        let once = memory.once.len() as u64;
        assert!((1..=ONCE / 700).contains(&once), "{once}");
        assert_eq!(memory.known.len(), busy.len());
    }

    #[test]
    fn what_comes_back_late_is_verified_twice_and_not_again() {
        let (memory, key) = (TokenCache::new(), key());
        // These are far more than the tokens that were sent once and are kept.
        let tokens: Vec<String> = (0..10_000)
            .map(|number| format!("{number:0>700}"))
            .collect();
        let mut rounds = [0; 3];
        for verified_now in &mut rounds {
            for token in &tokens {
                if !memory.remembers(by(token)) {
                    memory.remember(verified(by(token), &key));
                    *verified_now += 1;
                }
            }
        }
        let [first, second, third] = rounds;
        assert_eq!(first, tokens.len());
        assert!(second > tokens.len() / 2, "{second}");
        // The rest are tokens whose marks overwrote one another.
        assert!(third < tokens.len() / 50, "{third}");
    }

    #[test]
    fn what_is_remembered_is_bounded_by_its_bytes() {
        let (memory, key) = (TokenCache::new(), key());
        let length = 20_000;
        for number in 0..8000 {
            let token = format!("{number:0>length$}");
            memory.remember(verified(by(&token), &key));
            memory.get(by(&token), NOW);
        }
        let kept = memory.known.len() as u64;
        assert!((1..=CAPACITY / length as u64).contains(&kept), "{kept}");
        assert!(memory.known.weight() <= CAPACITY && memory.once.weight() <= ONCE);
    }

    #[test]
    fn the_context_of_a_token_counts() {
        let (memory, key) = (TokenCache::new(), key());
        let length = 20_000;
        let value = "v".repeat(length);
        for number in 0..8000 {
            let token = format!("token{number}");
            let context = ClaimEntries::new([("team", Some(value.clone())), ("site", None)]);
            let identity = Identity {
                claims: Claims::new(&token, None),
                context: context.unwrap(),
                ..Identity::default()
            };
            memory.remember(VerifiedToken {
                principal: Principal::new(identity),
                ..verified(by(&token), &key)
            });
            memory.get(by(&token), NOW);
        }
        let kept = memory.known.len() as u64;
        assert!((1..=CAPACITY / length as u64).contains(&kept), "{kept}");
    }
}
