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
    /// The client that writes through the gateway.
    Writer,
    /// Somebody behind the gateway's back; of the same size as ours, or not.
    Stranger { alike: bool },
}

/// Versions a table can have beyond its first.
const PLACES: usize = 4;

/// A table's versions beyond its first.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Table([Option<Maker>; PLACES]);

impl Table {
    pub fn at(&self, place: usize) -> Option<Maker> {
        self.0[place]
    }

    /// Where the next version goes: after the highest.
    pub fn next(&self) -> usize {
        let latest = self.0.iter().rposition(Option::is_some);
        latest.map_or(0, |latest| latest + 1)
    }

    /// What stands before a place.
    pub fn before(&self, place: usize) -> Option<Maker> {
        match place {
            0 => Some(Maker::Base),
            _ => self.0[place - 1],
        }
    }

    /// Only if it is the next version. False: 409.
    pub fn create(&mut self, place: usize, maker: Maker) -> bool {
        let next = place == self.next() && place < PLACES;
        if next {
            self.0[place] = Some(maker);
        }
        next
    }

    fn put(&mut self, place: usize, maker: Maker) -> bool {
        let free = self.0[place].is_none();
        if free {
            self.0[place] = Some(maker);
        }
        free
    }

    pub fn is_latest(&self, place: usize) -> bool {
        place + 1 == self.next()
    }

    /// Who made the versions above a place.
    pub fn above(&self, place: usize) -> impl Iterator<Item = Maker> + '_ {
        self.0[place + 1..].iter().flatten().copied()
    }

    pub fn delete(&mut self, place: usize) -> Option<Maker> {
        self.0[place].take()
    }
}

impl World {
    /// What the catalog makes of an entry's create.
    pub fn create(&mut self, entry: usize) -> Event {
        let (table, place) = place_of(entry);
        if !self.may_put(entry) {
            return match self.facts[entry].consumed && self.tables[table].next() == place {
                true => Event::Refused(entry, refusal()),
                false => Event::Conflicted(entry, refusal()),
            };
        }
        self.put(entry);
        Event::Created(entry)
    }

    /// The catalog would make the version: it is the next, and what was staged is there.
    pub fn may_put(&self, entry: usize) -> bool {
        let (table, place) = place_of(entry);
        self.tables[table].next() == place && !self.facts[entry].consumed
    }

    /// The second half of a create on a store that reads first: it writes if the place is free.
    pub fn put(&mut self, entry: usize) -> bool {
        let (table, place) = place_of(entry);
        let made = self.tables[table].put(place, Maker::Entry(entry));
        self.facts[entry].consumed |= made;
        made
    }

    /// What the catalog says of an entry's version.
    pub fn find(&self, entry: usize) -> Finding {
        let (table, place) = place_of(entry);
        let likeness = match self.tables[table].at(place) {
            None => return Finding::Absent,
            Some(Maker::Entry(_)) if self.facts[entry].proof => Likeness::Proven,
            Some(Maker::Entry(_) | Maker::Stranger { alike: true }) => Likeness::Alike,
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
