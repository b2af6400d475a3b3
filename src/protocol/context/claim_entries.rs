//! The context entries from the claims of a token.

use std::sync::Arc;

use bytes::BytesMut;
use http::{HeaderName, HeaderValue};

use super::{ContextError, Entry, Source, shown};

/// The memory of all entries together beside their names and values, in bytes, roughly: the text that the values share,
/// and the counts of references.
const TOGETHER: usize = 128;

/// The context entries from the claims of a token. Created once for a token and shared by its requests.
#[derive(Clone, Debug, Default)]
pub struct ClaimEntries(Option<Arc<GovernedEntries>>);

#[derive(Debug, Default)]
struct GovernedEntries {
    entries: Vec<Entry>,
    /// The governed keys whose claim the token does not have: no source may set them.
    absent: Vec<HeaderName>,
}

impl ClaimEntries {
    /// Returns the entries for pairs of a context key and the claim's value; `None` if the token has no such claim.
    ///
    /// # Errors
    /// A key or a value that cannot be sent in a header.
    pub fn new<'a>(
        governed: impl IntoIterator<Item = (&'a str, Option<String>)>,
    ) -> Result<Self, ContextError> {
        let mut all = GovernedEntries::default();
        let governed: Vec<_> = governed.into_iter().collect();
        let bytes = governed
            .iter()
            .flat_map(|(_, value)| value)
            .map(String::len);
        // All values are parts of one text. A text of its own would grow by 32 bytes with its first copy, and stay so.
        let mut text = BytesMut::with_capacity(bytes.sum());
        let set = governed.iter().filter(|(_, value)| value.is_some()).count();
        all.entries.reserve_exact(set);
        all.absent.reserve_exact(governed.len() - set);
        for (key, value) in governed {
            let name = HeaderName::from_bytes(key.as_bytes())
                .map_err(|_| ContextError::Key(shown(key)))?;
            let Some(value) = value else {
                all.absent.push(name);
                continue;
            };
            text.extend_from_slice(value.as_bytes());
            let value = HeaderValue::from_maybe_shared(text.split().freeze());
            let value = value.map_err(|_| ContextError::Value(shown(key)))?;
            all.entries.push(Entry::new(name, 0, value, Source::Claim)?);
        }
        let none = all.entries.is_empty() && all.absent.is_empty();
        Ok(Self((!none).then(|| Arc::new(all))))
    }

    /// True if only the issuer may set this key (in lower case).
    pub fn governs(&self, key: &str) -> bool {
        self.0.as_deref().is_some_and(|all| {
            all.entries.iter().any(|entry| entry.key() == key)
                || all.absent.iter().any(|name| name.as_str() == key)
        })
    }

    /// The memory that these entries take, in bytes, roughly.
    pub fn bytes(&self) -> usize {
        let Some(all) = self.0.as_deref() else {
            return 0;
        };
        let entries = all.entries.iter();
        let entries = entries.map(|one| size_of::<Entry>() + one.key().len() + one.value().len());
        let absent = all.absent.iter();
        let absent = absent.map(|name| size_of::<HeaderName>() + name.as_str().len());
        TOGETHER + entries.sum::<usize>() + absent.sum::<usize>()
    }

    /// Returns the entries that the token's claims set.
    pub fn iter(&self) -> impl Iterator<Item = &Entry> + Clone {
        self.0.iter().flat_map(|all| &all.entries)
    }
}
