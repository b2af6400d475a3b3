//! Filters hidden elements from an answer that has one list, of versions or of tables, while it streams; pure.
//!
//! At most one element is held at a time. All bytes go on as they came, apart from hidden elements and the commas next
//! to them. A body of another form goes on unread while nothing is hidden; otherwise it cannot be shown.

use bytes::BytesMut;
use serde::Deserialize;

use super::Hidden;
use super::filter::Tally;
use crate::protocol::list_scanner::{ListScanner, Member, Piece};

/// The largest element or page token that is held, in bytes.
const HELD: usize = 4 << 20;

/// The elements that a list may show.
pub trait View {
    /// True if nothing is hidden. Then a body of any form can be shown.
    fn is_all(&self) -> bool;

    /// True if elements up to this number have gone to the client, and one of them is hidden since.
    fn is_overtaken(&self, highest: u64) -> bool;

    /// Decides on an element; `None` if it cannot be read.
    fn judge(&self, element: &[u8]) -> Option<Judgement>;
}

/// The decision on an element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Judgement {
    /// True if it may be shown.
    pub is_shown: bool,
    /// The number for [`View::is_overtaken`].
    pub number: u64,
}

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
    /// The body is not the list that it should be, and some elements are hidden.
    #[error("the catalog's answer is not a list that can be filtered")]
    NotAList,
    /// A version has gone to the client that a batch hides since.
    #[error("a batch hides versions that were listed already")]
    Overtaken,
}

/// The filter of one answer.
#[derive(Clone, Debug)]
pub struct ListFilter {
    scanner: ListScanner,
    /// The beginning of a page token or an element that is not complete.
    held: BytesMut,
    is_in_element: bool,
    /// The text since the last element or since the start of the list, and the end of the body: it is shown last, when
    /// it is certain that the list is complete.
    separator: BytesMut,
    /// The most elements that are shown.
    most: u64,
    tally: Tally,
    shown: u64,
    /// The highest number of an element that was shown.
    highest: Option<u64>,
    has_list: bool,
    /// True if the body is no such list: it is not read any more.
    is_unread: bool,
}

impl View for ListView {
    fn is_all(&self) -> bool {
        self.end == u64::MAX && self.removed.is_empty()
    }

    fn is_overtaken(&self, highest: u64) -> bool {
        self.end != u64::MAX && highest >= self.end
    }

    /// The number is that of the version; `u64::MAX` if it has none that can be read, and nothing is hidden.
    fn judge(&self, element: &[u8]) -> Option<Judgement> {
        let Some(number) = number_of(element) else {
            return self.is_all().then_some(Judgement {
                is_shown: true,
                number: u64::MAX,
            });
        };
        let is_below = self.end == u64::MAX || number < self.end;
        Some(Judgement {
            is_shown: is_below && !self.removed.contains(number),
            number,
        })
    }
}

impl ListFilter {
    /// Creates the filter of an answer in which the member `list` is filtered, that shows at most `most` elements.
    pub fn new(list: &'static [&'static str], most: Option<u64>) -> Self {
        Self {
            scanner: ListScanner::new(list),
            held: BytesMut::new(),
            is_in_element: false,
            separator: BytesMut::new(),
            most: most.unwrap_or(u64::MAX),
            tally: Tally::default(),
            shown: 0,
            highest: None,
            has_list: false,
            is_unread: false,
        }
    }

    /// True once it is clear that the answer shows something: an element, or a body that is no list.
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
        view: &impl View,
        out: &mut BytesMut,
    ) -> Result<(), Unlistable> {
        if self
            .highest
            .is_some_and(|highest| view.is_overtaken(highest))
        {
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
    /// The body is no such list, and some elements are hidden.
    pub fn finish(&mut self, view: &impl View, out: &mut BytesMut) -> Result<&Tally, Unlistable> {
        if self.scanner.is_over() && self.has_list && !self.is_unread {
            out.unsplit(self.separator.split());
        } else {
            self.give_up(view, out)?;
        }
        Ok(&self.tally)
    }

    /// Goes on without reading the body, if nothing is hidden.
    fn give_up(&mut self, view: &impl View, out: &mut BytesMut) -> Result<(), Unlistable> {
        if !view.is_all() {
            return Err(Unlistable::NotAList);
        }
        out.unsplit(self.separator.split());
        // What is held of a page token has gone on already.
        if self.is_in_element {
            out.unsplit(self.held.split());
        }
        self.is_unread = true;
        Ok(())
    }

    /// Reads the next piece. Returns the number of its bytes; `None` if the body is no list.
    fn step(&mut self, bytes: &[u8], view: &impl View, out: &mut BytesMut) -> Option<usize> {
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
            Piece::Element { is_last, .. } => self.element(text, is_last, view, out)?,
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

    /// Reads a part of an element. The text before an element is shown with it.
    fn element(
        &mut self,
        text: &[u8],
        is_last: bool,
        view: &impl View,
        out: &mut BytesMut,
    ) -> Option<()> {
        self.hold(text)?;
        self.is_in_element = true;
        if !is_last {
            return Some(());
        }
        let Judgement { is_shown, number } = view.judge(&self.held)?;
        self.is_in_element = false;
        self.tally.listed += 1;
        self.tally.hidden += u64::from(!is_shown);
        if !is_shown || self.shown >= self.most {
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
        self.highest = self.highest.max(Some(number));
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
