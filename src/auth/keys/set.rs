//! Parses the keys of one issuer (JSON Web Key Set, RFC 7517, section 5), finds the key of a token, and retires keys
//! that are no longer published.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::auth::token::{Header, Jwk, JwkError, Key};
use crate::config::Algorithm;
use crate::error::BoxError;
use crate::error::cause::in_json;
use crate::util::bom;

/// The most keys of a set that are read.
const MAX_KEYS: usize = 100;

/// The keys that fit the algorithms of their issuer.
#[derive(Debug, Default)]
pub struct KeySet(Vec<Arc<Key>>);

/// The result of a search with a token's header.
#[derive(Debug)]
pub enum KeyMatch {
    /// The keys that may have signed the token: more than one only if the issuer gave several the same `kid`.
    Keys(Vec<Arc<Key>>),
    /// No key has the `kid`; the issuer may have published it since.
    Unknown,
    /// The header does not say which key it is, or its key does not fit its algorithm.
    Unfit,
}

#[derive(Deserialize)]
struct PublishedKeys<'a> {
    #[serde(borrow)]
    keys: Vec<&'a RawValue>,
}

impl KeySet {
    /// Reads a key set and keeps the keys that are usable for the algorithms in `allowed`. Calls `unusable` for
    /// each of the others, with its `kid`.
    ///
    /// # Errors
    /// The bytes are not a key set.
    pub(super) fn parse(
        bytes: &[u8],
        allowed: &[Algorithm],
        mut unusable: impl FnMut(Option<&str>, JwkError),
    ) -> Result<Self, BoxError> {
        let published: PublishedKeys<'_> =
            serde_json::from_slice(bom::without(bytes)).map_err(|error| {
                format!(
                    "is no key set (it {}); it must be JSON such as {{\"keys\": [{{\"kty\": …}}]}}",
                    in_json(&error)
                )
            })?;
        let count = published.keys.len();
        if count > MAX_KEYS {
            unusable(None, JwkError::TooMany(count, MAX_KEYS));
        }
        let mut keys = Vec::new();
        for raw in published.keys.into_iter().take(MAX_KEYS) {
            match serde_json::from_str::<Jwk>(raw.get()) {
                Ok(jwk) => match jwk.key(allowed) {
                    Ok(key) => keys.push(Arc::new(key)),
                    Err(error) => unusable(jwk.id(), error),
                },
                Err(_) => unusable(None, JwkError::Malformed),
            }
        }
        Ok(Self(keys))
    }

    /// Takes over the key objects that `old` has already, so that tokens verified with them stay verified.
    pub(super) fn succeed(mut self, old: &Self) -> Self {
        for key in &mut self.0 {
            if let Some(same) = old.0.iter().find(|other| other.is_same(key)) {
                *key = Arc::clone(same);
            }
        }
        self
    }

    /// Retires the keys that `new` does not have.
    pub(super) fn retire_but(&self, new: &Self) {
        for key in &self.0 {
            if !new.0.iter().any(|other| Arc::ptr_eq(other, key)) {
                key.retire();
            }
        }
    }

    /// Returns the keys that may have signed a token with this header. Without a `kid`, exactly one key must fit.
    pub fn find(&self, header: &Header) -> KeyMatch {
        let named = |key: &&Arc<Key>| header.kid.is_none() || key.id() == header.kid.as_deref();
        let mut named = self.0.iter().filter(named).peekable();
        if named.peek().is_none() {
            return KeyMatch::Unknown;
        }
        let fitting: Vec<_> = named.filter(|key| key.fits(header.alg)).cloned().collect();
        match fitting.len() {
            0 => KeyMatch::Unfit,
            1 => KeyMatch::Keys(fitting),
            _ if header.kid.is_none() => KeyMatch::Unfit,
            _ => KeyMatch::Keys(fitting),
        }
    }

    /// The number of keys.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// True if there are no keys.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests;
