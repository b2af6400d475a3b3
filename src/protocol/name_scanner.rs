//! Reads the names in the answer to a listing while it arrives; pure.
//!
//! The scanner refuses what a parser of the whole answer would refuse, at the latest at the end. Only a name, a page token or
//! another value that is not complete is held.

use std::borrow::Cow;
use std::mem::take;

use serde::Deserialize;
use serde::de::IgnoredAny;

use super::list_scanner::{ListScanner, Member, Piece};
use super::operation::Operation;

/// The longest name, page token or other value, in bytes.
const LONGEST: usize = 1 << 20;
/// The lists of names, which the contract names after their content.
const LISTS: [&str; 2] = ["namespaces", "tables"];

/// The scanner of one answer.
#[derive(Debug)]
pub struct NameScanner {
    scanner: ListScanner,
    /// The index of the list that is read.
    wanted: usize,
    has_wanted: bool,
    token: Option<String>,
    /// The beginning of a value that is not complete.
    held: Vec<u8>,
}

/// The error of an answer that is not a listing, or has a value that is longer than 1 MiB.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the answer is not a listing")]
pub struct NotAListing;

/// A name, borrowed if it was written without escapes.
#[derive(Deserialize)]
struct Name<'a>(#[serde(borrow)] Cow<'a, str>);

impl NameScanner {
    /// Creates the scanner of an answer to this operation.
    pub fn new(operation: Operation) -> Self {
        Self {
            scanner: ListScanner::new(&LISTS),
            wanted: usize::from(operation != Operation::ListNamespaces),
            has_wanted: false,
            token: None,
            held: Vec::new(),
        }
    }

    /// Reads the next bytes of the answer, and adds the names that are complete to `names`.
    ///
    /// # Errors
    ///
    /// The answer is not a listing.
    pub fn push(&mut self, bytes: &[u8], names: &mut Vec<String>) -> Result<(), NotAListing> {
        let mut rest = bytes;
        while !rest.is_empty() {
            let (piece, used) = self.scanner.next(rest).ok_or(NotAListing)?;
            let (text, after) = rest.split_at(used);
            self.read(piece, text, names).ok_or(NotAListing)?;
            rest = after;
        }
        Ok(())
    }

    /// Ends the answer. Returns the token of the next page.
    ///
    /// # Errors
    ///
    /// The answer is not a listing, or not complete.
    pub fn finish(self) -> Result<Option<String>, NotAListing> {
        if self.scanner.is_over() && self.has_wanted {
            Ok(self.token)
        } else {
            Err(NotAListing)
        }
    }

    fn read(&mut self, piece: Piece, text: &[u8], names: &mut Vec<String>) -> Option<()> {
        let is_last = match piece {
            Piece::Element { is_last, .. } | Piece::Value { is_last, .. } => is_last,
            Piece::ListEnd(list) => {
                self.has_wanted |= list == self.wanted;
                return Some(());
            }
            Piece::Frame | Piece::Separator | Piece::End => return Some(()),
        };
        // A value that came in one piece is not copied.
        if !is_last || !self.held.is_empty() {
            if self.held.len() + text.len() > LONGEST {
                return None;
            }
            self.held.extend_from_slice(text);
        }
        if !is_last {
            return Some(());
        }
        let mut held = take(&mut self.held);
        let value = if held.is_empty() { text } else { &held };
        match piece {
            Piece::Element { list, .. } => {
                let Name(name) = serde_json::from_slice(value).ok()?;
                if list == self.wanted {
                    names.push(name.into_owned());
                }
            }
            Piece::Value { member, .. } => self.member(member, value)?,
            _ => {}
        }
        held.clear();
        self.held = held;
        Some(())
    }

    /// Reads the value of a member; `None` if it may not have this value.
    fn member(&mut self, member: Member, value: &[u8]) -> Option<()> {
        match member {
            Member::PageToken => self.token = serde_json::from_slice(value).ok()?,
            // A list that is not an array is `null`.
            Member::List(_) => serde_json::from_slice(value).ok()?,
            Member::Other => drop(serde_json::from_slice::<IgnoredAny>(value).ok()?),
        }
        Some(())
    }
}

#[cfg(test)]
pub(crate) mod random_answer;
#[cfg(test)]
mod tests;
