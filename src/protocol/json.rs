//! JSON as bytes with positions: needed values are found by their spans, all others stay as they are.
//!
//! Unneeded values are skipped without building them and without recursion, so that neither a deep nor a wide document
//! costs more than its own size.

mod edit;
mod names;
mod repeats;

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;

use serde::Deserializer as _;
use serde::de::{DeserializeSeed, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use crate::error::Error;

pub(super) use edit::Edits;
pub(super) use names::{Agreement, agreement, is_spelled, names, spell};
use repeats::SeenNames;

/// The most members of an object in which none may come twice: their names are kept until its end.
const MOST_MEMBERS: usize = 10_000;

/// A JSON text in UTF-8, whose slices know their position in it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Document<'a> {
    pub(super) text: &'a str,
}

/// A member of an object.
#[derive(Debug)]
pub(super) struct Member<'a> {
    /// The key, decoded.
    pub(super) name: Cow<'a, str>,
    /// True if the key is spelled with escapes.
    pub(super) escaped: bool,
    /// The value as it is spelled.
    pub(super) value: &'a str,
    /// The range from the key's first quote to the value's end.
    pub(super) span: Range<usize>,
    /// The number of members before it.
    pub(super) place: usize,
}

impl<'a> Document<'a> {
    /// Reads a request's body; 400 if it is not UTF-8 (RFC 8259, section 8.1).
    pub(super) fn new(body: &'a [u8]) -> Result<Self, Error> {
        std::str::from_utf8(body)
            .map(|text| Self { text })
            .map_err(|_| Error::invalid("the body is not UTF-8"))
    }

    /// True if there is nothing in the document: no bytes, or `null`, which clients send with operations that need no
    /// body.
    pub(super) fn is_nothing(self) -> bool {
        // Most bodies are objects and need no further look.
        if self.text.starts_with('{') {
            return false;
        }
        let text = self.text.trim_matches([' ', '\t', '\r', '\n']);
        text.is_empty() || text == "null"
    }

    /// Returns the position of a slice of this document.
    pub(super) fn span(self, part: &'a str) -> Range<usize> {
        let start = part.as_ptr().addr() - self.text.as_ptr().addr();
        start..start + part.len()
    }

    /// Calls `see` with each member of the object `part`, which is this document or a slice of it. `what` names the
    /// object in the error for a value that is not an object, that has a member twice, or more than [`MOST_MEMBERS`].
    pub(super) fn members(
        self,
        part: &'a str,
        what: &str,
        see: &mut dyn FnMut(Member<'a>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        self.members_where(part, what, &|_| true, see).map(drop)
    }

    /// Does the same for the members whose names are `wanted`, and skips the values of the others. Returns the number
    /// of all members.
    pub(super) fn members_where(
        self,
        part: &'a str,
        what: &str,
        wanted: &dyn Fn(&str) -> bool,
        see: &mut dyn FnMut(Member<'a>) -> Result<(), Error>,
    ) -> Result<usize, Error> {
        self.walk((part, what), wanted, see, Some(SeenNames::default()))
    }

    /// Does the same for an object that may have a member twice, because its reader decides which of them counts.
    pub(super) fn all_members_where(
        self,
        part: &'a str,
        what: &str,
        wanted: &dyn Fn(&str) -> bool,
        see: &mut dyn FnMut(Member<'a>) -> Result<(), Error>,
    ) -> Result<usize, Error> {
        self.walk((part, what), wanted, see, None)
    }

    fn walk(
        self,
        (part, what): (&'a str, &str),
        wanted: &dyn Fn(&str) -> bool,
        see: &mut dyn FnMut(Member<'a>) -> Result<(), Error>,
        seen: Option<SeenNames<'a>>,
    ) -> Result<usize, Error> {
        let mut refusal = None;
        let mut reader = serde_json::Deserializer::from_str(part);
        let walk = Members {
            document: self,
            has_escapes: memchr::memchr(b'\\', part.as_bytes()).is_some(),
            wanted,
            see,
            what,
            seen,
            refusal: &mut refusal,
        };
        let outcome = reader
            .deserialize_map(walk)
            .and_then(|count| reader.end().map(|()| count));
        outcome.map_err(|why| refused(&why, refusal, part, what, "an object"))
    }

    /// Calls `see` with each element of the array `part` and its index.
    pub(super) fn elements(
        self,
        part: &'a str,
        what: &str,
        see: &mut dyn FnMut(usize, &'a str) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let mut refusal = None;
        let mut index = 0;
        let mut step = |value: &'a str| {
            index += 1;
            see(index - 1, value)
        };
        let mut reader = serde_json::Deserializer::from_str(part);
        let walk = Elements {
            step: &mut step,
            refusal: &mut refusal,
        };
        let outcome = reader.deserialize_seq(walk).and_then(|()| reader.end());
        outcome.map_err(|why| refused(&why, refusal, part, what, "an array"))
    }
}

/// Returns a key's text, and true if it has escapes. A key that cannot be decoded matches no known name.
fn decode_key(raw: &str) -> (Cow<'_, str>, bool) {
    let inner = raw
        .strip_prefix('"')
        .and_then(|rest| rest.strip_suffix('"'))
        .unwrap_or(raw);
    if !inner.contains('\\') {
        return (Cow::Borrowed(inner), false);
    }
    let decoded = serde_json::from_str(raw).map_or(Cow::Borrowed(inner), Cow::Owned);
    (decoded, true)
}

/// Returns the error for a value that cannot be read, or `refusal`, the error of a callback that stopped the reading.
fn refused(
    why: &serde_json::Error,
    refusal: Option<Error>,
    part: &str,
    what: &str,
    shape: &str,
) -> Error {
    if let Some(refusal) = refusal {
        return refusal;
    }
    let first = part
        .trim_start_matches([' ', '\t', '\r', '\n'])
        .chars()
        .next();
    let fits = match shape {
        "an object" => first == Some('{'),
        _ => first == Some('['),
    };
    if fits {
        Error::invalid(format!("{what} is not valid JSON: {why}"))
    } else {
        Error::invalid(format!("{what} must be {shape}"))
    }
}

/// Stores an error of the gateway aside, because it would lose its kind inside the reader's error.
fn keep<E: serde::de::Error>(aside: &mut Option<Error>, refusal: Error) -> E {
    *aside = Some(refusal);
    E::custom("refused")
}

struct Members<'w, 'a> {
    document: Document<'a>,
    /// True if a key may be spelled with escapes.
    has_escapes: bool,
    wanted: &'w dyn Fn(&str) -> bool,
    see: &'w mut dyn FnMut(Member<'a>) -> Result<(), Error>,
    /// The name of the object in errors.
    what: &'w str,
    /// The names so far; `None` if one may come twice.
    seen: Option<SeenNames<'a>>,
    refusal: &'w mut Option<Error>,
}

impl<'a> Members<'_, 'a> {
    /// Returns the error for a member that the object has twice.
    fn repeated(&self, name: &str) -> Error {
        let object = self.what.strip_prefix('`');
        let object = object.and_then(|what| what.strip_suffix('`'));
        let (object, dot) = object.map_or(("", ""), |object| (object, "."));
        Error::invalid(format!(
            "`{object}{dot}{}` is given more than once",
            brief(name)
        ))
    }

    fn key<A: MapAccess<'a>>(&self, map: &mut A) -> Result<Option<Key<'a>>, A::Error> {
        if !self.has_escapes {
            let name = map.next_key::<&'a str>()?;
            return Ok(name.map(|name| Key {
                name: Cow::Borrowed(name),
                escaped: false,
                start: self.document.span(name).start - 1,
            }));
        }
        let raw = map.next_key::<&'a RawValue>()?.map(RawValue::get);
        Ok(raw.map(|raw| {
            let (name, escaped) = decode_key(raw);
            let start = self.document.span(raw).start;
            Key {
                name,
                escaped,
                start,
            }
        }))
    }
}

/// A key, decoded.
struct Key<'a> {
    name: Cow<'a, str>,
    /// True if it is spelled with escapes.
    escaped: bool,
    /// The position of its first quote.
    start: usize,
}

impl<'a> Visitor<'a> for Members<'_, 'a> {
    type Value = usize;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'a>>(mut self, mut map: A) -> Result<usize, A::Error> {
        let mut place = 0;
        while let Some(key) = self.key(&mut map)? {
            if let Some(seen) = &mut self.seen {
                if !seen.add(key.name.clone()) {
                    let refusal = self.repeated(&key.name);
                    return Err(keep(self.refusal, refusal));
                }
                if place == MOST_MEMBERS {
                    let words = format!("{} has more than {MOST_MEMBERS} members", self.what);
                    return Err(keep(self.refusal, Error::invalid(words)));
                }
            }
            if (self.wanted)(&key.name) {
                let value = map.next_value::<&'a RawValue>()?.get();
                let member = Member {
                    name: key.name,
                    escaped: key.escaped,
                    value,
                    span: key.start..self.document.span(value).end,
                    place,
                };
                (self.see)(member).map_err(|refusal| keep(self.refusal, refusal))?;
            } else {
                map.next_value::<IgnoredAny>()?;
            }
            place += 1;
        }
        Ok(place)
    }
}

/// A visitor that calls `step` for each element.
struct Elements<'w, 'a> {
    step: &'w mut dyn FnMut(&'a str) -> Result<(), Error>,
    refusal: &'w mut Option<Error>,
}

impl<'a> Visitor<'a> for Elements<'_, 'a> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an array")
    }

    fn visit_seq<A: SeqAccess<'a>>(self, mut seq: A) -> Result<(), A::Error> {
        while let Some(value) = seq.next_element::<&'a RawValue>()? {
            (self.step)(value.get()).map_err(|refusal| keep(self.refusal, refusal))?;
        }
        Ok(())
    }
}

/// Reads a string value, borrowed if it has no escapes; `None` if it is not a string.
pub(super) fn string(raw: &str) -> Option<Cow<'_, str>> {
    struct Text;
    impl<'a> Visitor<'a> for Text {
        type Value = Cow<'a, str>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a string")
        }

        fn visit_borrowed_str<E: serde::de::Error>(self, text: &'a str) -> Result<Self::Value, E> {
            Ok(Cow::Borrowed(text))
        }

        fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Self::Value, E> {
            Ok(Cow::Owned(text.to_owned()))
        }
    }
    impl<'a> DeserializeSeed<'a> for Text {
        type Value = Cow<'a, str>;

        fn deserialize<D: serde::Deserializer<'a>>(
            self,
            reader: D,
        ) -> Result<Self::Value, D::Error> {
            reader.deserialize_str(self)
        }
    }
    let mut reader = serde_json::Deserializer::from_str(raw);
    let text = Text.deserialize(&mut reader).ok()?;
    reader.end().ok()?;
    Some(text)
}

/// Returns a name from a body for a message, cut if it is long.
pub(super) fn brief(name: &str) -> &str {
    &name[..name.floor_char_boundary(64)]
}

#[cfg(test)]
mod tests;
