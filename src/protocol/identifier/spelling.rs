//! Identifiers as text: names joined by a delimiter, percent-encoded in paths.

use std::borrow::Cow;
use std::sync::Arc;

use percent_encoding::{
    AsciiSet, NON_ALPHANUMERIC, percent_decode_str, percent_encode_byte, utf8_percent_encode,
};

use super::{Identifier, IdentifierError, MAX_BYTES, MAX_NAMES};

/// The longest raw identifier, in bytes, that is parsed in a buffer on the stack.
const FEW: usize = 256;
/// The spare bytes for encoded delimiters, enough for most identifiers.
const FEW_DELIMITERS: usize = 16;

/// All characters but the unreserved ones of RFC 3986, section 2.3.
pub(in crate::protocol) const RESERVED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~');

impl Identifier {
    /// Percent-decodes a path segment once and splits it. The delimiter alone is the root.
    pub fn parse_segment(raw_segment: &str, delimiter: &str) -> Result<Self, IdentifierError> {
        if let [delimiter] = delimiter.as_bytes()
            && let Some(plain) = Self::parse_plain(raw_segment.as_bytes(), *delimiter)
        {
            return Ok(plain);
        }
        Self::parse(&decode_segment(raw_segment)?, delimiter)
    }

    /// Does the same in one pass, for a delimiter of one byte; `None` if the segment has anything unusual, whether
    /// valid or not.
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
            // Letters and digits, the common case, come after all special bytes in ASCII.
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

    /// Returns the identifier as a path segment, percent-encoded.
    ///
    /// Fails if the segment would not be split into the same names again.
    pub fn to_segment(&self, delimiter: &str) -> Result<String, IdentifierError> {
        let mut segment = String::with_capacity(self.joined.len() + FEW_DELIMITERS);
        self.push_segment(&mut segment, delimiter)?;
        Ok(segment)
    }

    /// Appends the same to `path`, which remains unchanged on an error.
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

    /// Does the same for names of unreserved characters and a delimiter of one byte that is in none of them; returns
    /// false if the identifier is not such a one.
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

    /// Returns the names joined by a delimiter, not encoded; the delimiter alone for the root.
    ///
    /// Fails if the text would not be split into the same names again.
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

    /// Returns a delimiter that can spell all of `identifiers`: `$` if possible.
    pub fn delimiter_for(identifiers: &[&Self]) -> String {
        let spells = |delimiter: &str| identifiers.iter().all(|id| id.to_text(delimiter).is_ok());
        if let Some(delimiter) = ["$", "\u{1f}", "|", "/"].into_iter().find(|it| spells(it)) {
            return delimiter.to_owned();
        }
        // The delimiter grows until it is longer than any run of it in a name; its ends differ from its middle.
        let mut delimiter = String::from("\u{1e}\u{1f}");
        while !spells(&delimiter) {
            delimiter.insert(1, '$');
        }
        delimiter
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

/// True if [`RESERVED`] does not contain the byte.
fn is_unreserved(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~')
}

/// Percent-decodes a path segment once.
pub fn decode_segment(raw: &str) -> Result<Cow<'_, str>, IdentifierError> {
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

#[cfg(test)]
mod tests;
