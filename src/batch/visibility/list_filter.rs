//! Filters hidden versions from an answer to `version/list` while it streams; pure.
//!
//! At most one version is held at a time. All bytes go on as they came, apart from hidden versions and the commas next
//! to them. A body of another form goes on unread while nothing is hidden; otherwise it cannot be shown.

mod json_value;

use bytes::BytesMut;
use serde::Deserialize;

use super::Hidden;
use super::filter::Tally;
use json_value::JsonValue;

/// The largest version, member's name or page token that is held, in bytes.
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
    place: Place,
    /// The beginning of what is not complete: a member's name, a page token or a version.
    held: BytesMut,
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
    has_token: bool,
}

/// The place within the text.
#[derive(Clone, Copy, Debug)]
enum Place {
    Start,
    BeforeName,
    Name(JsonValue),
    Colon(Member),
    BeforeValue(Member),
    Value(Member, JsonValue),
    AfterValue,
    BeforeVersion,
    Version(JsonValue),
    AfterVersion,
    End,
    /// The body is no list of versions: it is not read any more.
    Unread,
}

/// A member of the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Member {
    Versions,
    PageToken,
    Other,
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
            place: Place::Start,
            held: BytesMut::new(),
            separator: BytesMut::new(),
            most: most.unwrap_or(u64::MAX),
            tally: Tally::default(),
            shown: 0,
            highest: None,
            has_list: false,
            has_token: false,
        }
    }

    /// True once it is clear that the answer shows something: a version, or a body that is no list.
    pub fn shows_something(&self) -> bool {
        self.shown > 0 || matches!(self.place, Place::Unread)
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
            if matches!(self.place, Place::Unread) {
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
        let is_whole = matches!(self.place, Place::End) && self.has_list;
        if is_whole {
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
        // Names and tokens have gone on already.
        if matches!(self.place, Place::Version(_)) {
            out.unsplit(self.held.split());
        }
        self.place = Place::Unread;
        Ok(())
    }

    /// Reads on to the next place. Returns the number of bytes; `None` if the body is no list.
    fn step(&mut self, bytes: &[u8], view: &ListView, out: &mut BytesMut) -> Option<usize> {
        match self.place {
            Place::Start => self.pass(bytes, out, |byte| match byte {
                b'{' => Some(Place::BeforeName),
                _ => None,
            }),
            Place::BeforeName => self.pass(bytes, out, |byte| match byte {
                b'"' => Some(Place::Name(JsonValue::begun(b'"'))),
                b'}' => Some(Place::End),
                _ => None,
            }),
            Place::Name(mut value) => {
                let (used, is_over) = value.read(bytes);
                self.hold(&bytes[..used])?;
                self.place = if is_over {
                    Place::Colon(self.member()?)
                } else {
                    Place::Name(value)
                };
                out.extend_from_slice(&bytes[..used]);
                Some(used)
            }
            Place::Colon(member) => self.pass(bytes, out, |byte| match byte {
                b':' => Some(Place::BeforeValue(member)),
                _ => None,
            }),
            Place::BeforeValue(member) => self.pass(bytes, out, |byte| match (member, byte) {
                (Member::Versions, b'[') => Some(Place::BeforeVersion),
                (Member::Versions, _) | (_, b',' | b':' | b'}' | b']') => None,
                _ => Some(Place::Value(member, JsonValue::begun(byte))),
            }),
            Place::Value(member, value) => self.value(bytes, out, member, value),
            Place::AfterValue => self.pass(bytes, out, |byte| match byte {
                b',' => Some(Place::BeforeName),
                b'}' => Some(Place::End),
                _ => None,
            }),
            Place::BeforeVersion | Place::AfterVersion => self.between(bytes, out),
            Place::Version(value) => self.version(bytes, view, out, value),
            Place::End => {
                let fits = self.separator.len() + bytes.len() <= HELD;
                let is_over = fits && spaces(bytes) == bytes.len();
                is_over.then(|| {
                    self.separator.extend_from_slice(bytes);
                    bytes.len()
                })
            }
            Place::Unread => None,
        }
    }

    /// Passes white space on, and one byte after it that leads to the next place.
    fn pass(
        &mut self,
        bytes: &[u8],
        out: &mut BytesMut,
        next: impl Fn(u8) -> Option<Place>,
    ) -> Option<usize> {
        let spaces = spaces(bytes);
        let Some(&byte) = bytes.get(spaces) else {
            out.extend_from_slice(bytes);
            return Some(spaces);
        };
        let place = next(byte)?;
        if matches!(place, Place::Name(_)) || is_token(place) {
            self.held.clear();
            self.hold(&[byte])?;
        }
        if matches!(place, Place::End) {
            self.separator.extend_from_slice(&bytes[..=spaces]);
        } else {
            out.extend_from_slice(&bytes[..=spaces]);
        }
        self.place = place;
        Some(spaces + 1)
    }

    /// Returns the member whose name is held; `None` if it stands there twice.
    fn member(&mut self) -> Option<Member> {
        let name = self.held.split();
        let name = if name.contains(&b'\\') {
            serde_json::from_slice::<String>(&name).ok()?
        } else {
            std::str::from_utf8(&name[1..name.len() - 1]).ok()?.into()
        };
        let (member, before) = match name.as_str() {
            "versions" => (Member::Versions, &mut self.has_list),
            "page_token" => (Member::PageToken, &mut self.has_token),
            _ => return Some(Member::Other),
        };
        (!std::mem::replace(before, true)).then_some(member)
    }

    fn value(
        &mut self,
        bytes: &[u8],
        out: &mut BytesMut,
        member: Member,
        mut value: JsonValue,
    ) -> Option<usize> {
        let (used, is_over) = value.read(bytes);
        let is_token = member == Member::PageToken;
        if is_token {
            self.hold(&bytes[..used])?;
        }
        if is_over && is_token {
            let token: Option<String> = serde_json::from_slice(&self.held.split()).ok()?;
            self.tally.token = token.filter(|token| !token.is_empty());
        }
        self.place = if is_over {
            Place::AfterValue
        } else {
            Place::Value(member, value)
        };
        out.extend_from_slice(&bytes[..used]);
        Some(used)
    }

    /// Reads the text before, between or after versions. It is shown with the next version that is.
    fn between(&mut self, bytes: &[u8], out: &mut BytesMut) -> Option<usize> {
        let spaces = spaces(bytes);
        if self.separator.len() + spaces > HELD {
            return None;
        }
        let is_after = matches!(self.place, Place::AfterVersion);
        let Some(&byte) = bytes.get(spaces) else {
            self.separator.extend_from_slice(bytes);
            return Some(spaces);
        };
        match byte {
            b',' if is_after => {
                self.separator.extend_from_slice(&bytes[..=spaces]);
                self.place = Place::BeforeVersion;
                Some(spaces + 1)
            }
            b']' if is_after || self.tally.listed == 0 => {
                out.unsplit(self.separator.split());
                out.extend_from_slice(&bytes[..=spaces]);
                self.place = Place::AfterValue;
                Some(spaces + 1)
            }
            b',' | b']' | b'}' | b':' => None,
            _ if is_after => None,
            _ => {
                self.separator.extend_from_slice(&bytes[..spaces]);
                self.place = Place::Version(JsonValue::begun(byte));
                self.hold(&bytes[spaces..=spaces])?;
                Some(spaces + 1)
            }
        }
    }

    fn version(
        &mut self,
        bytes: &[u8],
        view: &ListView,
        out: &mut BytesMut,
        mut value: JsonValue,
    ) -> Option<usize> {
        let (used, is_over) = value.read(bytes);
        self.hold(&bytes[..used])?;
        self.place = Place::Version(value);
        if !is_over {
            return Some(used);
        }
        let number = number_of(&self.held);
        if number.is_none() && !view.is_all() {
            return None;
        }
        self.tally.listed += 1;
        let is_hidden = number.is_some_and(|number| !view.shows(number));
        self.tally.hidden += u64::from(is_hidden);
        if is_hidden || self.shown >= self.most {
            // The comma before the first version that is shown goes with those that are not.
            self.separator.clear();
            self.held.clear();
        } else {
            let is_after_hidden = self.shown == 0 && self.tally.listed > 1;
            let separator = self.separator.split();
            if !is_after_hidden {
                out.extend_from_slice(&separator);
            }
            out.extend_from_slice(&self.held);
            self.held.clear();
            self.shown += 1;
            self.highest = self.highest.max(number.or(Some(u64::MAX)));
        }
        self.place = Place::AfterVersion;
        Some(used)
    }

    /// Holds bytes; `None` if they are too many.
    fn hold(&mut self, bytes: &[u8]) -> Option<()> {
        let fits = self.held.len() + bytes.len() <= HELD;
        fits.then(|| self.held.extend_from_slice(bytes))
    }
}

fn is_token(place: Place) -> bool {
    matches!(place, Place::Value(Member::PageToken, _))
}

fn spaces(bytes: &[u8]) -> usize {
    let is_space = |byte: &&u8| matches!(byte, b' ' | b'\t' | b'\r' | b'\n');
    bytes.iter().take_while(is_space).count()
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
