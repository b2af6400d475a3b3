//! Names that another reader of a path could take for other names, or for other paths.
//!
//! A catalog, or a proxy in front of it, may decode a path before it routes, decode it twice, or cut an identifier at
//! its own delimiter. Names that all of them read alike are passed on; others are refused, unless the catalog is
//! configured as one that reads exactly what was sent.

use super::{Identifier, IdentifierError};

/// The ways in which a catalog, with everything in front of it, reads the paths of requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PathReading {
    /// True if it routes on the path as it was sent, and decodes each segment once.
    pub raw_path: bool,
    /// True if it honours the parameter `delimiter`.
    pub any_delimiter: bool,
}

impl PathReading {
    /// The reading of a catalog that gets no paths.
    pub const EXACT: Self = Self {
        raw_path: true,
        any_delimiter: true,
    };
}

/// A byte that makes a decoded path another path, or an unreadable one.
const PATH: u8 = 1;
/// The default delimiter of catalogs.
const DELIMITER: u8 = 2;
/// A byte that may begin an escape that a second decoding resolves.
const ESCAPE: u8 = 4;

/// Returns the possible meanings of all bytes of a text. NUL, which separates names and is in none, has no meaning.
fn taken_for(text: &str) -> u8 {
    let meaning = |byte| match byte {
        b'/' | b'\\' | b'?' | b'#' | b';' | 1..=31 | 127 => PATH,
        b'$' => DELIMITER,
        b'%' => ESCAPE,
        _ => 0,
    };
    text.bytes().fold(0, |all, byte| all | meaning(byte))
}

/// True if a text that was decoded once becomes another part of a path, or another text, on a server that decodes
/// before it routes, or that decodes twice.
pub fn is_ambiguous(text: &str) -> bool {
    let taken_for = taken_for(text);
    taken_for & PATH != 0
        || taken_for & ESCAPE != 0 && has_escape(text)
        || matches!(text, "." | "..")
}

fn has_escape(text: &str) -> bool {
    let is_escape = |three: &[u8]| {
        three[0] == b'%' && three[1].is_ascii_hexdigit() && three[2].is_ascii_hexdigit()
    };
    text.as_bytes().windows(3).any(is_escape)
}

impl Identifier {
    /// True if one of the names contains this ASCII character.
    pub fn holds(&self, letter: u8) -> bool {
        self.joined.as_bytes().contains(&letter)
    }

    /// Refuses names that a catalog with this `reading` could take for others.
    pub fn check(&self, reading: PathReading) -> Result<(), IdentifierError> {
        let taken_for = taken_for(&self.joined);
        let is_plain = taken_for == 0 && !self.joined.starts_with('.');
        if is_plain || reading == PathReading::EXACT {
            return Ok(());
        }
        if !reading.raw_path {
            if let Some(name) = self.names().find(|name| is_ambiguous_in(name)) {
                return Err(IdentifierError::Ambiguous(name.to_owned()));
            }
            if matches!(&*self.joined, "." | "..") {
                return Err(IdentifierError::Ambiguous(self.joined.to_string()));
            }
        }
        if taken_for & DELIMITER != 0
            && !reading.any_delimiter
            && let Some(name) = self.names().find(|name| name.contains('$'))
        {
            return Err(IdentifierError::HoldsDelimiter(name.to_owned()));
        }
        Ok(())
    }
}

/// Does the same as [`is_ambiguous`] for a name that is not alone in its segment: `.` and `..` are harmless there.
fn is_ambiguous_in(name: &str) -> bool {
    !matches!(name, "." | "..") && is_ambiguous(name)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test says what it expects")]
    use super::*;

    const DEFAULT: PathReading = PathReading {
        raw_path: false,
        any_delimiter: false,
    };

    fn check(names: &[&str], reading: PathReading) -> bool {
        let id = Identifier::from_names(names).unwrap();
        id.check(reading).is_ok()
    }

    #[test]
    fn names_that_decode_to_another_path_are_refused() {
        for name in [
            "a/b", "..\\b", "../b", "a?b", "a#b", "a;b", "a\nb", "a\u{7f}", "a%2fb", "%41", "a%24b",
        ] {
            assert!(!check(&["n", name], DEFAULT), "{name}");
            assert!(!check(&[name], DEFAULT), "{name}");
            let raw = PathReading {
                raw_path: true,
                ..DEFAULT
            };
            assert!(check(&["n", name], raw), "{name}");
        }
        for name in [
            "t1", "a b", "100%", "a%b", "%2", "%zz", "a.b", "...", "a+b", "ü€", "a:b|c", "'\"&=",
        ] {
            assert!(check(&["n", name], DEFAULT), "{name}");
            assert!(check(&[name], DEFAULT), "{name}");
        }
    }

    #[test]
    fn dots_are_a_step_only_where_they_are_the_whole_segment() {
        for dots in [".", ".."] {
            assert!(!check(&[dots], DEFAULT));
            assert!(check(&["n", dots], DEFAULT) && check(&[dots, "n"], DEFAULT));
            assert!(check(&[dots], PathReading::EXACT));
        }
    }

    #[test]
    fn a_name_with_the_delimiter_needs_another_one() {
        assert!(!check(&["n", "a$b"], DEFAULT));
        let any = PathReading {
            any_delimiter: true,
            ..DEFAULT
        };
        assert!(check(&["n", "a$b"], any));
        assert!(!check(&["n", "a/b"], any));
    }
}
