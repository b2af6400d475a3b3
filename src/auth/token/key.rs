//! A public key that verifies signatures.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};

use aws_lc_rs::digest::{self, SHA256, SHA384, SHA512};
use aws_lc_rs::signature::ParsedPublicKey;

use super::UnverifiedToken;
use crate::config::Algorithm;

/// A key of an issuer, ready to verify. Its algorithms are fixed when it is made.
pub struct Key {
    pub(super) id: Option<String>,
    pub(super) verifiers: Vec<(Algorithm, ParsedPublicKey)>,
    pub(super) retired: AtomicBool,
}

impl Key {
    /// The `kid`; `None` if the issuer gave none.
    pub fn id(&self) -> Option<&str> {
        self.id.as_deref()
    }

    /// True if the key can verify signatures of this algorithm.
    pub fn fits(&self, algorithm: Algorithm) -> bool {
        self.verifiers
            .iter()
            .any(|(served, _)| *served == algorithm)
    }

    /// True if the token's signature is by this key, with the algorithm of the token's header.
    pub fn has_signed(&self, token: &UnverifiedToken<'_>) -> bool {
        let algorithm = token.header().algorithm;
        let verifiers = self.verifiers.iter();
        let mut fitting = verifiers.filter(|(served, _)| *served == algorithm);
        fitting.any(|(_, key)| is_signed(token.signed(), token.signature(), algorithm, key))
    }

    /// True if `other` is the same key for the same use.
    pub fn is_same(&self, other: &Self) -> bool {
        let material = |key: &Self| {
            let verifiers = key.verifiers.iter();
            verifiers
                .map(|(algorithm, key)| (*algorithm, key.as_ref().to_vec()))
                .collect::<Vec<_>>()
        };
        self.id == other.id && material(self) == material(other)
    }

    /// Notes that the issuer no longer publishes the key: tokens that it verified must no longer be accepted.
    pub fn retire(&self) {
        self.retired.store(true, Ordering::Release);
    }

    /// True if the issuer no longer publishes the key.
    pub fn is_retired(&self) -> bool {
        self.retired.load(Ordering::Acquire)
    }
}

fn is_signed(message: &[u8], signature: &[u8], by: Algorithm, key: &ParsedPublicKey) -> bool {
    use Algorithm::{ES256, ES384, EdDSA, PS256, PS384, PS512, RS256, RS384, RS512};
    let digest = match by {
        RS256 | PS256 | ES256 => &SHA256,
        RS384 | PS384 | ES384 => &SHA384,
        RS512 | PS512 => &SHA512,
        // EdDSA signs the message itself.
        EdDSA => return key.verify_sig(message, signature).is_ok(),
    };
    // A digest that is made here stays on the stack. The library's own uses contexts that it allocates and
    // copies.
    let digest = digest::digest(digest, message);
    key.verify_digest_sig(&digest, signature).is_ok()
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let algorithms: Vec<_> = self
            .verifiers
            .iter()
            .map(|(algorithm, _)| algorithm)
            .collect();
        write!(f, "Key({:?} for {algorithms:?})", self.id)
    }
}
