//! Tokens that were verified, so that a busy client costs one signature check.
//!
//! They are known by the SHA-256 of their bytes, and of the subject of the certificate they came with: whoever could
//! make two tokens of one hash could forge signatures as well. What is remembered is never believed past its time, nor after its key was retired.

use std::sync::Arc;
use std::time::Duration;

use aws_lc_rs::digest::{self, SHA256, digest};
use quick_cache::Weighter;
use quick_cache::sync::Cache;

use crate::protocol::principal::Principal;
use crate::token::Verified;

/// What all remembered tokens may take, in bytes, roughly.
const CAPACITY: u64 = 64 << 20;
/// Tokens at first; the table grows with need.
const EXPECTED: usize = 4096;

/// Remembered tokens.
pub(super) struct Memory(Cache<Hash, Arc<Remembered>, Weight>);

/// The SHA-256 of a token, and of the subject of the certificate it came with.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Hash([u8; 32]);

struct Remembered {
    verified: Verified,
    weight: u64,
}

#[derive(Clone)]
struct Weight;

impl Weighter<Hash, Arc<Remembered>> for Weight {
    fn weight(&self, _: &Hash, remembered: &Arc<Remembered>) -> u64 {
        remembered.weight
    }
}

impl Memory {
    pub(super) fn new() -> Self {
        Self(Cache::with_weighter(EXPECTED, CAPACITY, Weight))
    }

    /// The caller of a token that was verified before and is still good at `now` (since the epoch).
    pub(super) fn recall(&self, hash: &Hash, now: Duration) -> Option<Principal> {
        let remembered = self.0.get(hash)?;
        let verified = &remembered.verified;
        if now < verified.until && !verified.key.is_retired() {
            return Some(verified.principal.clone());
        }
        self.0.remove(hash);
        None
    }

    /// Remembers a token that is `length` bytes long, what it came with included.
    pub(super) fn remember(&self, hash: Hash, length: usize, verified: Verified) {
        let remembered = Remembered {
            verified,
            // Claims in memory take about three times their JSON.
            weight: 512 + 3 * length as u64,
        };
        self.0.insert(hash, Arc::new(remembered));
    }
}

impl Hash {
    pub(super) fn of(token: &str, certificate: Option<&str>) -> Self {
        let digest = match certificate {
            None => digest(&SHA256, token.as_bytes()),
            Some(subject) => {
                let mut both = digest::Context::new(&SHA256);
                both.update(token.as_bytes());
                // No token has this byte.
                both.update(&[0]);
                both.update(subject.as_bytes());
                both.finish()
            }
        };
        let mut hash = [0; 32];
        hash.copy_from_slice(digest.as_ref());
        Self(hash)
    }
}
