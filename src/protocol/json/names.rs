//! Identifiers as JSON: arrays of strings.

use std::fmt;

use serde::Deserializer as _;
use serde::de::{DeserializeSeed, SeqAccess, Visitor};

use crate::error::Error;
use crate::protocol::identifier::{Identifier, MAX_BYTES};

/// How a value compares with an identifier.
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
    let mut reader = serde_json::Deserializer::from_str(raw);
    reader
        .deserialize_seq(Compare(expected))
        .and_then(|same| reader.end().map(|()| same))
        .map(|same| match same {
            true => Agreement::Same,
            false => Agreement::Different,
        })
        .map_err(|_| not_names(field))
}

/// More than any identifier takes, every character escaped, is not even read.
const MAX_RAW: usize = 8 * MAX_BYTES;

/// Reads an identifier; `None` for `null`.
pub(in crate::protocol) fn names(raw: &str, field: &str) -> Result<Option<Identifier>, Error> {
    if raw.len() > MAX_RAW {
        return Err(Error::invalid(format!("`{field}` is too long")));
    }
    let names: Option<Vec<String>> = serde_json::from_str(raw).map_err(|_| not_names(field))?;
    names
        .map(Identifier::from_names)
        .transpose()
        .map_err(|why| Error::invalid(format!("`{field}`: {why}")))
}

/// The identifier as JSON.
pub(in crate::protocol) fn spell(id: &Identifier) -> String {
    let names: Vec<&str> = id.names().collect();
    serde_json::to_string(&names).expect("texts are always JSON")
}

fn not_names(field: &str) -> Error {
    Error::invalid(format!("`{field}` must be an array of strings"))
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
