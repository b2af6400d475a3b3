//! The note in a log whose batches are in another one, or are not all in it yet. No gateway uses a log that has one.

use std::fmt::{self, Display, Formatter};

const MOVED: &str = "its batches were moved to ";
const MOVED_END: &str = "; set `batch.log` to that";
const UNFINISHED: &str = "`nsgate log move` from ";
const UNFINISHED_END: &str = " did not finish; run it again with the same --from and --to";

/// Where the batches of a log are. Its words are what the log holds, and what an operator reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum MoveNote {
    /// Moved to the log of this name.
    MovedTo(String),
    /// Still in the log of this name, as long as that does not say otherwise: a move from it has begun.
    Unfinished(String),
}

impl MoveNote {
    /// Reads the words of a note; `None` if they are none.
    pub(super) fn parse(words: &str) -> Option<Self> {
        if let Some(to) = words.strip_prefix(MOVED) {
            // Earlier versions wrote no end.
            return Some(Self::MovedTo(
                to.strip_suffix(MOVED_END).unwrap_or(to).to_owned(),
            ));
        }
        let from = words.strip_prefix(UNFINISHED)?;
        let from = from.strip_suffix(UNFINISHED_END)?;
        Some(Self::Unfinished(from.to_owned()))
    }
}

impl Display for MoveNote {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::MovedTo(to) => write!(formatter, "{MOVED}{to}{MOVED_END}"),
            Self::Unfinished(from) => write!(formatter, "{UNFINISHED}{from}{UNFINISHED_END}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_is_read_as_it_was_written() {
        let name = || "postgres://gateway@db/nsgate (schema a; set)".to_owned();
        for note in [MoveNote::MovedTo(name()), MoveNote::Unfinished(name())] {
            assert_eq!(MoveNote::parse(&note.to_string()), Some(note));
        }
        let old = MoveNote::parse("its batches were moved to a.redb");
        assert_eq!(old, Some(MoveNote::MovedTo("a.redb".into())));
        assert_eq!(MoveNote::parse("something else"), None);
    }
}
