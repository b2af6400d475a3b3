//! Changes to a document, collected first and made in one pass.

use std::ops::Range;

use bytes::Bytes;

use super::{Document, Member};

/// Replacements of spans of one document. They do not overlap.
#[derive(Debug, Default)]
pub(in crate::protocol) struct Edits {
    list: Vec<(Range<usize>, String)>,
}

impl Edits {
    pub(in crate::protocol) fn replace(&mut self, span: Range<usize>, text: String) {
        self.list.push((span, text));
    }

    /// Removes a member and one comma beside it. `removed` counts the members of the same object
    /// that were removed before; members must be removed in order.
    pub(in crate::protocol) fn remove(
        &mut self,
        document: Document<'_>,
        member: &Member<'_>,
        removed: usize,
    ) {
        let span = match member.previous_end {
            // One before it stays, so the comma between them goes.
            Some(end) if member.place > removed => end..member.span.end,
            // None before it stays: the comma after it goes, if there is one.
            _ => member.span.start..after_comma(document.text, member.span.end),
        };
        self.list.push((span, String::new()));
    }

    /// The document with all changes made; the very same bytes if there are none.
    pub(in crate::protocol) fn apply(mut self, body: &Bytes) -> Bytes {
        if self.list.is_empty() {
            return body.clone();
        }
        self.list.sort_by_key(|(span, _)| (span.start, span.end));
        let added: usize = self.list.iter().map(|(_, text)| text.len()).sum();
        let removed: usize = self.list.iter().map(|(span, _)| span.len()).sum();
        // Of exactly this length, its bytes are shared without another allocation.
        let mut out = Vec::with_capacity(body.len() + added - removed);
        let mut done = 0;
        for (span, text) in self.list {
            debug_assert!(done <= span.start, "edits overlap");
            out.extend_from_slice(&body[done..span.start]);
            out.extend_from_slice(text.as_bytes());
            done = span.end;
        }
        out.extend_from_slice(&body[done..]);
        out.into()
    }
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
