//! The short form of what a request names: a line about a request that has changed nothing is bounded, whatever its
//! client sent.

use std::fmt::{self, Display, Write as _};
use std::sync::Arc;

use serde::Serialize;

use crate::protocol::identifier::Identifier;
use crate::request::change::TableChange;
use crate::util::unprintable::is_unprintable;

/// The most tables that are named.
const MOST_TABLES: usize = 16;
/// The number of bytes, as they stand in the line, after which no further table is named.
const ENOUGH: usize = 8 << 10;
/// The most bytes of a name, as they stand in the line.
pub(super) const NAME: usize = 256;
/// The most bytes of a claim or of a certificate's subject, likewise.
pub(super) const CLAIM: usize = 1024;
/// The mark at the end of a text that was cut.
const MARK: char = '…';

/// The tables of a request that has changed nothing.
#[derive(Debug, Default)]
pub(super) struct BriefTables {
    pub(super) named: Vec<BriefTable>,
    /// The number of tables that are not named.
    pub(super) omitted: usize,
}

/// A table, with names that may be cut. Ranges of versions are left out.
#[derive(Debug, Serialize)]
pub(super) struct BriefTable {
    table: Box<str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    change: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    branch: Option<Box<str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    version: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    new_name: Option<Box<str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    mount: Option<Box<str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    backend: Option<Arc<str>>,
}

impl BriefTables {
    /// Shortens the changes of a request.
    pub(super) fn of(changes: &[TableChange]) -> Self {
        let mut named = Vec::new();
        let mut taken = 0;
        for change in changes.iter().take(MOST_TABLES) {
            let table = BriefTable::of(change);
            taken += table.bytes();
            named.push(table);
            if taken > ENOUGH {
                break;
            }
        }
        let omitted = changes.len() - named.len();
        Self { named, omitted }
    }

    /// Shortens the table in a path.
    pub(super) fn one(table: &Identifier) -> Self {
        Self::of(&[TableChange::of(table.clone())])
    }

    /// The bytes that it takes.
    pub(super) fn bytes(&self) -> usize {
        self.named.iter().map(BriefTable::bytes).sum()
    }
}

impl BriefTable {
    fn of(change: &TableChange) -> Self {
        Self {
            table: brief(&change.table, NAME),
            change: change.change,
            branch: change.branch.as_ref().map(|branch| brief(branch, NAME)),
            version: change.version,
            new_name: change.new_name.as_ref().map(|name| brief(name, NAME)),
            mount: change.mount.as_ref().map(|mount| brief(mount, NAME)),
            backend: change.backend.clone(),
        }
    }

    fn bytes(&self) -> usize {
        let names = [&self.branch, &self.new_name, &self.mount];
        let names = names.into_iter().flatten().map(|name| in_line(name));
        let backend = self.backend.as_ref().map_or(0, |backend| backend.len());
        size_of::<Self>() + in_line(&self.table) + names.sum::<usize>() + backend
    }
}

/// Returns the beginning of a text, of which at most so many bytes stand in the line, and a mark if it was cut.
pub(super) fn brief(text: impl Display, most: usize) -> Box<str> {
    let mut cut = Cut {
        text: String::new(),
        left: most,
    };
    if write!(cut, "{text}").is_err() {
        cut.text.push(MARK);
    }
    cut.text.into_boxed_str()
}

/// Returns a text that is shared if it need not be cut.
pub(super) fn brief_shared(text: &Arc<str>, most: usize) -> Arc<str> {
    // No character takes more than six times its bytes.
    if text.len() <= most / 6 || in_line(text) <= most {
        Arc::clone(text)
    } else {
        brief(text, most).into()
    }
}

/// A text that ends when it is long enough.
struct Cut {
    text: String,
    left: usize,
}

impl fmt::Write for Cut {
    fn write_str(&mut self, more: &str) -> fmt::Result {
        for character in more.chars() {
            self.left = self.left.checked_sub(width(character)).ok_or(fmt::Error)?;
            self.text.push(character);
        }
        Ok(())
    }
}

/// Returns the number of bytes that a text takes in a line.
fn in_line(text: &str) -> usize {
    text.chars().map(width).sum()
}

fn width(character: char) -> usize {
    match character {
        '"' | '\\' => 2,
        hidden if is_unprintable(hidden) => 6 * hidden.len_utf16(),
        seen => seen.len_utf8(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_cut_at_its_length_in_the_line_and_marked() {
        assert_eq!(&*brief("abc", 3), "abc");
        assert_eq!(&*brief("abcd", 3), "abc…");
        assert_eq!(&*brief("\u{9b}\u{9b}", 6), "\u{9b}…");
        assert_eq!(&*brief("\u{e0041}", 11), "…");
        assert_eq!(&*brief("é\"", 4), "é\"");
    }
}
