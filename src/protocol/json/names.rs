//! Identifiers as JSON: arrays of strings.

use std::fmt;

use serde::Deserializer as _;
use serde::de::{DeserializeSeed, SeqAccess, Visitor};

use crate::error::Error;
use crate::protocol::identifier::{Identifier, IdentifierError, MAX_BYTES, Names};

/// The result of comparing a value with an identifier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::protocol) enum Agreement {
    /// The value is `null`.
    Absent,
    /// The value has the same names.
    Same,
    /// The value has other names.
    Different,
}

/// Compares an array of strings with an identifier without building another one.
pub(in crate::protocol) fn agreement(
    raw: &str,
    expected: &Identifier,
    field: &str,
) -> Result<Agreement, Error> {
    if raw == "null" {
        return Ok(Agreement::Absent);
    }
    if is_spelled(raw, expected.joined()) {
        return Ok(Agreement::Same);
    }
    let mut reader = serde_json::Deserializer::from_str(raw);
    reader
        .deserialize_seq(Compare(expected))
        .and_then(|same| reader.end().map(|()| same))
        .map(|same| {
            if same {
                Agreement::Same
            } else {
                Agreement::Different
            }
        })
        .map_err(|_| not_names(field))
}

/// The longest raw value that is read: more than any identifier takes, even if every character is escaped.
const MAX_RAW: usize = 8 * MAX_BYTES;

/// Reads an identifier; `None` for `null`.
pub(in crate::protocol) fn names(raw: &str, field: &str) -> Result<Option<Identifier>, Error> {
    if raw.len() > MAX_RAW {
        return Err(Error::invalid(format!("`{field}` is too long")));
    }
    if raw == "null" {
        return Ok(None);
    }
    let mut reader = serde_json::Deserializer::from_str(raw);
    reader
        .deserialize_seq(Collect)
        .and_then(|id| reader.end().map(|()| id))
        .map_err(|_| not_names(field))?
        .map(|names| Some(names.into()))
        .map_err(|why| Error::invalid(format!("`{field}`: {why}")))
}

/// Returns the identifier as JSON.
pub(in crate::protocol) fn spell(id: &Identifier) -> String {
    let names: Vec<&str> = id.names().collect();
    serde_json::to_string(&names).expect("texts are always JSON")
}

/// Writes `joined`, names separated by NUL, as [`spell`] does.
pub(super) fn spell_onto(out: &mut Vec<u8>, joined: &str) {
    out.push(b'[');
    let mut rest = Some(joined).filter(|joined| !joined.is_empty());
    while let Some(joined) = rest {
        let end = joined.bytes().position(|byte| byte == 0);
        let name = &joined[..end.unwrap_or(joined.len())];
        if name.bytes().any(is_escaped) {
            out.extend_from_slice(serde_json::Value::from(name).to_string().as_bytes());
        } else {
            out.push(b'"');
            out.extend_from_slice(name.as_bytes());
            out.push(b'"');
        }
        rest = end.map(|end| &joined[end + 1..]);
        if rest.is_some() {
            out.push(b',');
        }
    }
    out.push(b']');
}

/// Returns the length of that spelling, if no character needs an escape.
pub(super) fn spelled_length(joined: &str) -> usize {
    let commas = joined.bytes().filter(|byte| *byte == 0).count();
    let quotes = if joined.is_empty() { 0 } else { 2 + 2 * commas };
    joined.len() + quotes + 2
}

/// True if `raw`, a JSON value, is the usual spelling of `joined`, which is names separated by NUL. A value in
/// another spelling may be equal nevertheless.
pub(in crate::protocol) fn is_spelled(raw: &str, joined: &str) -> bool {
    let inner = raw
        .strip_prefix("[\"")
        .and_then(|rest| rest.strip_suffix("\"]"));
    let Some(mut rest) = inner.map(str::as_bytes) else {
        return false;
    };
    for &byte in joined.as_bytes() {
        if byte == 0 {
            let between = rest.strip_prefix(b"\",");
            let between = between.map(|rest| rest.strip_prefix(b" ").unwrap_or(rest));
            match between.and_then(|rest| rest.strip_prefix(b"\"")) {
                Some(after) => rest = after,
                None => return false,
            }
        } else {
            match rest {
                [first, after @ ..] if *first == byte && !is_escaped(byte) => rest = after,
                _ => return false,
            }
        }
    }
    rest.is_empty() && !joined.is_empty()
}

/// True if a byte must be escaped in a JSON string.
fn is_escaped(byte: u8) -> bool {
    byte < b' ' || matches!(byte, b'"' | b'\\')
}

fn not_names(field: &str) -> Error {
    Error::invalid(format!("`{field}` must be an array of strings"))
}

/// Builds an identifier; reads a value that is not an identifier to its end, because it may not even be names.
struct Collect;

impl<'de> Visitor<'de> for Collect {
    type Value = Result<Names, IdentifierError>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an array of strings")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        let mut all = Ok(Names::default());
        while seq.next_element_seed(Push(&mut all))?.is_some() {}
        Ok(all)
    }
}

struct Push<'n>(&'n mut Result<Names, IdentifierError>);

impl<'de> DeserializeSeed<'de> for Push<'_> {
    type Value = ();

    fn deserialize<D: serde::Deserializer<'de>>(self, reader: D) -> Result<(), D::Error> {
        reader.deserialize_str(self)
    }
}

impl Visitor<'_> for Push<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string")
    }

    fn visit_str<E: serde::de::Error>(self, name: &str) -> Result<(), E> {
        if let Ok(names) = self.0
            && let Err(why) = names.push(name)
        {
            *self.0 = Err(why);
        }
        Ok(())
    }
}

struct Compare<'e>(&'e Identifier);

impl<'de> Visitor<'de> for Compare<'_> {
    type Value = bool;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an array of strings")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<bool, A::Error> {
        let mut expected = self.0.names();
        let mut same = true;
        while let Some(equal) = seq.next_element_seed(Equal(expected.clone().next()))? {
            same &= equal;
            expected.next();
        }
        Ok(same && expected.next().is_none())
    }
}

struct Equal<'e>(Option<&'e str>);

impl<'de> DeserializeSeed<'de> for Equal<'_> {
    type Value = bool;

    fn deserialize<D: serde::Deserializer<'de>>(self, reader: D) -> Result<bool, D::Error> {
        reader.deserialize_str(self)
    }
}

impl Visitor<'_> for Equal<'_> {
    type Value = bool;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string")
    }

    fn visit_str<E: serde::de::Error>(self, name: &str) -> Result<bool, E> {
        Ok(self.0 == Some(name))
    }
}
