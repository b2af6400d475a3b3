//! Models what the gateway does around the protocol: what it hides, what it permits to others, and whose version it
//! takes a version to be. The originals are `batch::visibility`, `batch::run::visible` and `batch::run::watch`.

use nsgate::batch::step::{Effect, Settled, State};

use crate::catalog::{Maker, Table};
use crate::others::Rival;
use crate::readers::{Counter, Reader};
use crate::setup::Flaw;
use crate::world::{Flight, Late, World};

/// The gateway's knowledge of an entry's version, or of the name that the entry removes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Slot {
    #[default]
    Open,
    /// Hidden, with every version above it.
    Made,
    /// Shown until the reveal, hidden from then on: it is to be removed.
    Armed,
    /// Hidden: it is being removed.
    Removed,
    /// Undone and free. A version above it waits until this one has been created again.
    Freed,
    /// Created again by another client since.
    Retaken,
    /// Hidden, with every version above it: a create of the batch may still land.
    Landing { contested: bool },
    /// Hidden as `Landing` is. A removal of the batch may still arrive, so no client may create it.
    Leaving { contested: bool },
    /// Committed, but another create of it may act: the table keeps its name.
    Kept,
}

impl Slot {
    /// Returns true if a request that was sent may still arrive.
    pub fn is_uncertain(self) -> bool {
        matches!(self, Self::Landing { .. } | Self::Leaving { .. })
    }

    fn is_contested(self) -> bool {
        let (Self::Landing { contested } | Self::Leaving { contested }) = self else {
            return false;
        };
        contested
    }

    fn hides(self, flaw: Option<Flaw>) -> bool {
        match self {
            Self::Made => true,
            Self::Landing { .. } | Self::Leaving { .. } => flaw != Some(Flaw::LandingShown),
            _ => false,
        }
    }
}

/// The creates of other clients that got no answer and may be taken for the batch's. They are remembered for as long as
/// they may land.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Strays {
    /// True, by table, if the create may be of any version.
    any: [bool; 2],
    /// The place of the version, by table; `None` if it is not known.
    at: [Option<usize>; 2],
    /// True if an earlier life of the gateway may have let some through.
    pub anywhere: bool,
}

impl Strays {
    pub fn add(&mut self, table: usize, place: Option<usize>) {
        match place {
            Some(place) => self.at[table] = Some(place),
            None => self.any[table] = true,
        }
    }

    pub fn is_empty(self) -> bool {
        self == Self::default()
    }

    fn may_be(self, table: usize, place: usize) -> bool {
        self.anywhere || self.any[table] || self.at[table] == Some(place)
    }
}

impl World {
    /// Iterates over the versions that the batch creates in a table: entry, place and slot.
    fn slots_of(&self, table: usize) -> impl Iterator<Item = (usize, usize, Slot)> + '_ {
        self.made().filter_map(move |entry| {
            let (on, place) = self.place_of(entry);
            (on == table).then_some((entry, place, self.slots[entry]))
        })
    }

    /// Returns the place that the other batch may have created.
    fn rival_at(&self, table: usize) -> Option<usize> {
        match self.rival {
            Rival::Uncertain {
                table: on, place, ..
            } if on == table => Some(place),
            _ => None,
        }
    }

    /// Returns true if a reader through the gateway does not see this version.
    pub fn is_hidden(&self, table: usize, place: usize) -> bool {
        let flaw = self.setup.flaw;
        let covers = |start: usize| match flaw {
            Some(Flaw::AboveShown) => start == place,
            _ => start <= place,
        };
        let mut slots = self.slots_of(table);
        slots.any(|(_, start, slot)| slot.hides(flaw) && covers(start))
            || self.rival_at(table).is_some_and(covers)
    }

    /// Returns true if a create of this version may pass. `waited`: it came before a version below it was created
    /// again.
    pub fn may_create(&self, table: usize, place: usize, waited: bool) -> bool {
        let flaw = self.setup.flaw;
        let forbids = |(_, start, slot): (usize, usize, Slot)| match slot {
            Slot::Leaving { .. } if start == place => flaw != Some(Flaw::LeavingPasses),
            _ if start >= place => false,
            Slot::Landing { .. } | Slot::Leaving { .. } | Slot::Freed => true,
            Slot::Retaken => waited && flaw != Some(Flaw::WaitedPasses),
            _ => false,
        };
        let above_rival = self.rival_at(table).is_some_and(|start| start < place);
        !self.slots_of(table).any(forbids) && !above_rival && !self.is_name_uncertain(table)
    }

    /// Returns true if a request about the table's name may still arrive.
    fn is_name_uncertain(&self, table: usize) -> bool {
        self.entries().any(|entry| {
            let here = self.removes(entry) && self.place_of(entry).0 == table;
            here && self.slots[entry].is_uncertain() && self.setup.flaw != Some(Flaw::RenamesPass)
        })
    }

    /// Returns true if no request about the table may still arrive.
    fn is_certain(&self, table: usize) -> bool {
        !self.slots_of(table).any(|(_, _, slot)| slot.is_uncertain())
            && self.rival_at(table).is_none()
            && !self.is_name_uncertain(table)
    }

    /// Returns true if a change may pass for which the catalog chooses the version.
    pub fn may_change(&self, table: usize) -> bool {
        self.is_certain(table) || self.setup.flaw == Some(Flaw::ChangesPass)
    }

    /// Returns true if a change of the name may pass.
    pub fn may_rename(&self, table: usize) -> bool {
        let kept = self.slots_of(table).any(|(_, _, slot)| slot == Slot::Kept);
        let kept = kept && self.setup.flaw != Some(Flaw::KeptRenamed);
        let certain = self.is_certain(table) && !kept;
        certain || self.setup.flaw == Some(Flaw::RenamesPass)
    }

    /// Iterates over the places that must be free after a catalog has counted.
    pub fn landing(&self, table: usize) -> impl Iterator<Item = usize> + '_ {
        let uncertain = self
            .slots_of(table)
            .filter(|(_, _, slot)| slot.is_uncertain());
        let ours = uncertain.map(|(_, place, _)| place);
        ours.chain(self.rival_at(table))
    }

    /// Returns true if a version in the entry's place may be another's, however alike it looks.
    pub fn is_contested(&self, entry: usize) -> bool {
        let (table, place) = self.place_of(entry);
        let flaw = self.setup.flaw;
        let contested = self.let_go[entry].contested || self.slots[entry].is_contested();
        contested
            || self.strays.may_be(table, place) && flaw != Some(Flaw::StraysForgotten)
            || self.rival_at(table) == Some(place) && flaw != Some(Flaw::RivalsForgotten)
    }

    /// Returns true if it is known that another client's create may have made the entry's version.
    pub fn is_remembered(&self, entry: usize) -> bool {
        let (table, place) = self.place_of(entry);
        self.strays.may_be(table, place)
    }

    /// Notes that another client's create of this version goes out. `writer`: a client that no log knows.
    pub fn contest(&mut self, table: usize, place: usize, writer: bool) {
        let open = !self.log.ended;
        let durable = writer && open;
        for entry in self.entries() {
            let here = self.place_of(entry) == (table, place) && !self.removes(entry);
            let over = Flight::Ask(Effect::Note(entry, Settled::Theirs));
            let over =
                self.log.settled[entry] == Some(Settled::Theirs) || self.flights.contains(&over);
            if let (true, Slot::Landing { contested } | Slot::Leaving { contested }) =
                (here, &mut self.slots[entry])
            {
                *contested = true;
                if durable && !over {
                    self.log.settled[entry] = Some(Settled::Contested);
                }
            }
        }
    }

    /// Notes that another client has created a version: this one, or, if the catalog chose, every free one.
    pub fn taken(&mut self, table: usize, place: Option<usize>) {
        if self.setup.flaw == Some(Flaw::TakenForgotten) {
            return;
        }
        if let Rival::Uncertain {
            table: on,
            place: at,
            ..
        } = self.rival
            && (on, Some(at)) == (table, place)
        {
            self.rival = Rival::Done;
        }
        for entry in self.made() {
            let (on, at) = self.place_of(entry);
            let which = match place {
                Some(place) => at == place,
                None => self.slots[entry] == Slot::Freed,
            };
            let slot = self.slots[entry];
            if on == table && which && (slot == Slot::Freed || slot.is_uncertain()) {
                self.slots[entry] = Slot::Retaken;
                self.invalidate_reads(table);
                if !self.log.ended {
                    self.log.settled[entry] = Some(Settled::Theirs);
                }
            }
        }
    }

    /// Notes that another table has the name. The freed versions of the former table say nothing about it.
    pub fn forget_freed(&mut self, table: usize) {
        for entry in self.made() {
            let freed = matches!(self.slots[entry], Slot::Freed | Slot::Retaken);
            if self.place_of(entry).0 == table && freed {
                self.slots[entry] = Slot::Open;
                if !self.log.ended {
                    self.log.settled[entry] = Some(Settled::Theirs);
                }
            }
        }
    }

    /// Hides what the batch creates from now on, and what it removes from the reveal on.
    pub fn hide(&mut self) {
        for entry in self.entries() {
            self.slots[entry] = if self.removes(entry) {
                Slot::Armed
            } else {
                Slot::Made
            };
        }
    }

    pub fn reveal(&mut self) {
        for slot in &mut self.slots {
            *slot = match *slot {
                Slot::Made => Slot::Open,
                Slot::Armed => Slot::Removed,
                other => other,
            };
        }
        let shares = self.setup.plan.shares().iter().enumerate();
        for (table, _) in shares.filter(|(_, share)| share.len() > 1) {
            self.invalidate_reads(table);
        }
        for entry in self.made() {
            if let Rival::Uncertain {
                table,
                place,
                later: false,
            } = self.rival
                && (table, place) == self.place_of(entry)
            {
                self.rival = Rival::Done;
            }
        }
    }

    pub fn show(&mut self, entry: usize) {
        self.slots[entry] = Slot::Open;
        self.invalidate_reads(self.place_of(entry).0);
    }

    pub fn reserve(&mut self, entry: usize) {
        let contested = self.slots[entry].is_contested();
        let let_go = &mut self.let_go[entry];
        let_go.reserved = true;
        let_go.resting = false;
        let_go.contested |= contested;
    }

    pub fn as_noted(&self, entry: usize, settled: Settled) -> Settled {
        match settled {
            Settled::Unseen if self.let_go[entry].contested => Settled::Contested,
            Settled::Leaving if self.let_go[entry].contested => Settled::LeavingContested,
            settled => settled,
        }
    }

    pub fn unlock(&mut self, share: usize) {
        for &entry in self.setup.plan.shares()[share] {
            let let_go = self.let_go[entry];
            match (let_go.reserved, let_go.resting) {
                (true, true) => {}
                (true, false) => {
                    self.slots[entry] = self.released(entry);
                    self.let_go[entry].resting = true;
                    self.invalidate_reads(share);
                }
                (false, _) => {
                    let hid = !matches!(self.slots[entry], Slot::Open);
                    self.slots[entry] = Slot::Open;
                    if hid {
                        self.invalidate_reads(share);
                    }
                }
            }
            if self.state().is_some_and(|state| state.is_kept(entry)) {
                self.slots[entry] = Slot::Kept;
            }
        }
        self.locked[share] = false;
    }

    fn released(&self, entry: usize) -> Slot {
        let is =
            |what: fn(&State, usize) -> bool| self.state().is_some_and(|state| what(state, entry));
        let contested = self.let_go[entry].contested;
        match (is(State::is_leaving), is(State::is_watched)) {
            (_, false) if self.removes(entry) => Slot::Open,
            (true, _) => Slot::Leaving { contested },
            (false, true) => Slot::Landing { contested },
            (false, false) => Slot::Freed,
        }
    }

    pub fn unwatch(&mut self, entry: usize) {
        if self.slots[entry] == Slot::Kept {
            self.slots[entry] = Slot::Open;
        }
        if self.slots[entry].is_uncertain() {
            self.show(entry);
            self.forgo_writer(self.place_of(entry).0);
        }
    }

    /// Makes a reader repeat its request if the catalog of this table has already answered it. The versions that are no
    /// longer hidden may be missing in that answer, or be there only in part.
    fn invalidate_reads(&mut self, overtaken: usize) {
        if let Reader::Listed { table, earlier, .. } = self.reader
            && table == overtaken
        {
            self.reader = match earlier {
                None => Reader::Idle,
                Some(earlier) => Reader::Between {
                    table: 1 - table,
                    earlier,
                },
            };
        }
    }

    /// Returns true if the table can be locked: neither a batch nor a counting read holds it.
    pub fn is_free(&self, table: usize) -> bool {
        let counting = matches!(self.counter, Counter::Counted { table: on, .. } if on == table);
        !self.locked[table] && !counting
    }

    /// Returns true if an unanswered create of another client may still land, or has landed.
    pub fn has_strays(&self) -> bool {
        let landed = |table: &Table| table.made().any(|(_, maker)| maker == Maker::Stray);
        !self.has_no_strays_under_way() || self.tables.iter().any(landed)
    }

    /// Returns true if no unanswered create of another client may still land.
    pub fn has_no_strays_under_way(&self) -> bool {
        let stray = |late: &Late| matches!(late, Late::Write { .. } | Late::Insert(_));
        !self.late.iter().any(stray)
    }
}
