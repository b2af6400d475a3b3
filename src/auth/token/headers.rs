//! The headers of tokens that were good, so that what a key's tokens have in common is read once.
//!
//! What a header says depends on its text alone, and whatever else is asked of a token is asked of each one. Only
//! headers of verified tokens are kept: nobody but an issuer has a say in which those are.

use std::sync::Arc;

use quick_cache::sync::Cache;

use super::Header;

/// How many are kept: some keys of some issuers.
const MOST: usize = 64;
/// The longest that is kept, encoded, in bytes.
const MAX_BYTES: usize = 1024;

/// Headers by their encoded text.
pub struct Headers(Cache<Box<str>, Arc<Header>>);

impl Headers {
    /// What an encoded header says, if it is known.
    pub(super) fn get(&self, encoded: &str) -> Option<Arc<Header>> {
        self.0.get(encoded)
    }

    /// Keeps what a good token's header says.
    pub fn keep(&self, encoded: &str, header: Arc<Header>) {
        if encoded.len() <= MAX_BYTES {
            self.0.insert(encoded.into(), header);
        }
    }
}

impl Default for Headers {
    fn default() -> Self {
        Self(Cache::new(MOST))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Algorithm;

    #[test]
    fn what_is_kept_is_known_by_every_byte_of_it_and_is_bounded() {
        let headers = Headers::default();
        let header = Arc::new(Header {
            algorithm: Algorithm::RS256,
            key_id: Some("one".to_owned()),
            is_at_jwt: false,
        });
        headers.keep("abc", Arc::clone(&header));
        assert_eq!(headers.get("abc"), Some(Arc::clone(&header)));
        for other in ["", "ab", "abd", "Abc", "abcd"] {
            assert_eq!(headers.get(other), None, "{other}");
        }
        headers.keep(&"x".repeat(MAX_BYTES + 1), Arc::clone(&header));
        assert_eq!(headers.0.len(), 1);
        for number in 0..1000 {
            headers.keep(&format!("{number}"), Arc::clone(&header));
        }
        assert!((1..=MOST).contains(&headers.0.len()));
    }
}
