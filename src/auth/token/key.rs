//! A public key of an issuer: verifies a signature with the algorithms that `jwk.rs` found for it, and is retired once
//! its issuer publishes it no more.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};

use jsonwebtoken::{DecodingKey, crypto};

use super::UnverifiedToken;
use crate::config::Algorithm;

/// A key of an issuer, ready to verify. Its algorithms are fixed when it is made.
pub struct Key {
    pub(super) id: Option<String>,
    /// The algorithms of the key, all of the family of `public`.
    pub(super) algorithms: Vec<Algorithm>,
    pub(super) public: DecodingKey,
    pub(super) retired: AtomicBool,
}

impl Key {
    /// The `kid`; `None` if the issuer gave none.
    pub fn id(&self) -> Option<&str> {
        self.id.as_deref()
    }

    /// True if the key can verify signatures of this algorithm.
    pub fn fits(&self, algorithm: Algorithm) -> bool {
        self.algorithms.contains(&algorithm)
    }

    /// True if the token's signature is by this key, with the algorithm of the token's header.
    pub fn has_signed(&self, token: &UnverifiedToken<'_>) -> bool {
        let algorithm = token.header().alg;
        self.fits(algorithm)
            && crypto::verify(token.signature(), token.signed(), &self.public, algorithm)
                .is_ok_and(|is_signed| is_signed)
    }

    /// True if `other` is the same key for the same use.
    pub fn is_same(&self, other: &Self) -> bool {
        let bytes = (
            self.public.try_get_as_bytes(),
            other.public.try_get_as_bytes(),
        );
        self.id == other.id
            && self.algorithms == other.algorithms
            && matches!(bytes, (Ok(one), Ok(two)) if one == two)
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

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Key({:?} for {:?})", self.id, self.algorithms)
    }
}
