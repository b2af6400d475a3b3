//! Caches the headers of verified tokens, so that the header that a key's tokens have in common is parsed once.
//!
//! The meaning of a header depends on its text alone, and everything else is checked for each token. Only headers
//! of verified tokens are kept, so only an issuer decides which those are.

use std::sync::Arc;

use quick_cache::sync::Cache;

use super::Header;

/// The most headers that are kept: several keys of several issuers.
const MOST: usize = 64;
/// The longest header that is kept, encoded, in bytes.
const MAX_BYTES: usize = 1024;

/// A cache of headers by their encoded text.
pub struct Headers(Cache<Box<str>, Arc<Header>>);

impl Headers {
    /// Returns the parsed header of an encoded one; `None` if it is not cached.
    pub(super) fn get(&self, encoded: &str) -> Option<Arc<Header>> {
        self.0.get(encoded)
    }

    /// Keeps the header of a verified token.
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
        let header = Arc::new(Header::new(Algorithm::RS256));
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
