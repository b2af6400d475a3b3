//! Tokens that were verified, so that a busy client costs one signature check.
//!
//! They are kept as they came. A token is known only if each of its bytes, and of the subject of the certificate that
//! it comes with, is that of one which was verified: no forgery can meet a remembered token, for there is nothing to
//! meet but the token itself. What finds it is a hash of the end of its signature, which no two tokens share by
//! accident, and if two did, the one that came last would be known; the hash is keyed, and the end is compared before
//! the rest, so that no refusal's time tells anything of a token to somebody who does not have its signature. What is
//! remembered is never believed past its time, nor after its key was retired.

use std::hash::{BuildHasher as _, Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

use quick_cache::sync::Cache;
use quick_cache::{DefaultHashBuilder, Weighter};

use crate::protocol::principal::Principal;
use crate::token::Verified;

/// What all remembered tokens may take, in bytes, roughly.
const CAPACITY: u64 = 64 << 20;
/// Tokens at first; the table grows with need.
const EXPECTED: usize = 4096;
/// So many bytes at the end of a token find it: 192 bits of its signature.
const END: usize = 32;

/// Remembered tokens.
pub(super) struct Memory {
    /// By what finds them. The table has that at hand: it never looks at a token to move it, or to let it go.
    known: Cache<u64, Known, Weight>,
    hasher: DefaultHashBuilder,
}

/// What a caller shows of itself.
#[derive(Clone, Copy)]
pub(super) struct Shown<'a> {
    pub(super) token: &'a str,
    /// The subject of its certificate.
    pub(super) certificate: Option<&'a str>,
}

/// A token that was verified. A clone costs one reference count.
#[derive(Clone)]
pub(super) struct Known(Arc<Remembered>);

struct Remembered {
    token: Box<str>,
    certificate: Option<Box<str>>,
    verified: Verified,
}

#[derive(Clone)]
struct Weight;

impl Memory {
    pub(super) fn new() -> Self {
        Self {
            known: Cache::with_weighter(EXPECTED, CAPACITY, Weight),
            hasher: DefaultHashBuilder::default(),
        }
    }

    /// What was remembered of what is shown, if it is still good at `now` (since the epoch).
    pub(super) fn recall(&self, shown: Shown<'_>, now: Duration) -> Option<Known> {
        let place = self.hasher.hash_one(shown);
        let known = self.known.get(&place)?;
        if !known.is(shown.token.as_bytes(), shown.certificate) {
            return None;
        }
        if known.is_good(now) {
            return Some(known);
        }
        self.known.remove(&place);
        None
    }

    /// Remembers what was shown and verified.
    pub(super) fn remember(&self, shown: Shown<'_>, verified: Verified) -> Known {
        let known = Known(Arc::new(Remembered {
            token: shown.token.into(),
            certificate: shown.certificate.map(Into::into),
            verified,
        }));
        self.known
            .insert(self.hasher.hash_one(shown), known.clone());
        known
    }
}

impl Known {
    /// Whether it is this token, with this certificate.
    pub(super) fn is(&self, token: &[u8], certificate: Option<&str>) -> bool {
        let known = self.0.token.as_bytes();
        end(known) == end(token) && known == token && self.0.certificate.as_deref() == certificate
    }

    /// Whether it is still good at `now`.
    pub(super) fn is_good(&self, now: Duration) -> bool {
        let verified = &self.0.verified;
        now < verified.until && !verified.key.is_retired()
    }

    pub(super) fn principal(&self) -> &Principal {
        &self.0.verified.principal
    }
}

/// What finds a token.
fn end(token: &[u8]) -> &[u8] {
    token.last_chunk::<END>().map_or(token, |end| end)
}

impl Hash for Shown<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write(end(self.token.as_bytes()));
        if let Some(subject) = self.certificate {
            state.write(subject.as_bytes());
        }
    }
}

impl Weighter<u64, Known> for Weight {
    fn weight(&self, _: &u64, known: &Known) -> u64 {
        let Remembered {
            token, certificate, ..
        } = &*known.0;
        let length = token.len() + certificate.as_ref().map_or(0, |subject| subject.len());
        // Claims in memory take about three times their JSON; and there is the token itself.
        512 + 4 * length as u64
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests say what they expect")]

    use super::*;
    use crate::config::Algorithm;
    use crate::token::{Jwk, Key};

    const NOW: Duration = Duration::from_secs(1000);
    const LATER: Duration = Duration::from_secs(2000);

    /// RFC 8037, A.2.
    fn key() -> Arc<Key> {
        let jwk =
            r#"{"kty":"OKP","crv":"Ed25519","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}"#;
        let jwk: Jwk = serde_json::from_str(jwk).unwrap();
        Arc::new(jwk.key(&[Algorithm::EdDSA]).unwrap())
    }

    fn verified(subject: &str, key: &Arc<Key>) -> Verified {
        Verified {
            principal: Principal::certified(subject),
            until: LATER,
            key: Arc::clone(key),
        }
    }

    fn by(token: &str) -> Shown<'_> {
        Shown {
            token,
            certificate: None,
        }
    }

    fn fits(known: &Known, shown: Shown<'_>, now: Duration) -> bool {
        known.is(shown.token.as_bytes(), shown.certificate) && known.is_good(now)
    }

    #[test]
    fn a_token_is_known_by_every_byte_of_it() {
        let (memory, key) = (Memory::new(), key());
        let token = format!("{}.{}.{}", "h".repeat(40), "p".repeat(300), "s".repeat(86));
        let known = memory.remember(by(&token), verified("a", &key));
        assert!(fits(&known, by(&token), NOW));
        assert!(memory.recall(by(&token), NOW).is_some());
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
        for other in others {
            assert!(!fits(&known, by(&other), NOW), "{other}");
            assert!(memory.recall(by(&other), NOW).is_none(), "{other}");
        }
    }

    #[test]
    fn tokens_with_the_same_end_are_two() {
        let (memory, key) = (Memory::new(), key());
        let end = "s".repeat(END);
        let both = ["a", "b"].map(|start| format!("{start}{end}"));
        for token in &both {
            let known = memory.remember(by(token), verified(token, &key));
            assert_eq!(&**known.principal().subject(), token);
            let again = memory.recall(by(token), NOW).unwrap();
            assert_eq!(&**again.principal().subject(), token);
        }
        // Neither passes for the other: the first one has to be verified again.
        assert!(memory.recall(by(&both[0]), NOW).is_none());
    }

    #[test]
    fn a_token_is_known_only_with_the_certificate_it_came_with() {
        let (memory, key) = (Memory::new(), key());
        let shown = |certificate| Shown {
            token: "a.b.c",
            certificate,
        };
        let all = [None, Some(""), Some("CN=a"), Some("CN=b")];
        for certificate in all {
            let known = memory.remember(shown(certificate), verified("a", &key));
            for other in all {
                assert_eq!(fits(&known, shown(other), NOW), other == certificate);
            }
            assert!(memory.recall(shown(certificate), NOW).is_some());
            let place = memory.hasher.hash_one(shown(certificate));
            memory.known.remove(&place);
            assert!(memory.recall(shown(certificate), NOW).is_none());
        }
    }

    #[test]
    fn nothing_is_known_past_its_time_or_its_key() {
        let (memory, key) = (Memory::new(), key());
        let known = memory.remember(by("a.b.c"), verified("a", &key));
        assert!(!fits(&known, by("a.b.c"), LATER));
        assert!(memory.recall(by("a.b.c"), LATER).is_none());
        // What was found to be too old is gone, whatever the clock says next.
        assert!(memory.recall(by("a.b.c"), NOW).is_none());
        let known = memory.remember(by("a.b.c"), verified("a", &key));
        key.retire();
        assert!(!fits(&known, by("a.b.c"), NOW));
        assert!(memory.recall(by("a.b.c"), NOW).is_none());
    }

    #[test]
    fn what_is_remembered_is_bounded_by_its_bytes() {
        let (memory, key) = (Memory::new(), key());
        let length = 20_000;
        for number in 0..4000 {
            let token = format!("{number:0>length$}");
            memory.remember(by(&token), verified("a", &key));
        }
        assert!(memory.known.weight() <= CAPACITY);
        let kept = memory.known.len() as u64;
        assert!(
            (1..=CAPACITY / (4 * length as u64)).contains(&kept),
            "{kept}"
        );
    }
}
