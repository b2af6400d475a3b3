//! The context of a request: the limits and checks of its entries (key, value, number, bytes), and the source that
//! wins: a claim of the token, else a header, else the body.
//!
//! An entry can always be sent as a header: its key is a lower-case token (RFC 9110, section 5.1), its value UTF-8
//! without control characters and without spaces around it.

mod claim_entries;

use std::borrow::Cow;
use std::fmt;
use std::iter::once;
use std::sync::Arc;

use http::header::InvalidHeaderName;
use http::{HeaderMap, HeaderName, HeaderValue};

use crate::error::Error;
use crate::error::code::Code;
pub use claim_entries::ClaimEntries;

/// The characters that a value must not begin or end with.
const SPACES: [char; 2] = [' ', '\t'];
/// The prefix of keys of a body's `context` that represent headers of the request. Clients send that header, and also
/// leave the entry in the body.
const OF_HEADERS: &[u8] = b"header.";
/// The longest key, in bytes.
pub const MAX_KEY: usize = 256;

/// The rules for the headers that are context, and the limits for what a client may send.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ContextRules {
    prefixes: Vec<String>,
    most: ContextLimits,
    shown: LoggedKeys,
}

/// The limits for what a client may send.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct ContextLimits {
    entries: usize,
    bytes: usize,
}

/// The keys whose entries appear in the access log; `None` if there are none, so that no request needs to look.
type LoggedKeys = Option<Arc<[String]>>;

/// The context of one request. The default has no entries, and none can be added to it.
#[derive(Clone, Default)]
pub struct Context {
    claims: ClaimEntries,
    client: Vec<Entry>,
    bytes: usize,
    most: ContextLimits,
    shown: LoggedKeys,
}

/// One entry. Cheap to clone.
#[derive(Clone, PartialEq, Eq)]
pub struct Entry {
    name: HeaderName,
    prefix: usize,
    value: HeaderValue,
    source: Source,
}

/// The source of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// A claim that the issuer set.
    Claim,
    /// A header from the client.
    Header,
    /// The body's `context`, from the client.
    Body,
}

/// The reason for which a context is refused: always 400, code 13.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ContextError {
    /// A header that consists of a prefix only, or a key that is not allowed in a header name.
    #[error(
        "the context key `{0}` is not valid: use letters, digits, `-`, `_` and `.`, at most {MAX_KEY} bytes"
    )]
    Key(String),
    /// The value of this key cannot be sent in a header.
    #[error(
        "the context entry `{0}` has a value with control characters, with spaces around it, or that is not UTF-8"
    )]
    Value(String),
    /// One key twice, in two headers or within the body.
    #[error("the context entry `{0}` is given more than once")]
    Repeated(String),
    /// The number of entries exceeds the limit.
    #[error("the request carries more than {0} context entries")]
    TooMany(usize),
    /// The size of all entries exceeds the limit.
    #[error("the context entries of the request take more than {0} bytes")]
    TooLarge(usize),
}

impl ContextRules {
    /// Returns the rules. `prefixes` are in lower case; `max_bytes` limits the sum of keys and values.
    pub fn new(mut prefixes: Vec<String>, max_entries: usize, max_bytes: usize) -> Self {
        // The longest prefix comes first: one prefix may be the beginning of another.
        prefixes.sort_by_key(|prefix| std::cmp::Reverse(prefix.len()));
        Self {
            prefixes,
            most: ContextLimits {
                entries: max_entries,
                bytes: max_bytes,
            },
            shown: None,
        }
    }

    /// Sets the keys, in lower case, whose entries appear in the access log.
    #[must_use]
    pub fn showing(mut self, keys: Vec<String>) -> Self {
        self.shown = (!keys.is_empty()).then(|| keys.into());
        self
    }

    /// Returns the length of the prefix that makes this header a context header; `None` if it is none.
    pub fn prefix_of(&self, name: &HeaderName) -> Option<usize> {
        let name = name.as_str().as_bytes();
        let mut prefixes = self.prefixes.iter();
        prefixes
            .find(|prefix| begins(name, prefix.as_bytes()))
            .map(String::len)
    }
}

impl Context {
    /// Removes the context headers from `headers`, also if the result is an error, and returns the context.
    ///
    /// A header for a key that `claims` govern is dropped before it is checked: it cannot exceed limits, be repeated
    /// or be malformed.
    ///
    /// # Errors
    /// A key or value that cannot be sent in a header, a repeated key (also through two prefixes), a limit that is
    /// exceeded.
    pub fn take(
        headers: &mut HeaderMap,
        rules: &ContextRules,
        claims: ClaimEntries,
    ) -> Result<Self, ContextError> {
        let mut context = Self {
            claims,
            client: Vec::new(),
            bytes: 0,
            most: rules.most,
            shown: rules.shown.clone(),
        };
        // Allocates only if there is more than one context header.
        let (mut first, mut others) = (None, Vec::new());
        for name in headers.keys() {
            let Some(prefix) = rules.prefix_of(name) else {
                continue;
            };
            match &first {
                None => first = Some((name.clone(), prefix)),
                Some(_) => others.push((name.clone(), prefix)),
            }
        }
        let Some(first) = first else {
            return Ok(context);
        };
        let taken = others.len() + 1;
        context.client = Vec::with_capacity(taken.min(rules.most.entries));
        for (name, prefix) in once(first).chain(others) {
            let more = headers.len() > headers.keys_len()
                && headers.get_all(&name).iter().nth(1).is_some();
            let Some(value) = headers.remove(&name) else {
                continue;
            };
            let key = &name.as_str()[prefix..];
            if context.claims.governs(key) {
                continue;
            }
            if more {
                return Err(ContextError::Repeated(key.to_owned()));
            }
            context.insert(Entry::new(name, prefix, value, Source::Header)?)?;
        }
        Ok(context)
    }

    /// Adds a pair of the body's `context`. Returns false if the pair must not reach a catalog, because a claim or a
    /// header has its key.
    ///
    /// Also returns false for a key that represents a header, because headers have rules of their own. In the body it
    /// could carry the caller's token, or context that only the issuer may set, to a catalog that should not get it.
    ///
    /// # Errors
    /// The errors of [`Context::take`]; keys that differ only in case are one key.
    pub fn add_body(&mut self, key: &str, value: &str) -> Result<bool, ContextError> {
        let begin = key.as_bytes().get(..OF_HEADERS.len());
        if begin.is_some_and(|begin| begin.eq_ignore_ascii_case(OF_HEADERS)) {
            return Ok(false);
        }
        let name =
            HeaderName::from_bytes(key.as_bytes()).map_err(|_| ContextError::Key(shown(key)))?;
        if self.claims.governs(name.as_str()) {
            return Ok(false);
        }
        let mut others = self.client.iter();
        match others.find(|entry| entry.key() == name.as_str()) {
            Some(entry) if entry.source == Source::Header => return Ok(false),
            Some(_) => return Err(ContextError::Repeated(shown(key))),
            None => {}
        }
        let value = HeaderValue::from_str(value).map_err(|_| ContextError::Value(shown(key)))?;
        self.insert(Entry::new(name, 0, value, Source::Body)?)?;
        Ok(true)
    }

    /// Returns the context of a request from before, as [`pairs`](Self::pairs) kept it.
    pub fn of(pairs: &[(String, String)]) -> Self {
        let mut context = Self::default();
        for (key, value) in pairs {
            context.restore(key, value);
        }
        context
    }

    /// Adds an entry that a request carried before, or that its table is known by. Limits do not count it again.
    pub fn restore(&mut self, key: &str, value: &str) {
        let (name, value) = (
            HeaderName::from_bytes(key.as_bytes()),
            HeaderValue::from_str(value),
        );
        if let (Ok(name), Ok(value)) = (name, value)
            && let Ok(entry) = Entry::new(name, 0, value, Source::Header)
        {
            self.client.push(entry);
        }
    }

    /// Returns every entry as a pair of key and value.
    pub fn pairs(&self) -> Vec<(String, String)> {
        let pair = |entry: &Entry| (entry.key().to_owned(), entry.value().to_owned());
        self.iter().map(pair).collect()
    }

    /// Returns every entry, each key once: those of claims, then those of headers, then those of the body.
    pub fn iter(&self) -> impl Iterator<Item = &Entry> + Clone {
        self.claims.iter().chain(&self.client)
    }

    /// Returns the value of a key, which is in lower case.
    pub fn get(&self, key: &str) -> Option<&str> {
        self.iter()
            .find(|entry| entry.key() == key)
            .map(Entry::value)
    }

    /// Returns the entries from one source that appear in the access log.
    pub fn shown(&self, source: Source) -> impl Iterator<Item = (String, String)> {
        let keys = self.shown.as_deref().unwrap_or_default();
        let shown = move |entry: &&Entry| keys.iter().any(|key| key == entry.key());
        let of_source = self.iter().filter(move |entry| entry.source == source);
        let pair = |entry: &Entry| (entry.key().to_owned(), entry.value().to_owned());
        of_source.filter(shown).map(pair)
    }

    /// True if any entry may appear in the access log.
    pub fn shows(&self) -> bool {
        self.shown.is_some()
    }

    /// True if there is no entry.
    pub fn is_empty(&self) -> bool {
        self.iter().next().is_none()
    }

    fn insert(&mut self, entry: Entry) -> Result<(), ContextError> {
        if self.client.iter().any(|other| other.key() == entry.key()) {
            return Err(ContextError::Repeated(entry.key().to_owned()));
        }
        if self.client.len() == self.most.entries {
            return Err(ContextError::TooMany(self.most.entries));
        }
        self.bytes += entry.key().len() + entry.value.len();
        if self.bytes > self.most.bytes {
            return Err(ContextError::TooLarge(self.most.bytes));
        }
        self.client.push(entry);
        Ok(())
    }
}

impl Entry {
    fn new(
        name: HeaderName,
        prefix: usize,
        value: HeaderValue,
        source: Source,
    ) -> Result<Self, ContextError> {
        let key = &name.as_str()[prefix..];
        if key.is_empty() || key.len() > MAX_KEY {
            return Err(ContextError::Key(shown(key)));
        }
        match std::str::from_utf8(value.as_bytes()) {
            // A tab inside a value is legal in a header and kept.
            Ok(text) if !text.starts_with(SPACES) && !text.ends_with(SPACES) => {}
            _ => return Err(ContextError::Value(shown(key))),
        }
        Ok(Self {
            name,
            prefix,
            value,
            source,
        })
    }

    /// Returns the key, in lower case.
    pub fn key(&self) -> &str {
        &self.name.as_str()[self.prefix..]
    }

    /// Returns the value.
    pub fn value(&self) -> &str {
        std::str::from_utf8(self.value.as_bytes()).expect("checked when the entry was made")
    }

    /// Returns the value in the form for a header; a clone shares the bytes.
    pub fn header_value(&self) -> &HeaderValue {
        &self.value
    }

    /// Returns the name of the header that carries this entry to a catalog with this context prefix (in lower case).
    ///
    /// # Errors
    /// `prefix` cannot begin a header name.
    pub fn header_name(&self, prefix: &str) -> Result<Cow<'_, HeaderName>, InvalidHeaderName> {
        if self.prefix == prefix.len() && self.name.as_str().starts_with(prefix) {
            return Ok(Cow::Borrowed(&self.name));
        }
        HeaderName::try_from([prefix, self.key()].concat()).map(Cow::Owned)
    }

    /// Returns the source of the entry.
    pub fn source(&self) -> Source {
        self.source
    }
}

/// True if `name` begins with `prefix`. Most headers differ in the first byte, so that it is compared first.
#[inline]
fn begins(name: &[u8], prefix: &[u8]) -> bool {
    match (name, prefix) {
        ([own, ..], [first, ..]) if own != first => false,
        _ => name.starts_with(prefix),
    }
}

/// Returns the beginning of an illegal key, for a message.
fn shown(key: &str) -> String {
    key.chars().filter(|c| !c.is_control()).take(64).collect()
}

impl From<ContextError> for Error {
    fn from(error: ContextError) -> Self {
        Self::new(Code::InvalidInput, error.to_string())
    }
}

impl fmt::Debug for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={:?} ({:?})", self.key(), self.value, self.source)
    }
}

impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

#[cfg(test)]
mod tests;
