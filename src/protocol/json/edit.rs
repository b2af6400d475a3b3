//! Changes to a document, made in one pass.

use std::ops::Range;

use bytes::Bytes;

use super::names::{spell_onto, spelled_length};
use super::{Document, Member};

/// Replacements of spans of one document, made in the order of their positions.
#[derive(Debug, Default)]
pub(in crate::protocol) struct Edits {
    /// The finished part of the changed document.
    out: Vec<u8>,
    /// The number of bytes of the original document that are in `out` or replaced.
    done: usize,
}

impl Edits {
    pub(in crate::protocol) fn replace(
        &mut self,
        document: Document<'_>,
        span: Range<usize>,
        text: &str,
    ) {
        self.make_room(document, span, text.len());
        self.out.extend_from_slice(text.as_bytes());
    }

    /// Replaces `span` by an identifier, which is given as its names separated by NUL.
    pub(in crate::protocol) fn rename(
        &mut self,
        document: Document<'_>,
        span: Range<usize>,
        joined: &str,
    ) {
        self.make_room(document, span, spelled_length(joined));
        spell_onto(&mut self.out, joined);
    }

    /// Copies the text before `span`, and makes room for the `length` bytes that replace it.
    fn make_room(&mut self, document: Document<'_>, span: Range<usize>, length: usize) {
        debug_assert!(self.done <= span.start, "edits overlap or are out of order");
        if self.done == 0 {
            // If this is the only edit, the buffer has exactly the final length and is shared without another
            // allocation.
            self.out = Vec::with_capacity(document.text.len() - span.len() + length);
        }
        let before = &document.text.as_bytes()[self.done..span.start];
        self.out.extend_from_slice(before);
        self.done = span.end;
    }

    /// Inserts `text` at a position that is before all edits, and not the document's start.
    pub(in crate::protocol) fn insert_before(
        &mut self,
        document: Document<'_>,
        place: usize,
        text: &str,
    ) {
        if self.done == 0 {
            self.replace(document, place..place, text);
        } else {
            self.out.splice(place..place, text.bytes());
        }
    }

    /// Removes a member and one comma beside it. `removed` is the number of members of the same object that were
    /// removed before; members must be removed in order.
    pub(in crate::protocol) fn remove(
        &mut self,
        document: Document<'_>,
        member: &Member<'_>,
        removed: usize,
    ) {
        let Range { start, end } = member.span;
        let span = if member.place > removed {
            // A member before it remains, so the comma between them is removed.
            before_comma(&document.text[..start])..end
        } else {
            // No member before it remains, so the comma after it, if there is one, is removed.
            start..after_comma(document.text, end)
        };
        self.replace(document, span, "");
    }

    /// Returns the document with all changes; the very same bytes if there are none.
    pub(in crate::protocol) fn apply(mut self, body: Bytes) -> Bytes {
        if self.done == 0 {
            return body;
        }
        self.out.extend_from_slice(&body[self.done..]);
        self.out.into()
    }
}

/// Returns the end of the value before the comma at the end of `text`.
fn before_comma(text: &str) -> usize {
    const SPACE: [char; 4] = [' ', '\t', '\r', '\n'];
    let text = text.trim_end_matches(SPACE).trim_end_matches(',');
    text.trim_end_matches(SPACE).len()
}

fn after_comma(text: &str, end: usize) -> usize {
    let is_space = |byte: &u8| matches!(byte, b' ' | b'\t' | b'\r' | b'\n');
    let spaces = |from: usize| {
        text.as_bytes()[from..]
            .iter()
            .take_while(|&b| is_space(b))
            .count()
    };
    let comma = end + spaces(end);
    match text.as_bytes().get(comma) {
        Some(b',') => comma + 1 + spaces(comma + 1),
        _ => end,
    }
}
