//! Splits an answer that has a list into pieces while it arrives: the elements of the list, the page token, the values of
//! other members, and the text around them.
//!
//! Pure. It checks the frame of the document, and holds only the name of a member. The values are for the reader of the
//! pieces to check.

mod json_value;

use json_value::JsonValue;

/// The longest name of a member, in bytes, as it is written.
const LONGEST_NAME: usize = 64 << 10;

/// The scanner of one answer: an object, in which some members are lists.
#[derive(Clone, Debug)]
pub struct ListScanner {
    /// The names of the members that are lists.
    lists: &'static [&'static str],
    place: Place,
    /// The beginning of a member's name.
    name: Vec<u8>,
    /// The lists, and after them the page token, that have come.
    seen: Vec<bool>,
}

/// A part of the document. A value comes as one piece or as several; the last one can be empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Piece {
    /// Punctuation, white space and names of members.
    Frame,
    /// White space and commas around the elements of a list.
    Separator,
    /// A part of an element.
    Element {
        /// The index of its list.
        list: usize,
        /// True if the element ends with this piece.
        is_last: bool,
    },
    /// The bracket after the last element of the list with this index.
    ListEnd(usize),
    /// A part of a member's value that is not an array, or not a list.
    Value {
        /// The member.
        member: Member,
        /// True if the value ends with this piece.
        is_last: bool,
    },
    /// The last brace, and white space after it.
    End,
}

/// A member of the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Member {
    /// The list with this index.
    List(usize),
    /// `page_token`.
    PageToken,
    /// Any other member.
    Other,
}

/// The place within the text.
#[derive(Clone, Copy, Debug)]
enum Place {
    Start,
    FirstName,
    NextName,
    Name(JsonValue),
    Colon(Member),
    BeforeValue(Member),
    Value(Member, JsonValue),
    AfterValue,
    FirstElement(usize),
    NextElement(usize),
    Element(usize, JsonValue),
    AfterElement(usize),
    End,
}

impl ListScanner {
    /// Creates the scanner of an answer in which the members of these names are lists.
    pub fn new(lists: &'static [&'static str]) -> Self {
        Self {
            lists,
            place: Place::Start,
            name: Vec::new(),
            seen: vec![false; lists.len() + 1],
        }
    }

    /// True if the document is complete.
    pub fn is_over(&self) -> bool {
        matches!(self.place, Place::End)
    }

    /// Reads the next piece of the document, of which at least one byte must be there. Returns the number of its bytes,
    /// too; `None` if the document has another form, or a list or the page token twice.
    pub fn next(&mut self, bytes: &[u8]) -> Option<(Piece, usize)> {
        match self.place {
            Place::Name(name) => return self.name(name, bytes, 0),
            Place::Value(member, value) => return Some(self.value(member, value, bytes, 0)),
            Place::Element(list, value) => return Some(self.element(list, value, bytes, 0)),
            _ => {}
        }
        let spaces = spaces(bytes);
        if spaces > 0 {
            return Some((self.place.gap(), spaces));
        }
        let first = *bytes.first()?;
        let value = JsonValue::begun(first);
        let (place, piece) = match (self.place, first) {
            (Place::Start, b'{') => (Place::FirstName, Piece::Frame),
            (Place::FirstName | Place::NextName, b'"') => {
                self.name.clear();
                return self.name(value, bytes, 1);
            }
            (Place::FirstName | Place::AfterValue, b'}') => (Place::End, Piece::End),
            (Place::AfterValue, b',') => (Place::NextName, Piece::Frame),
            (Place::Colon(member), b':') => (Place::BeforeValue(member), Piece::Frame),
            (Place::BeforeValue(Member::List(list)), b'[') => {
                (Place::FirstElement(list), Piece::Frame)
            }
            (Place::AfterElement(list), b',') => (Place::NextElement(list), Piece::Separator),
            (Place::FirstElement(list) | Place::AfterElement(list), b']') => {
                (Place::AfterValue, Piece::ListEnd(list))
            }
            // No value begins like this.
            (_, b',' | b':' | b'}' | b']') => return None,
            (Place::BeforeValue(member), _) => return Some(self.value(member, value, bytes, 1)),
            (Place::FirstElement(list) | Place::NextElement(list), _) => {
                return Some(self.element(list, value, bytes, 1));
            }
            _ => return None,
        };
        self.place = place;
        Some((piece, 1))
    }

    /// Reads on in the name of a member, of which `begun` bytes were looked at.
    fn name(&mut self, mut name: JsonValue, bytes: &[u8], begun: usize) -> Option<(Piece, usize)> {
        let (used, is_last) = name.read(&bytes[begun..]);
        let used = begun + used;
        if self.name.len() + used > LONGEST_NAME {
            return None;
        }
        self.name.extend_from_slice(&bytes[..used]);
        self.place = if is_last {
            Place::Colon(self.member()?)
        } else {
            Place::Name(name)
        };
        Some((Piece::Frame, used))
    }

    /// Returns the member whose name has come; `None` if it may not come once more.
    fn member(&mut self) -> Option<Member> {
        let name: String = serde_json::from_slice(&self.name).ok()?;
        let list = self.lists.iter().position(|list| *list == name);
        let (member, index) = match list {
            Some(list) => (Member::List(list), list),
            None if name == "page_token" => (Member::PageToken, self.lists.len()),
            None => return Some(Member::Other),
        };
        let is_first = !std::mem::replace(&mut self.seen[index], true);
        is_first.then_some(member)
    }

    fn value(
        &mut self,
        member: Member,
        mut value: JsonValue,
        bytes: &[u8],
        begun: usize,
    ) -> (Piece, usize) {
        let (used, is_last) = value.read(&bytes[begun..]);
        self.place = if is_last {
            Place::AfterValue
        } else {
            Place::Value(member, value)
        };
        (Piece::Value { member, is_last }, begun + used)
    }

    fn element(
        &mut self,
        list: usize,
        mut value: JsonValue,
        bytes: &[u8],
        begun: usize,
    ) -> (Piece, usize) {
        let (used, is_last) = value.read(&bytes[begun..]);
        self.place = if is_last {
            Place::AfterElement(list)
        } else {
            Place::Element(list, value)
        };
        (Piece::Element { list, is_last }, begun + used)
    }
}

impl Place {
    /// Returns the kind of white space at this place.
    fn gap(self) -> Piece {
        match self {
            Self::FirstElement(_) | Self::NextElement(_) | Self::AfterElement(_) => {
                Piece::Separator
            }
            Self::End => Piece::End,
            _ => Piece::Frame,
        }
    }
}

fn spaces(bytes: &[u8]) -> usize {
    let is_space = |byte: &&u8| matches!(byte, b' ' | b'\t' | b'\r' | b'\n');
    bytes.iter().take_while(is_space).count()
}
