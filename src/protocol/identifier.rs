//! Identifiers: paths of names, as `["prod","eu","t1"]`; as a string, joined by a delimiter.

use std::fmt;
use std::sync::Arc;

use percent_encoding::{
    AsciiSet, NON_ALPHANUMERIC, percent_decode_str, percent_encode_byte, utf8_percent_encode,
};

use crate::error::Error;

/// More names than this are no identifier.
pub const MAX_NAMES: usize = 64;
/// More bytes than this, over all names, are no identifier.
pub const MAX_BYTES: usize = 8 << 10;
/// An identifier that is no longer than this is parsed without memory for what it is parsed from.
const FEW: usize = 256;
/// What the encoded delimiters of most identifiers add to their length.
const FEW_DELIMITERS: usize = 16;

/// All but the unreserved characters of RFC 3986, section 2.3.
pub(super) const RESERVED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~');

/// A path of names. None is empty, none contains NUL; no names at all is the root.
///
/// Cheap to clone and to compare. The order is that of the paths, name by name.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Identifier {
    /// The names with a NUL between them: it sorts before every other character.
    joined: Arc<str>,
}

/// Why something is not an identifier, or cannot be spelled with a delimiter.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IdentifierError {
    /// A `%` without two hexadecimal digits.
    #[error("an identifier has a `%` that is not followed by two hexadecimal digits")]
    PercentEncoding,
    /// Bytes that are not UTF-8.
    #[error("an identifier is not UTF-8")]
    Utf8,
    /// `a$$b`, `$a`, `a$`, or nothing at all.
    #[error("an identifier has an empty name")]
    EmptyName,
    /// A name with a NUL.
    #[error("a name in an identifier contains NUL")]
    Nul,
    /// More than [`MAX_NAMES`] or [`MAX_BYTES`].
    #[error("an identifier has more than {MAX_NAMES} names or {MAX_BYTES} bytes")]
    TooLong,
    /// Joined with this delimiter it would be split differently.
    #[error("the identifier {0} cannot be spelled with the delimiter {1:?}: use another one")]
    Delimiter(String, String),
}

/// An identifier in the making.
#[derive(Default)]
pub(super) struct Names {
    joined: String,
    count: usize,
}

impl Names {
    /// Adds a name at its end.
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
    /// The root: no names.
    pub fn root() -> Self {
        Self {
            joined: Arc::from(""),
        }
    }

    /// Percent-decodes a path segment once and splits it. The delimiter alone is the root.
    pub fn parse_segment(raw_segment: &str, delimiter: &str) -> Result<Self, IdentifierError> {
        if let [delimiter] = delimiter.as_bytes()
            && let Some(plain) = Self::parse_plain(raw_segment.as_bytes(), *delimiter)
        {
            return Ok(plain);
        }
        Self::parse(&decode_segment(raw_segment)?, delimiter)
    }

    /// The same in one pass, for a delimiter of one character; `None` where there is anything unusual, be it wrong or
    /// not.
    fn parse_plain(raw: &[u8], delimiter: u8) -> Option<Self> {
        let mut few = [0; FEW];
        let mut many = Vec::new();
        let joined = if raw.len() <= FEW {
            &mut few[..]
        } else {
            many.resize(raw.len(), 0);
            &mut many[..]
        };
        let (mut length, mut names, mut name_is_empty) = (0, 1, true);
        let mut rest = raw;
        while let [byte, after @ ..] = rest {
            rest = after;
            let mut byte = *byte;
            // Letters and digits, of which names are made, are behind all that is special.
            if byte > b'%' && byte != delimiter {
                joined[length] = byte;
                length += 1;
                name_is_empty = false;
                continue;
            }
            if byte == b'%' {
                let [high, low, after @ ..] = rest else {
                    return None;
                };
                byte = hex(*high)? << 4 | hex(*low)?;
                rest = after;
            }
            let ends = byte == delimiter;
            if byte == 0 || ends && name_is_empty {
                return None;
            }
            joined[length] = if ends { 0 } else { byte };
            length += 1;
            names += usize::from(ends);
            name_is_empty = ends;
        }
        if name_is_empty || names > MAX_NAMES || length > MAX_BYTES {
            return None;
        }
        let joined = std::str::from_utf8(&joined[..length]).ok()?;
        Some(Self {
            joined: Arc::from(joined),
        })
    }

    /// Splits a decoded identifier. The delimiter alone is the root.
    pub fn parse(text: &str, delimiter: &str) -> Result<Self, IdentifierError> {
        if text == delimiter {
            return Ok(Self::root());
        }
        if delimiter.is_empty() || !text.contains(delimiter) {
            return Self::from_names([text]);
        }
        Self::from_names(text.split(delimiter))
    }

    /// From names in order.
    pub fn from_names<N: AsRef<str>>(
        names: impl IntoIterator<Item = N>,
    ) -> Result<Self, IdentifierError> {
        let mut all = Names::default();
        for name in names {
            all.push(name.as_ref())?;
        }
        Ok(all.into())
    }

    /// The names in order; none for the root.
    pub fn names(&self) -> impl Iterator<Item = &str> + Clone {
        // Splitting an empty string yields one empty name, which no identifier has.
        self.joined.split('\0').filter(|name| !name.is_empty())
    }

    /// The names with a NUL between them; empty for the root.
    pub(super) fn joined(&self) -> &str {
        &self.joined
    }

    /// The same for the [`Identifier::parent`]; empty also where there is none.
    pub(super) fn joined_parent(&self) -> &str {
        let end = memchr::memrchr(0, self.joined.as_bytes()).unwrap_or(0);
        &self.joined[..end]
    }

    /// How many names there are.
    #[expect(
        clippy::len_without_is_empty,
        reason = "no names is the root: `is_root`"
    )]
    pub fn len(&self) -> usize {
        match self.is_root() {
            true => 0,
            false => memchr::memchr_iter(0, self.joined.as_bytes()).count() + 1,
        }
    }

    /// Whether this is the root.
    pub fn is_root(&self) -> bool {
        self.joined.is_empty()
    }

    /// The name at a place, counted from 0.
    pub fn get(&self, place: usize) -> Option<&str> {
        self.names().nth(place)
    }

    /// The last name.
    pub fn last(&self) -> Option<&str> {
        self.joined
            .rsplit('\0')
            .next()
            .filter(|name| !name.is_empty())
    }

    /// Whether `prefix` is this identifier or above it, by names and not by characters.
    pub fn starts_with(&self, prefix: &Self) -> bool {
        self.tail(prefix).is_some()
    }

    /// The identifier one name shorter; `None` for the root.
    pub fn parent(&self) -> Option<Self> {
        if self.is_root() {
            return None;
        }
        let end = self.joined.rfind('\0').unwrap_or(0);
        Some(Self {
            joined: Arc::from(&self.joined[..end]),
        })
    }

    /// The names below `prefix`, if this identifier is it or is below it.
    pub fn below<'a>(&'a self, prefix: &Self) -> Option<impl Iterator<Item = &'a str> + Clone> {
        let tail = self.tail(prefix)?;
        Some(tail.split('\0').filter(|name| !name.is_empty()))
    }

    /// This identifier with `from` at its start replaced by `to`; `None` also where that would be too long for one.
    pub fn rebase(&self, from: &Self, to: &Self) -> Option<Self> {
        let parts = self.rebased(from, to)?;
        let mut joined = String::with_capacity(parts.iter().map(|part| part.len()).sum());
        parts.iter().for_each(|part| joined.push_str(part));
        Some(Self {
            joined: joined.into(),
        })
    }

    /// Whether there is such a [`Identifier::rebase`].
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
        // So short, it has not too many names, for each has a byte and a NUL behind it.
        if to.joined.len() + tail.len() < MAX_NAMES {
            return Some(parts);
        }
        let names = self.len() - from.len() + to.len();
        // As `from_names` counts: without the last NUL.
        let bytes = to.joined.len() + tail.len() - usize::from(between.is_empty() && names > 1);
        (names <= MAX_NAMES && bytes <= MAX_BYTES).then_some(parts)
    }

    /// The identifier with one more name.
    pub fn join(&self, name: &str) -> Result<Self, IdentifierError> {
        Self::from_names(self.names().chain([name]))
    }

    /// The identifier as a path segment, percent-encoded.
    ///
    /// An error if it would not be split into the same names again.
    pub fn to_segment(&self, delimiter: &str) -> Result<String, IdentifierError> {
        let mut segment = String::with_capacity(self.joined.len() + FEW_DELIMITERS);
        self.push_segment(&mut segment, delimiter)?;
        Ok(segment)
    }

    /// The same at the end of `path`, which it leaves as it is where there is an error.
    pub fn push_segment(&self, path: &mut String, delimiter: &str) -> Result<(), IdentifierError> {
        if self.push_plain_segment(path, delimiter) {
            return Ok(());
        }
        let joined = self.to_text(delimiter)?;
        // URL parsers drop a segment that is `.`; a server's router does not drop `%2E`.
        if joined.bytes().all(|byte| byte == b'.') {
            path.push_str(&joined.replace('.', "%2E"));
        } else {
            path.extend(utf8_percent_encode(&joined, RESERVED));
        }
        Ok(())
    }

    /// The same, where nothing has to be encoded but a delimiter of one character, which then is in no name.
    fn push_plain_segment(&self, path: &mut String, delimiter: &str) -> bool {
        let &[delimiter] = delimiter.as_bytes() else {
            return false;
        };
        let is_plain = |byte| byte == 0 || is_unreserved(byte);
        if is_unreserved(delimiter)
            || self.is_root()
            || self.joined.starts_with('.')
            || !self.joined.bytes().all(is_plain)
        {
            return false;
        }
        let mut rest = &*self.joined;
        while let Some(end) = rest.bytes().position(|byte| byte == 0) {
            path.push_str(&rest[..end]);
            path.push_str(percent_encode_byte(delimiter));
            rest = &rest[end + 1..];
        }
        path.push_str(rest);
        true
    }

    /// The names joined by a delimiter, not encoded; the delimiter alone for the root.
    ///
    /// An error if it would not be split into the same names again.
    pub fn to_text(&self, delimiter: &str) -> Result<String, IdentifierError> {
        if self.is_root() {
            return Ok(delimiter.to_owned());
        }
        let text = self.joined.replace('\0', delimiter);
        let survives = !delimiter.is_empty() && text.split(delimiter).eq(self.joined.split('\0'));
        if survives {
            Ok(text)
        } else {
            Err(IdentifierError::Delimiter(
                format!("{self:?}"),
                delimiter.to_owned(),
            ))
        }
    }

    /// A delimiter that can spell all of `identifiers`: `$` where possible.
    pub fn delimiter_for(identifiers: &[&Self]) -> String {
        let spells = |delimiter: &str| identifiers.iter().all(|id| id.to_text(delimiter).is_ok());
        if let Some(delimiter) = ["$", "\u{1f}", "|", "/"].into_iter().find(|it| spells(it)) {
            return delimiter.to_owned();
        }
        // Longer than any run of it in a name, and its ends are no part of its middle.
        let mut delimiter = String::from("\u{1e}\u{1f}");
        while !spells(&delimiter) {
            delimiter.insert(1, '$');
        }
        delimiter
    }

    fn tail(&self, prefix: &Self) -> Option<&str> {
        let rest = self.joined.strip_prefix(&*prefix.joined)?;
        if prefix.is_root() || rest.is_empty() {
            return Some(rest);
        }
        rest.strip_prefix('\0')
    }
}

fn hex(digit: u8) -> Option<u8> {
    match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        b'A'..=b'F' => Some(digit - b'A' + 10),
        _ => None,
    }
}

/// As [`RESERVED`] has it.
fn is_unreserved(byte: u8) -> bool {
    const UNRESERVED: [bool; 256] = {
        let mut all = [false; 256];
        let mut byte = 0;
        while byte < 128 {
            let at = byte as u8;
            all[byte] = at.is_ascii_alphanumeric() || matches!(at, b'-' | b'.' | b'_' | b'~');
            byte += 1;
        }
        all
    };
    UNRESERVED[usize::from(byte)]
}

/// Percent-decodes a path segment once.
pub fn decode_segment(raw: &str) -> Result<std::borrow::Cow<'_, str>, IdentifierError> {
    let mut rest = raw.as_bytes();
    while let Some(at) = memchr::memchr(b'%', rest) {
        let digits = rest.get(at + 1..at + 3);
        if !digits.is_some_and(|two| two.iter().all(u8::is_ascii_hexdigit)) {
            return Err(IdentifierError::PercentEncoding);
        }
        rest = &rest[at + 3..];
    }
    percent_decode_str(raw)
        .decode_utf8()
        .map_err(|_| IdentifierError::Utf8)
}

impl fmt::Display for Identifier {
    /// The names joined by `$`, for people.
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
