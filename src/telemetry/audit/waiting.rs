//! The bounds on the lines that wait, in lines and in bytes: changes have room that refusals cannot take.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::telemetry::writer::QUEUE;

/// The room for lines of one kind.
#[derive(Clone, Copy)]
struct Room {
    lines: usize,
    bytes: usize,
}

/// The room for changes, and for everything else that happened.
const CHANGES: Room = Room {
    lines: QUEUE,
    bytes: 64 << 20,
};
/// The room for requests that have changed nothing: clients that are refused must not keep changes out of the log.
const REFUSALS: Room = Room {
    lines: 2048,
    bytes: 4 << 20,
};
/// The lines of changes at which an audit log that is required counts as not writable: half of the room, so that the
/// lines of the changes that run have the other half.
const CROWDED: Room = Room {
    lines: CHANGES.lines / 2,
    bytes: CHANGES.bytes / 2,
};

/// The lines that wait.
#[derive(Default)]
pub(super) struct Waiting {
    changes: Arc<Count>,
    refusals: Arc<Count>,
}

#[derive(Default)]
struct Count {
    lines: AtomicUsize,
    bytes: AtomicUsize,
}

/// The room that a line takes until it is written.
pub(super) struct Place {
    among: Arc<Count>,
    bytes: usize,
}

impl Waiting {
    /// Takes room for a record of this size in memory; `None` if there is none. One that is larger than all of the room
    /// has it if no other waits.
    pub(super) fn place(&self, is_refusal: bool, bytes: usize) -> Option<Place> {
        let (among, room) = if is_refusal {
            (&self.refusals, REFUSALS)
        } else {
            (&self.changes, CHANGES)
        };
        let lines = among.lines.fetch_add(1, Ordering::Relaxed);
        let before = among.bytes.fetch_add(bytes, Ordering::Relaxed);
        let place = Place {
            among: Arc::clone(among),
            bytes,
        };
        let has_room = lines < room.lines && before.saturating_add(bytes) <= room.bytes;
        (lines == 0 || has_room).then_some(place)
    }

    /// The number of lines that wait.
    pub(super) fn lines(&self) -> usize {
        let lines = |among: &Count| among.lines.load(Ordering::Relaxed);
        lines(&self.changes) + lines(&self.refusals)
    }

    /// True if so much waits that no further change may be made.
    pub(super) fn is_crowded(&self) -> bool {
        let lines = self.changes.lines.load(Ordering::Relaxed);
        lines >= CROWDED.lines || self.changes.bytes.load(Ordering::Relaxed) >= CROWDED.bytes
    }
}

impl Place {
    /// Notes that the record has become a line of this length.
    pub(super) fn becomes(&mut self, line: usize) {
        if line >= self.bytes {
            let more = line - self.bytes;
            self.among.bytes.fetch_add(more, Ordering::Relaxed);
        } else {
            let less = self.bytes - line;
            self.among.bytes.fetch_sub(less, Ordering::Relaxed);
        }
        self.bytes = line;
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.among.lines.fetch_sub(1, Ordering::Relaxed);
        self.among.bytes.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test says what it expects")]
    use super::*;

    #[test]
    fn refusals_take_no_room_of_changes_and_changes_are_bounded_in_bytes() {
        let waiting = Waiting::default();
        let refusals = (0..300).map_while(|_| waiting.place(true, 16 << 10));
        let refusals: Vec<Place> = refusals.collect();
        assert_eq!(refusals.len(), 256);
        assert!(!waiting.is_crowded());
        let one = waiting.place(false, 33 << 20).unwrap();
        assert!(waiting.is_crowded());
        assert!(waiting.place(false, 32 << 20).is_none());
        drop(one);
        assert!(!waiting.is_crowded());
    }

    #[test]
    fn a_line_that_is_longer_than_its_record_takes_its_length_and_gives_it_back() {
        let waiting = Waiting::default();
        let mut place = waiting.place(false, 1).unwrap();
        place.becomes(40 << 20);
        assert!(waiting.is_crowded());
        place.becomes(10);
        assert!(!waiting.is_crowded());
        drop(place);
        // Longer than all of the room, and alone.
        assert!(waiting.place(false, 100 << 20).is_some());
    }
}
