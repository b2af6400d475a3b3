//! JSON as bytes with places: what is looked at is found by its span, all else is left as it is.
//!
//! Values that nobody asked for are skipped without building them and without recursion, so
//! neither a deep nor a wide document costs more than its own size.

mod broken;
mod edit;
mod names;
mod scan;

use std::borrow::Cow;
use std::ops::Range;

use crate::error::Error;
use scan::{Broken, Scan, Spelled};

pub(super) use edit::Edits;
pub(super) use names::{Agreement, agreement, names, spell};

/// A JSON text that is or has been UTF-8, whose slices know where they stand in it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Document<'a> {
    pub(super) text: &'a str,
}

/// A member of an object.
#[derive(Debug)]
pub(super) struct Member<'a> {
    /// The key, decoded.
    pub(super) name: Cow<'a, str>,
    /// Whether the key is spelled with escapes.
    pub(super) escaped: bool,
    /// The value as it is spelled.
    pub(super) value: &'a str,
    /// From the key's first quote to the value's end.
    pub(super) span: Range<usize>,
    /// Where the value before it ends; `None` for the first member.
    pub(super) previous_end: Option<usize>,
    /// How many members come before it.
    pub(super) place: usize,
}

impl<'a> Document<'a> {
    /// A request's body; 400 if it is not UTF-8 (RFC 8259, section 8.1).
    pub(super) fn new(body: &'a [u8]) -> Result<Self, Error> {
        std::str::from_utf8(body)
            .map(|text| Self { text })
            .map_err(|_| Error::invalid("the body is not UTF-8"))
    }

    /// Whether there is nothing in it: no bytes, or `null`, which clients send where a body has no meaning.
    pub(super) fn is_nothing(self) -> bool {
        let text = self.text.trim_matches([' ', '\t', '\r', '\n']);
        text.is_empty() || text == "null"
    }

    /// Where a slice of this document stands in it.
    pub(super) fn span(self, part: &'a str) -> Range<usize> {
        let start = part.as_ptr().addr() - self.text.as_ptr().addr();
        start..start + part.len()
    }

    /// Shows each member of the object `part`, which is this document or a slice of it.
    /// `what` names it in the error for anything that is not an object.
    pub(super) fn members(
        self,
        part: &'a str,
        what: &str,
        see: &mut dyn FnMut(Member<'a>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        finish(self.walk(part, see), part, what, '{', "an object")
    }

    fn walk(
        self,
        part: &'a str,
        see: &mut dyn FnMut(Member<'a>) -> Result<(), Error>,
    ) -> Result<(), Stop> {
        let mut scan = Scan::new(part);
        if !scan.take(b'{') {
            return Err(Stop::Broken);
        }
        if scan.take(b'}') {
            return Ok(scan.end()?);
        }
        let mut previous_end = None;
        for place in 0.. {
            let key = scan.string()?;
            if !scan.take(b':') {
                return Err(Stop::Broken);
            }
            let value = scan.value()?;
            let end = self.span(value).end;
            see(Member {
                name: key.decoded(),
                escaped: key.escaped,
                value,
                // From its quote on.
                span: self.span(key.inner).start - 1..end,
                previous_end: previous_end.replace(end),
                place,
            })?;
            if !scan.take(b',') {
                break;
            }
        }
        match scan.take(b'}') {
            true => Ok(scan.end()?),
            false => Err(Stop::Broken),
        }
    }

    /// Shows each element of the array `part` with its index.
    pub(super) fn elements(
        self,
        part: &'a str,
        what: &str,
        see: &mut dyn FnMut(usize, &'a str) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let mut index = 0;
        let walk = each(part, |value| {
            index += 1;
            see(index - 1, value)
        });
        finish(walk, part, what, '[', "an array")
    }
}

impl<'a> Spelled<'a> {
    /// The text. One that cannot be decoded names nothing we know.
    fn decoded(self) -> Cow<'a, str> {
        let text = || serde_json::from_str(&format!("\"{}\"", self.inner)).ok();
        let decoded = self.escaped.then(text).flatten();
        decoded.map_or(Cow::Borrowed(self.inner), Cow::Owned)
    }
}

/// Why a walk ends before the end.
enum Stop {
    Broken,
    Refused(Error),
}

impl From<Broken> for Stop {
    fn from(_: Broken) -> Self {
        Self::Broken
    }
}

impl From<Error> for Stop {
    fn from(refusal: Error) -> Self {
        Self::Refused(refusal)
    }
}

/// Shows each element of the array `part`.
fn each<'a>(part: &'a str, mut see: impl FnMut(&'a str) -> Result<(), Error>) -> Result<(), Stop> {
    let mut scan = Scan::new(part);
    if !scan.take(b'[') {
        return Err(Stop::Broken);
    }
    if scan.take(b']') {
        return Ok(scan.end()?);
    }
    see(scan.value()?)?;
    while scan.take(b',') {
        see(scan.value()?)?;
    }
    match scan.take(b']') {
        true => Ok(scan.end()?),
        false => Err(Stop::Broken),
    }
}

fn finish(
    outcome: Result<(), Stop>,
    part: &str,
    what: &str,
    open: char,
    shape: &str,
) -> Result<(), Error> {
    match outcome {
        Ok(()) => Ok(()),
        Err(Stop::Refused(refusal)) => Err(refusal),
        Err(Stop::Broken) => {
            let text = part.trim_start_matches([' ', '\t', '\r', '\n']);
            Err(Error::invalid(match text.starts_with(open) {
                true => format!("{what} is not valid JSON: {}", broken::why(part)),
                false => format!("{what} must be {shape}"),
            }))
        }
    }
}

/// Reads a string value, borrowed where it has no escapes; `None` if it is not a string.
pub(super) fn string(raw: &str) -> Option<Cow<'_, str>> {
    let inner = raw.strip_prefix('"')?.strip_suffix('"')?;
    match inner.contains('\\') {
        true => serde_json::from_str(raw).ok().map(Cow::Owned),
        false => Some(Cow::Borrowed(inner)),
    }
}

/// A name from a body for use in a message, cut where it is long.
pub(super) fn brief(name: &str) -> &str {
    &name[..name.floor_char_boundary(64)]
}

#[cfg(test)]
mod tests;
