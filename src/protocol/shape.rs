//! The shapes of requests that the gateway checks itself, so that a refusal names the field.
//!
//! Fields that are not named here pass: a newer contract works without a newer gateway. The entries of a batch are
//! checked where they are read, in [`super::batch`] and [`super::commit`].

use bytes::Bytes;

use crate::error::Error;

use super::identifier::Identifier;
use super::json::{Document, Edits, Member, brief, names, string};
use super::operation::Operation;

/// The most bytes of one text of an operation, as JSON spells it. Identifiers have a bound of their own.
const MOST_TEXT: usize = 8 << 10;
/// The most pairs of an update: more than any table has columns.
const MOST_UPDATES: usize = 10_000;

/// Checks the body of a request if its shape is checked; 400, code 13, with the field in the message.
pub fn check(operation: Operation, body: &[u8]) -> Result<(), Error> {
    match operation {
        Operation::DeclareTable => declare(Document::new(body)?),
        Operation::UpdateTable => update(Document::new(body)?),
        _ => Ok(()),
    }
}

fn declare(document: Document<'_>) -> Result<(), Error> {
    if document.is_nothing() {
        return Ok(());
    }
    document.members(document.text, "the body", &mut |member| {
        declared(&member, "")
    })
}

/// Checks a field of a declaration; `path` is that of its object, with a dot at its end.
pub(super) fn declared(member: &Member<'_>, path: &str) -> Result<(), Error> {
    let shape = match &*member.name {
        "location" => "a string",
        "vend_credentials" => "true or false",
        "properties" => "an object of strings",
        _ => return Ok(()),
    };
    plain(member, path)?;
    if member.name == "location" {
        short(member, path)?;
    }
    let fits = match &*member.name {
        _ if member.value == "null" => true,
        "location" => string(member.value).is_some(),
        "vend_credentials" => matches!(member.value, "true" | "false"),
        _ => return properties(member.value, &format!("{path}properties")),
    };
    require(fits, &format!("{path}{}", member.name), shape)
}

fn properties(value: &str, path: &str) -> Result<(), Error> {
    let document = Document { text: value };
    document.members(value, &format!("`{path}`"), &mut |property| {
        let field = format!("{path}.{}", brief(&property.name));
        require(string(property.value).is_some(), &field, "a string")
    })
}

fn update(document: Document<'_>) -> Result<(), Error> {
    let mut updates = None;
    if !document.is_nothing() {
        document.members(document.text, "the body", &mut |member| {
            if member.name == "updates" {
                plain(&member, "")?;
                updates = Some(member.value);
            }
            Ok(())
        })?;
    }
    let updates = updates.ok_or_else(|| Error::invalid("`updates` is required"))?;
    let mut count = 0;
    document.elements(updates, "`updates`", &mut |index, pair| {
        count += 1;
        let field = format!("updates[{index}]");
        if index == MOST_UPDATES {
            let most = format!("`{field}`: an update has at most {MOST_UPDATES} pairs");
            return Err(Error::invalid(most));
        }
        let mut parts = 0;
        document.elements(pair, &format!("`{field}`"), &mut |part, value| {
            parts += 1;
            let field = format!("{field}[{part}]");
            require(string(value).is_some(), &field, "a string")
        })?;
        require(
            parts == 2,
            &field,
            "exactly two strings: a column and an expression",
        )
    })?;
    require(count > 0, "updates", "a list with at least one pair")
}

/// Refuses a text of an operation that is too long for the batch log, which keeps it.
pub(super) fn short(member: &Member<'_>, path: &str) -> Result<(), Error> {
    let field = format_args!("{path}{}", member.name);
    if member.value.len() <= MOST_TEXT {
        return Ok(());
    }
    Err(Error::invalid(format!(
        "`{field}` has {} bytes; at most {MOST_TEXT} are allowed",
        member.value.len()
    )))
}

pub(super) fn require(fits: bool, field: &str, shape: &str) -> Result<(), Error> {
    if fits {
        Ok(())
    } else {
        Err(Error::invalid(format!("`{field}` must be {shape}")))
    }
}

/// Reads an object inside of a request that names a table of its own. Returns that table, which is not the root,
/// and the object's own bytes without `identity` and `context`. Calls `see` with every other member.
pub(super) fn named<'a>(
    raw: &'a str,
    at: &str,
    see: &mut dyn FnMut(&Member<'a>) -> Result<(), Error>,
) -> Result<(Identifier, Bytes), Error> {
    let document = Document { text: raw };
    let mut id = None;
    let mut edits = Edits::default();
    let mut removed = 0;
    document.members(raw, &format!("`{at}`"), &mut |member| match &*member.name {
        "identity" | "context" => {
            edits.remove(document, &member, removed);
            removed += 1;
            Ok(())
        }
        "id" => {
            plain(&member, &format!("{at}."))?;
            let field = format!("{at}.id");
            id = names(member.value, &field)?.filter(|id| !id.is_root());
            require(id.is_some(), &field, "an array of at least one name")
        }
        _ => see(&member),
    })?;
    let id = id.ok_or_else(|| Error::invalid(format!("`{at}.id` is required")))?;
    Ok((id, edits.apply(Bytes::copy_from_slice(raw.as_bytes()))))
}

/// Returns the bytes of an object that [`named`] has read, with another identifier.
pub(super) fn renamed(raw: &Bytes, table: &Identifier) -> Bytes {
    let Ok(document) = Document::new(raw) else {
        return raw.clone();
    };
    let mut edits = Edits::default();
    let walked = document.members(document.text, "the object", &mut |member| {
        if member.name == "id" {
            edits.rename(document, document.span(member.value), table.joined());
        }
        Ok(())
    });
    debug_assert!(walked.is_ok(), "what was read can be read again");
    edits.apply(raw.clone())
}

/// Refuses a member whose value is checked if its name has escapes; `path` is that of its object, with a dot at its end.
pub(super) fn plain(member: &Member<'_>, path: &str) -> Result<(), Error> {
    if !member.escaped {
        return Ok(());
    }
    Err(Error::invalid(format!(
        "`{path}{}` is spelled with escapes",
        member.name
    )))
}

#[cfg(test)]
mod tests;
