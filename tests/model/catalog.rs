//! A catalog as real ones are: it makes only the next version, of what was staged, which most consume; a create that it
//! has done already is a conflict; and it deletes whatever it is told to.

use nsgate::batch::step::{Event, Finding, Match};

use crate::setup::Tags;
use crate::world::{Facts, World, refusal};

/// Who made a version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Maker {
    /// It was there before everything.
    Base,
    /// The batch, for this entry.
    Entry(usize),
    /// A client that writes through the gateway, and was told so.
    Writer,
    /// One that was not told what came of it, or of whose change the catalog chose the version.
    Stray,
    /// A batch that came between.
    Rival { committed: bool },
    /// It belongs to another table, which has got the name.
    Alien,
    /// Somebody behind the gateway's back; of the same size as ours, or not.
    Stranger { alike: bool },
}

impl Maker {
    /// Somebody was told that it is there.
    pub fn is_acknowledged(self) -> bool {
        let committed = true;
        matches!(self, Self::Writer | Self::Alien) || self == Self::Rival { committed }
    }
}

/// Versions a table can have beyond its first.
const PLACES: usize = 4;

/// What was there before everything: the first version, or the name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
enum Base {
    #[default]
    There,
    Removed,
    /// Somebody else has made it again, through the gateway.
    Others,
}

/// A table's versions.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Table {
    later: [Option<Maker>; PLACES],
    base: Base,
}

impl Table {
    /// Another one, which has a committed version of the number that comes next here.
    pub fn alien() -> Self {
        let mut table = Self::default();
        table.later[0] = Some(Maker::Alien);
        table
    }

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

    /// Who made the versions, and where they are.
    pub fn made(&self) -> impl Iterator<Item = (usize, Maker)> + '_ {
        let made = self.later.iter().enumerate();
        made.filter_map(|(place, maker)| maker.map(|maker| (place, maker)))
    }

    /// True: somebody else has lost by it.
    pub fn remove_base(&mut self) -> bool {
        std::mem::replace(&mut self.base, Base::Removed) == Base::Others
    }

    pub fn has_lost_base(&self) -> bool {
        self.base != Base::There
    }

    /// Somebody else makes what was removed, if it was.
    pub fn reuse_base(&mut self) -> bool {
        let free = self.base == Base::Removed;
        if free {
            self.base = Base::Others;
        }
        free
    }

    pub fn delete(&mut self, place: usize) -> Option<Maker> {
        self.later[place].take()
    }
}

/// What a catalog makes of a create.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Made {
    Yes,
    /// What was staged is not there; or so it says.
    Refused,
    /// Not the next version.
    Conflicted,
    /// It was never sent.
    Unsent,
    /// Something, but not what was asked for.
    Spoiled,
}

impl Made {
    pub fn answer(self, entry: usize) -> Event {
        match self {
            Self::Yes => Event::Created(entry),
            Self::Refused => Event::Refused(entry, refusal()),
            Self::Conflicted => Event::Conflicted(entry, refusal()),
            Self::Unsent => Event::Unsent(entry, refusal()),
            Self::Spoiled => Event::Spoiled(entry, refusal()),
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
        let (table, place) = self.place_of(entries[0]);
        if self.tables[table].next() != place {
            return Made::Conflicted;
        }
        if entries.iter().any(|entry| self.facts[*entry].consumed) {
            Made::Refused
        } else {
            Made::Yes
        }
    }

    /// The second half of a create on a store that reads first: it writes where the place is free.
    pub fn put(&mut self, entries: &[usize]) -> bool {
        let free = entries.iter().all(|entry| self.maker(*entry).is_none());
        if free {
            for &entry in entries {
                let (table, place) = self.place_of(entry);
                self.tables[table].put(place, Maker::Entry(entry));
                self.facts[entry].consumed = !self.setup.keeps;
            }
        }
        free
    }

    /// What the gateway makes of what the catalog says of an entry's version.
    pub fn find(&self, entry: usize) -> Finding {
        let (table, place) = self.place_of(entry);
        let facts = self.facts[entry];
        let proven = match self.setup.tags {
            Tags::Kept => true,
            // What was written late is an object of its own.
            Tags::Answered => facts.proof && !facts.landed,
            Tags::None => false,
        };
        let likeness = match self.tables[table].at(place) {
            None => return Finding::Absent,
            Some(Maker::Entry(_)) if proven => Match::Proven,
            Some(Maker::Stranger { alike: false }) => Match::Unlike,
            Some(_) if self.is_contested(entry) => Match::Incomparable,
            Some(_) => Match::Alike,
        };
        let latest = self.tables[table].is_latest(place);
        Finding::Present { likeness, latest }
    }

    /// What the gateway sees decides what it may delete.
    pub fn note_look(&mut self, entry: usize) {
        let (table, place) = self.place_of(entry);
        let seen_absent = self.maker(entry).is_none();
        // Nobody was told of it, nobody has seen it, and nobody remembers any more that it was sent.
        let forgotten = self.maker(entry) == Some(Maker::Stray) && !self.is_remembered(entry);
        let ours = self.passes_for_ours(entry) || forgotten;
        let deletable = ours && self.tables[table].is_latest(place);
        let facts = Facts {
            deletable,
            seen_absent,
            ..self.facts[entry]
        };
        self.facts[entry] = facts;
    }
}
