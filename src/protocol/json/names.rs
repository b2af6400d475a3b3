//! Identifiers as JSON: arrays of strings.

use std::borrow::Cow;

use super::{each, string};
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
    let mut names = expected.names();
    let mut same = true;
    let walk = each(raw, |element| {
        let name = string(element).ok_or_else(|| not_names(field))?;
        same &= names.next() == Some(&*name);
        Ok(())
    });
    walk.map_err(|_| not_names(field))?;
    Ok(match same && names.next().is_none() {
        true => Agreement::Same,
        false => Agreement::Different,
    })
}

/// More than any identifier takes, every character escaped, is not even read.
const MAX_RAW: usize = 8 * MAX_BYTES;

/// Reads an identifier; `None` for `null`.
pub(in crate::protocol) fn names(raw: &str, field: &str) -> Result<Option<Identifier>, Error> {
    if raw.len() > MAX_RAW {
        return Err(Error::invalid(format!("`{field}` is too long")));
    }
    if raw == "null" {
        return Ok(None);
    }
    let mut names: Vec<Cow<'_, str>> = Vec::new();
    let walk = each(raw, |element| {
        names.push(string(element).ok_or_else(|| not_names(field))?);
        Ok(())
    });
    walk.map_err(|_| not_names(field))?;
    let id = Identifier::from_names(names);
    id.map(Some)
        .map_err(|why| Error::invalid(format!("`{field}`: {why}")))
}

/// The identifier as JSON.
pub(in crate::protocol) fn spell(id: &Identifier) -> String {
    let mut spelled = String::with_capacity(64);
    spelled.push('[');
    for (place, name) in id.names().enumerate() {
        if place > 0 {
            spelled.push(',');
        }
        if name.contains(|c: char| c < ' ' || matches!(c, '"' | '\\')) {
            spelled += &serde_json::Value::from(name).to_string();
        } else {
            spelled.push('"');
            spelled.push_str(name);
            spelled.push('"');
        }
    }
    spelled.push(']');
    spelled
}

fn not_names(field: &str) -> Error {
    Error::invalid(format!("`{field}` must be an array of strings"))
}
