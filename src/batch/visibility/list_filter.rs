//! Filters hidden versions from an answer to `version/list` while it streams; pure.
//!
//! At most one version is held at a time. All bytes go on as they came, apart from hidden versions and the commas next
//! to them. A body of another form goes on unread while nothing is hidden; otherwise it cannot be shown.

use bytes::BytesMut;
use serde::Deserialize;

use super::Hidden;
use super::filter::Tally;
use crate::protocol::list_scanner::{ListScanner, Member, Piece};

/// The largest version or page token that is held, in bytes.
const HELD: usize = 4 << 20;

/// The versions that one list may show.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListView {
    /// The first version that is hidden with all above it; `u64::MAX` if there is none.
    pub end: u64,
    /// Versions that are hidden alone.
    pub removed: Hidden,
}

/// The reason why a list cannot be shown, or not to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unlistable {
    /// The body is not a list of versions, and some of them are hidden.
    #[error("the catalog's answer is not a list of versions")]
    NotAList,
    /// A version has gone to the client that a batch hides since.
    #[error("a batch hides versions that were listed already")]
    Overtaken,
}

/// The filter of one answer.
#[derive(Clone, Debug)]
pub struct ListFilter {
    scanner: ListScanner,
    /// The beginning of a page token or a version that is not complete.
    held: BytesMut,
    is_in_version: bool,
    /// The text since the last version or since the start of the list, and the end of the body: it is shown last, when
    /// it is certain that the list is complete.
    separator: BytesMut,
    /// The most versions that are shown.
    most: u64,
    tally: Tally,
    shown: u64,
    /// The highest version that was shown; `u64::MAX` if one has no number.
    highest: Option<u64>,
    has_list: bool,
    /// True if the body is no list of versions: it is not read any more.
    is_unread: bool,
}

impl ListView {
    /// True if nothing is hidden.
    pub fn is_all(&self) -> bool {
        self.end == u64::MAX && self.removed.is_empty()
    }

    fn shows(&self, version: u64) -> bool {
        (self.end == u64::MAX || version < self.end) && !self.removed.contains(version)
    }
}

impl ListFilter {
    /// Creates the filter of an answer that shows at most `most` versions.
    pub fn new(most: Option<u64>) -> Self {
        Self {
            scanner: ListScanner::new(&["versions"]),
            held: BytesMut::new(),
            is_in_version: false,
            separator: BytesMut::new(),
            most: most.unwrap_or(u64::MAX),
            tally: Tally::default(),
            shown: 0,
            highest: None,
            has_list: false,
            is_unread: false,
        }
    }

    /// True once it is clear that the answer shows something: a version, or a body that is no list.
    pub fn shows_something(&self) -> bool {
        self.shown > 0 || self.is_unread
    }

    /// Adds the next bytes of the catalog's answer. Those that may be shown go to `out`. `view` must be of a moment
    /// after these bytes arrived.
    ///
    /// # Errors
    ///
    /// The list cannot be shown, or not to its end.
    pub fn push(
        &mut self,
        bytes: &[u8],
        view: &ListView,
        out: &mut BytesMut,
    ) -> Result<(), Unlistable> {
        if view.end != u64::MAX && self.highest.is_some_and(|highest| highest >= view.end) {
            return Err(Unlistable::Overtaken);
        }
        let mut rest = bytes;
        while !rest.is_empty() {
            if self.is_unread {
                if !view.is_all() {
                    return Err(Unlistable::NotAList);
                }
                out.extend_from_slice(rest);
                break;
            }
            let used = match self.step(rest, view, out) {
                Some(used) => used,
                None => {
                    self.give_up(view, out)?;
                    0
                }
            };
            rest = &rest[used..];
        }
        Ok(())
    }

    /// Ends the answer.
    ///
    /// # Errors
    ///
    /// The body is no list of versions, and some are hidden.
    pub fn finish(&mut self, view: &ListView, out: &mut BytesMut) -> Result<&Tally, Unlistable> {
        if self.scanner.is_over() && self.has_list && !self.is_unread {
            out.unsplit(self.separator.split());
        } else {
            self.give_up(view, out)?;
        }
        Ok(&self.tally)
    }

    /// Goes on without reading the body, if nothing is hidden.
    fn give_up(&mut self, view: &ListView, out: &mut BytesMut) -> Result<(), Unlistable> {
        if !view.is_all() {
            return Err(Unlistable::NotAList);
        }
        out.unsplit(self.separator.split());
        // What is held of a page token has gone on already.
        if self.is_in_version {
            out.unsplit(self.held.split());
        }
        self.is_unread = true;
        Ok(())
    }

    /// Reads the next piece. Returns the number of its bytes; `None` if the body is no list.
    fn step(&mut self, bytes: &[u8], view: &ListView, out: &mut BytesMut) -> Option<usize> {
        let (piece, used) = self.scanner.next(bytes)?;
        let text = &bytes[..used];
        match piece {
            Piece::Value { member, is_last } => {
                match member {
                    Member::List(_) => return None,
                    Member::PageToken => self.token(text, is_last)?,
                    Member::Other => {}
                }
                out.extend_from_slice(text);
            }
            Piece::Frame => out.extend_from_slice(text),
            Piece::Element { is_last, .. } => self.version(text, is_last, view, out)?,
            Piece::ListEnd(_) => {
                self.has_list = true;
                out.unsplit(self.separator.split());
                out.extend_from_slice(text);
            }
            Piece::Separator | Piece::End => {
                let fits = self.separator.len() + used <= HELD;
                fits.then(|| self.separator.extend_from_slice(text))?;
            }
        }
        Some(used)
    }

    fn token(&mut self, text: &[u8], is_last: bool) -> Option<()> {
        self.hold(text)?;
        if is_last {
            let token: Option<String> = serde_json::from_slice(&self.held.split()).ok()?;
            self.tally.token = token.filter(|token| !token.is_empty());
        }
        Some(())
    }

    /// Reads a part of a version. The text before a version is shown with it.
    fn version(
        &mut self,
        text: &[u8],
        is_last: bool,
        view: &ListView,
        out: &mut BytesMut,
    ) -> Option<()> {
        self.hold(text)?;
        self.is_in_version = true;
        if !is_last {
            return Some(());
        }
        let number = number_of(&self.held);
        if number.is_none() && !view.is_all() {
            return None;
        }
        self.is_in_version = false;
        self.tally.listed += 1;
        let is_hidden = number.is_some_and(|number| !view.shows(number));
        self.tally.hidden += u64::from(is_hidden);
        if is_hidden || self.shown >= self.most {
            // The comma before the first version that is shown goes with those that are not.
            self.separator.clear();
            self.held.clear();
            return Some(());
        }
        let is_after_hidden = self.shown == 0 && self.tally.listed > 1;
        let separator = self.separator.split();
        if !is_after_hidden {
            out.extend_from_slice(&separator);
        }
        out.extend_from_slice(&self.held);
        self.held.clear();
        self.shown += 1;
        self.highest = self.highest.max(number.or(Some(u64::MAX)));
        Some(())
    }

    /// Holds bytes; `None` if they are too many.
    fn hold(&mut self, bytes: &[u8]) -> Option<()> {
        let fits = self.held.len() + bytes.len() <= HELD;
        fits.then(|| self.held.extend_from_slice(bytes))
    }
}

/// The number of a version; `None` if it has none that can be read.
fn number_of(version: &[u8]) -> Option<u64> {
    #[derive(Deserialize)]
    struct Version {
        version: u64,
    }
    let version: Version = serde_json::from_slice(version).ok()?;
    Some(version.version)
}

#[cfg(test)]
mod tests;
