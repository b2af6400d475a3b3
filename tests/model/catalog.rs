//! A catalog as real ones are: it makes only the next version, of what was staged, which it consumes; a create that
//! it has done already is a conflict; and it deletes whatever it is told to.

use nsgate::batch::step::{Event, Finding, Likeness};

use crate::world::{Facts, World, place_of, refusal};

/// Who made a version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Maker {
    /// It was there before everything.
    Base,
    /// The batch, for this entry.
    Entry(usize),
    /// The client that writes through the gateway; of the same size as ours.
    Writer,
    /// Somebody behind the gateway's back; of the same size as ours, or not.
    Stranger { alike: bool },
}

/// Versions a table can have beyond its first.
const PLACES: usize = 4;

/// A table's versions.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Table {
    later: [Option<Maker>; PLACES],
    /// The first one was removed.
    lost_base: bool,
}

impl Table {
    pub fn at(&self, place: usize) -> Option<Maker> {
        self.later[place]
    }

    /// Where the next version goes: after the highest.
    pub fn next(&self) -> usize {
        let latest = self.later.iter().rposition(Option::is_some);
        latest.map_or(0, |latest| latest + 1)
    }

    /// What stands before a place.
    pub fn before(&self, place: usize) -> Option<Maker> {
        match place {
            0 => Some(Maker::Base),
            _ => self.later[place - 1],
        }
    }

    /// Only if it is the next version. False: 409.
    pub fn create(&mut self, place: usize, maker: Maker) -> bool {
        let next = place == self.next() && place < PLACES;
        if next {
            self.later[place] = Some(maker);
        }
        next
    }

    fn put(&mut self, place: usize, maker: Maker) {
        self.later[place] = Some(maker);
    }

    pub fn is_latest(&self, place: usize) -> bool {
        place + 1 == self.next()
    }

    /// Who made the versions above a place.
    pub fn above(&self, place: usize) -> impl Iterator<Item = Maker> + '_ {
        self.later[place + 1..].iter().flatten().copied()
    }

    pub fn remove_base(&mut self) {
        self.lost_base = true;
    }

    pub fn has_lost_base(&self) -> bool {
        self.lost_base
    }

    pub fn delete(&mut self, place: usize) -> Option<Maker> {
        self.later[place].take()
    }
}

/// What a catalog makes of a create.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Made {
    Yes,
    /// What was staged is not there.
    Refused,
    /// Not the next version.
    Conflicted,
}

impl Made {
    pub fn answer(self, entry: usize) -> Event {
        match self {
            Self::Yes => Event::Created(entry),
            Self::Refused => Event::Refused(entry, refusal()),
            Self::Conflicted => Event::Conflicted(entry, refusal()),
        }
    }
}

impl World {
    /// A create of these entries: all of them, or none.
    pub fn create(&mut self, entries: &[usize]) -> Made {
        let made = self.judge(entries);
        if made == Made::Yes {
            self.put(entries);
        }
        made
    }

    /// What the catalog would make of the create.
    pub fn judge(&self, entries: &[usize]) -> Made {
        let (table, place) = place_of(entries[0]);
        if self.tables[table].next() != place {
            return Made::Conflicted;
        }
        match entries.iter().any(|entry| self.facts[*entry].consumed) {
            true => Made::Refused,
            false => Made::Yes,
        }
    }

    /// The second half of a create on a store that reads first: it writes where the place is free.
    pub fn put(&mut self, entries: &[usize]) -> bool {
        let free = entries.iter().all(|entry| self.maker(*entry).is_none());
        if free {
            for &entry in entries {
                let (table, place) = place_of(entry);
                self.tables[table].put(place, Maker::Entry(entry));
                self.facts[entry].consumed = true;
            }
        }
        free
    }

    /// What the catalog says of an entry's version.
    pub fn find(&self, entry: usize) -> Finding {
        let (table, place) = place_of(entry);
        // What was written late is an object of its own.
        let facts = self.facts[entry];
        let likeness = match self.tables[table].at(place) {
            None => return Finding::Absent,
            Some(Maker::Entry(_)) if facts.proof && !facts.landed => Likeness::Proven,
            Some(Maker::Entry(_) | Maker::Writer | Maker::Stranger { alike: true }) => {
                Likeness::Alike
            }
            Some(_) => Likeness::Unlike,
        };
        let latest = self.tables[table].is_latest(place);
        Finding::Present { likeness, latest }
    }

    /// What the gateway sees decides what it may delete.
    pub fn note_look(&mut self, entry: usize) {
        let (table, place) = place_of(entry);
        let seen_absent = self.maker(entry).is_none();
        let deletable = self.passes_for_ours(entry) && self.tables[table].is_latest(place);
        let facts = Facts {
            deletable,
            seen_absent,
            ..self.facts[entry]
        };
        self.facts[entry] = facts;
    }
}
