//! A catalog that behaves as real ones do. It creates only the next version, and only from a staged manifest, which
//! most catalogs consume. A create that it has done already is a conflict. It deletes any version that it is told to.

use nsgate::batch::step::{Event, Finding, Hazard, Match};

use crate::setup::Tags;
use crate::world::{Facts, World, refusal};

/// The author of a version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Maker {
    /// The version was there before the search began.
    Base,
    /// The batch, for this entry.
    Entry(usize),
    /// A client that writes through the gateway, and that was told of its success.
    Writer,
    /// A client that was not told the result, or that had the catalog choose the version.
    Stray,
    /// Another batch, which used the number in between.
    Rival { committed: bool },
    /// Another table, which has got the name; the version is that table's.
    Alien,
    /// A client behind the gateway's back. `alike`: the version has the same size as the batch's.
    Stranger { alike: bool },
}

impl Maker {
    /// Returns true if a client was told that the version exists.
    pub fn is_acknowledged(self) -> bool {
        let committed = true;
        matches!(self, Self::Writer | Self::Alien) || self == Self::Rival { committed }
    }
}

/// The number of versions that a table can have beyond its first.
const PLACES: usize = 4;

/// The thing that the batch may remove: the first version, or the name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
enum Base {
    #[default]
    There,
    Removed,
    /// Another client has created it again, through the gateway.
    Others,
    /// A client that took a later version for the latest one has cleaned it up, behind the gateway's back.
    Cleaned,
}

/// The versions of a table.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Table {
    later: [Option<Maker>; PLACES],
    base: Base,
}

impl Table {
    /// Returns another table, which has a committed version of the number that comes next in this one.
    pub fn alien() -> Self {
        let mut table = Self::default();
        table.later[0] = Some(Maker::Alien);
        table
    }

    pub fn at(&self, place: usize) -> Option<Maker> {
        self.later[place]
    }

    /// Returns the place of the next version, which is after the highest.
    pub fn next(&self) -> usize {
        let latest = self.later.iter().rposition(Option::is_some);
        latest.map_or(0, |latest| latest + 1)
    }

    /// Returns the author of the version below a place.
    pub fn before(&self, place: usize) -> Option<Maker> {
        match place {
            0 => Some(Maker::Base),
            _ => self.later[place - 1],
        }
    }

    /// Creates the version if it is the next one. False means 409.
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

    /// Iterates over the versions: the place and the author of each.
    pub fn made(&self) -> impl Iterator<Item = (usize, Maker)> + '_ {
        let made = self.later.iter().enumerate();
        made.filter_map(|(place, maker)| maker.map(|maker| (place, maker)))
    }

    /// Removes the base. Returns true if it was another client's by then, who loses by it.
    pub fn remove_base(&mut self) -> bool {
        std::mem::replace(&mut self.base, Base::Removed) == Base::Others
    }

    pub fn has_lost_base(&self) -> bool {
        self.base != Base::There
    }

    /// Removes what is below a place, if that is the base.
    pub fn clean(&mut self) {
        self.base = Base::Cleaned;
    }

    /// Returns true if nothing but the version at a place is left of the table.
    pub fn is_alone(&self, place: usize) -> bool {
        self.base == Base::Cleaned && self.made().all(|(other, _)| other == place)
    }

    /// Lets another client create the base again, if it was removed.
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

/// The result of a create.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Made {
    Yes,
    /// The staged manifest is missing, or the catalog says so.
    Refused,
    /// The version is not the next one.
    Conflicted,
    /// The create was never sent.
    Unsent,
    /// A version was created, but not the requested one.
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
    /// Creates the versions of these entries: all of them, or none.
    pub fn create(&mut self, entries: &[usize]) -> Made {
        let made = self.judge(entries);
        if made == Made::Yes {
            self.put(entries);
        }
        made
    }

    /// Returns the result that a create would have now.
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

    /// Does the second half of a create, on a store that reads first: writes where the place is free.
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

    /// Returns what the gateway concludes from the catalog's answer about an entry's version.
    pub fn find(&self, entry: usize) -> Finding {
        let (table, place) = self.place_of(entry);
        let facts = self.facts[entry];
        let proven = match self.setup.tags {
            Tags::Kept => true,
            // A version that landed late is an object of its own, so its tag is not the answered one.
            Tags::Answered => facts.proof && !facts.landed,
            Tags::None => false,
        };
        let likeness = match self.tables[table].at(place) {
            None if place < self.tables[table].next() => return Finding::Buried,
            None => return Finding::Absent,
            Some(Maker::Entry(_)) if proven => Match::Proven,
            Some(Maker::Stranger { alike: false }) => Match::Unlike,
            Some(_) if self.is_contested(entry) => Match::Incomparable,
            Some(_) => Match::Alike,
        };
        let obstacle = match self.tables[table].is_latest(place) {
            false => Some(Hazard::BuiltOn),
            true if self.tables[table].is_alone(place) => Some(Hazard::OnlyVersion),
            true => None,
        };
        Finding::Present { likeness, obstacle }
    }

    /// Notes what this look showed, because it decides which versions the gateway may delete.
    pub fn note_look(&mut self, entry: usize) {
        let (table, place) = self.place_of(entry);
        let seen_absent = self.maker(entry).is_none();
        // The client was told nothing, and nothing remembers any more that the create was sent, so the gateway cannot
        // know better.
        let forgotten = self.maker(entry) == Some(Maker::Stray) && !self.is_remembered(entry);
        let ours = self.passes_for_ours(entry) || forgotten;
        let line = &self.tables[table];
        let deletable = ours && line.is_latest(place) && !line.is_alone(place);
        let facts = Facts {
            deletable,
            seen_absent,
            ..self.facts[entry]
        };
        self.facts[entry] = facts;
    }
}
