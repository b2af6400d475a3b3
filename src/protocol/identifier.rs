//! Identifiers: paths of names, such as `["prod","eu","t1"]`.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use crate::error::Error;

mod reading;
mod spelling;

pub use reading::{PathReading, is_ambiguous};
pub(super) use spelling::RESERVED;
pub use spelling::decode_segment;

/// The largest number of names in an identifier.
pub const MAX_NAMES: usize = 64;
/// The largest size of all names of an identifier together, in bytes.
pub const MAX_BYTES: usize = 8 << 10;
/// A path of names. No name is empty or contains NUL; the root has no names.
///
/// Cheap to clone and to compare. The order is that of the paths, name by name.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Identifier {
    /// The names, separated by NUL, which sorts before every other character.
    joined: Arc<str>,
}

/// The reason for which a text is not an identifier, or an identifier cannot be spelled with a delimiter.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IdentifierError {
    /// A `%` without two hexadecimal digits.
    #[error("an identifier has a `%` that is not followed by two hexadecimal digits")]
    PercentEncoding,
    /// Bytes that are not UTF-8.
    #[error("an identifier is not UTF-8")]
    Utf8,
    /// An empty name, as in `a$$b`, `$a`, `a$` or an empty text.
    #[error("an identifier has an empty name")]
    EmptyName,
    /// A name with a NUL.
    #[error("a name in an identifier contains NUL")]
    Nul,
    /// An identifier with more than [`MAX_NAMES`] names or [`MAX_BYTES`] bytes.
    #[error("an identifier has more than {MAX_NAMES} names or {MAX_BYTES} bytes")]
    TooLong,
    /// An identifier that would be split differently if it were joined with this delimiter.
    #[error("the identifier {0} cannot be spelled with the delimiter {1:?}: use another one")]
    Delimiter(String, String),
    /// A name that decodes to another path, or to another name.
    #[error(
        "the name {0:?} reads as another path, or as another name, once it is decoded again: use one without `/`, `\\`, `?`, `#`, `;`, control characters and `%` before two hexadecimal digits, or have the operator set `raw_path` for a catalog that routes on the path as it is sent"
    )]
    Ambiguous(String),
    /// A name that a catalog would cut at its own delimiter.
    #[error(
        "the name {0:?} holds `$`, which a catalog may read as a delimiter: use another name, or have the operator set `delimiters: any` for a catalog that honours `delimiter`"
    )]
    HoldsDelimiter(String),
}

/// An identifier that is being built.
#[derive(Default)]
pub(super) struct Names {
    joined: String,
    count: usize,
}

impl Names {
    /// Appends a name.
    pub(super) fn push(&mut self, name: &str) -> Result<(), IdentifierError> {
        if name.is_empty() {
            return Err(IdentifierError::EmptyName);
        }
        if memchr::memchr(0, name.as_bytes()).is_some() {
            return Err(IdentifierError::Nul);
        }
        if self.count == MAX_NAMES || self.joined.len() + name.len() > MAX_BYTES {
            return Err(IdentifierError::TooLong);
        }
        if self.count > 0 {
            self.joined.push('\0');
        }
        self.joined.push_str(name);
        self.count += 1;
        Ok(())
    }
}

impl From<Names> for Identifier {
    fn from(names: Names) -> Self {
        let joined = names.joined.into();
        Self { joined }
    }
}

impl Identifier {
    /// Returns the root, which has no names.
    pub fn root() -> Self {
        Self {
            joined: Arc::from(""),
        }
    }

    /// Builds an identifier from names in order.
    pub fn from_names<N: AsRef<str>>(
        names: impl IntoIterator<Item = N>,
    ) -> Result<Self, IdentifierError> {
        let mut all = Names::default();
        for name in names {
            all.push(name.as_ref())?;
        }
        Ok(all.into())
    }

    /// Returns the names in order; none for the root.
    pub fn names(&self) -> impl Iterator<Item = &str> + Clone {
        // Splitting an empty string yields one empty name, which no identifier has.
        self.joined.split('\0').filter(|name| !name.is_empty())
    }

    /// Returns the names, separated by NUL; empty for the root.
    pub(super) fn joined(&self) -> &str {
        &self.joined
    }

    /// Returns the names of the [`Identifier::parent`], separated by NUL; empty also if there is no parent.
    pub(super) fn joined_parent(&self) -> &str {
        let end = memchr::memrchr(0, self.joined.as_bytes()).unwrap_or(0);
        &self.joined[..end]
    }

    /// Returns the number of names.
    #[expect(
        clippy::len_without_is_empty,
        reason = "no names is the root: `is_root`"
    )]
    pub fn len(&self) -> usize {
        if self.is_root() {
            0
        } else {
            memchr::memchr_iter(0, self.joined.as_bytes()).count() + 1
        }
    }

    /// True if this is the root.
    pub fn is_root(&self) -> bool {
        self.joined.is_empty()
    }

    /// Returns the name at an index, counted from 0.
    pub fn get(&self, place: usize) -> Option<&str> {
        self.names().nth(place)
    }

    /// Returns the last name.
    pub fn last(&self) -> Option<&str> {
        self.joined
            .rsplit('\0')
            .next()
            .filter(|name| !name.is_empty())
    }

    /// True if `prefix` is this identifier or above it, compared by names and not by characters.
    pub fn starts_with(&self, prefix: &Self) -> bool {
        self.tail(prefix).is_some()
    }

    /// Returns the identifier without its last name; `None` for the root.
    pub fn parent(&self) -> Option<Self> {
        if self.is_root() {
            return None;
        }
        let end = self.joined.rfind('\0').unwrap_or(0);
        Some(Self {
            joined: Arc::from(&self.joined[..end]),
        })
    }

    /// Returns the names below `prefix`; `None` if this identifier is neither `prefix` nor below it.
    pub fn below<'a>(&'a self, prefix: &Self) -> Option<impl Iterator<Item = &'a str> + Clone> {
        let tail = self.tail(prefix)?;
        Some(tail.split('\0').filter(|name| !name.is_empty()))
    }

    /// Returns this identifier with `from` at its start replaced by `to`; `None` if it does not start with `from`, or
    /// if the result would be too long.
    pub fn rebase(&self, from: &Self, to: &Self) -> Option<Self> {
        let parts = self.rebased(from, to)?;
        let mut joined = String::with_capacity(parts.iter().map(|part| part.len()).sum());
        parts.iter().for_each(|part| joined.push_str(part));
        Some(Self {
            joined: joined.into(),
        })
    }

    /// True if [`Identifier::rebase`] would return an identifier.
    pub fn can_rebase(&self, from: &Self, to: &Self) -> bool {
        self.rebased(from, to).is_some()
    }

    fn rebased<'a>(&'a self, from: &Self, to: &'a Self) -> Option<[&'a str; 3]> {
        let tail = self.tail(from)?;
        let between = if tail.is_empty() || to.is_root() {
            ""
        } else {
            "\0"
        };
        let parts = [&to.joined, between, tail];
        // An identifier as short as this cannot have too many names, because each takes a byte and a NUL.
        if to.joined.len() + tail.len() < MAX_NAMES {
            return Some(parts);
        }
        let names = self.len() - from.len() + to.len();
        // Counts like `from_names`, which does not count the NUL before the last name.
        let bytes = to.joined.len() + tail.len() - usize::from(between.is_empty() && names > 1);
        (names <= MAX_NAMES && bytes <= MAX_BYTES).then_some(parts)
    }

    /// Returns the identifier with one more name.
    pub fn join(&self, name: &str) -> Result<Self, IdentifierError> {
        Self::from_names(self.names().chain([name]))
    }

    /// Returns this identifier as a reader sees it that joins and splits names by `delimiter`: a name below `prefix`
    /// that contains the delimiter becomes several, and there may be more than [`MAX_NAMES`] of them. `None` if this
    /// identifier is not below `prefix`, or if none of its names below it contains the delimiter.
    pub fn split_below(&self, prefix: &Self, delimiter: &str) -> Option<Self> {
        let tail = self.tail(prefix)?;
        if !tail.contains(delimiter) {
            return None;
        }
        let names = tail.split('\0').flat_map(|name| name.split(delimiter));
        let names = prefix.names().chain(names.filter(|name| !name.is_empty()));
        Some(Self {
            joined: names.collect::<Vec<_>>().join("\0").into(),
        })
    }

    /// Returns the names, separated by NUL, with a NUL also in place of each `delimiter` inside a name. Identifiers
    /// that are equal once they are joined by the delimiter have equal results, and the order of the results is that of
    /// the paths.
    pub fn split(&self, delimiter: &str) -> Cow<'_, str> {
        if self.joined.contains(delimiter) {
            self.joined.replace(delimiter, "\0").into()
        } else {
            Cow::Borrowed(&*self.joined)
        }
    }

    fn tail(&self, prefix: &Self) -> Option<&str> {
        let rest = self.joined.strip_prefix(&*prefix.joined)?;
        if prefix.is_root() || rest.is_empty() {
            return Some(rest);
        }
        rest.strip_prefix('\0')
    }
}

impl fmt::Display for Identifier {
    /// Writes the names joined by `$`, for messages.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_root() {
            return f.write_str("$");
        }
        for (place, name) in self.names().enumerate() {
            if place > 0 {
                f.write_str("$")?;
            }
            f.write_str(name)?;
        }
        Ok(())
    }
}

impl fmt::Debug for Identifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.names()).finish()
    }
}

impl From<IdentifierError> for Error {
    fn from(why: IdentifierError) -> Self {
        Self::invalid(why.to_string())
    }
}

#[cfg(test)]
mod tests;
