//! The clients that write through the gateway beside the batch: a writer who names his version, one who has the catalog
//! choose it, another batch, and one that renames tables.

use nsgate::batch::step::{Effect, Event, Finding};

use crate::catalog::{Maker, Table};
use crate::faults::Fault;
use crate::invariants::Invariant;
use crate::moves::Move;
use crate::readers::{Counter, Reader};
use crate::setup::Assumption;
use crate::world::{Flight, Late, World};

/// A client that adds one version to one table, through the gateway.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Writer {
    #[default]
    Idle,
    /// The writer has built on `on` and will request the version at `place`.
    Built {
        table: usize,
        place: usize,
        on: Maker,
    },
    /// The writer has sent its request. `waited`: the version below was created again since.
    Came {
        table: usize,
        place: usize,
        on: Maker,
        waited: bool,
    },
    Done,
}

/// Another batch, which wants the next version of one table. Only the part that meets the modelled batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Rival {
    #[default]
    Idle,
    /// The other batch was aborted, and its create may land, or has landed.
    Uncertain {
        table: usize,
        place: usize,
        /// True if it came after the modelled batch was committed.
        later: bool,
    },
    Done,
}

impl World {
    pub fn moves_of_others(&self, moves: &mut Vec<Move>) {
        let up = self.is_up();
        for table in 0..self.setup.plan.shares().len() {
            let free = up && !self.locked[table];
            if self.stranger && !self.is_hunted(table) {
                moves.extend([true, false].map(|alike| Move::Stranger { table, alike }));
            }
            if self.cleaner && self.tables[table].next() > 0 && !self.is_hunted(table) {
                moves.push(Move::Cleans(table));
            }
            if self.writer == Writer::Idle {
                moves.push(Move::Builds { table, raw: true });
                if up {
                    moves.push(Move::Builds { table, raw: false });
                }
            }
            if self.server && free && self.may_change(table) {
                moves.push(Move::Inserts(table));
                let faults = [Fault::AnswerLost, Fault::Late];
                moves.extend(self.with_messages(faults, |fault| Move::LosesInsert(table, fault)));
            }
            if self.rival == Rival::Idle && self.is_free(table) && up {
                moves.push(Move::Competes(table));
                moves.extend(self.with_messages([Fault::Late], |_| Move::LosesRival(table)));
            }
            if self.renamer && free && self.may_rename(table) {
                moves.push(Move::Renames(table));
            }
            if up && self.reader == Reader::Idle {
                moves.push(Move::Lists(table));
            }
            if free && self.counter == Counter::Idle {
                moves.push(Move::Counts(table));
            }
        }
        self.moves_of_clients(moves);
        if let Rival::Uncertain { table, .. } = self.rival
            && up
            && self.is_free(table)
        {
            moves.push(Move::RivalLooks);
        }
        // Creates without an answer are remembered longer than they may land, by more time than a batch takes to be
        // decided.
        let lifted = self.setup.lifted == Some(Assumption::StraysRemembered);
        let undecided = self.log.decision.is_none() && self.locked.contains(&true) && !lifted;
        if up && !self.strays.is_empty() && !undecided && self.has_no_strays_under_way() {
            moves.push(Move::StraysOver);
        }
    }

    /// Returns true if a delete of the table's next version is under way. A client behind the gateway's back is not
    /// protected from such a delete.
    fn is_hunted(&self, table: usize) -> bool {
        let next = (table, self.tables[table].next());
        let lifted = self.setup.lifted == Some(Assumption::StrangersKeepOff);
        let hunted = |entry: usize| self.place_of(entry) == next && !lifted;
        let asked = |flight: &Flight| match flight {
            Flight::Ask(Effect::Delete { entry, .. }) => hunted(*entry),
            Flight::Say(Event::Found(entry, Finding::Present { .. })) => hunted(*entry),
            _ => false,
        };
        let late = |late: &Late| matches!(late, Late::Delete(entry) if hunted(*entry));
        self.flights.iter().any(asked) || self.late.iter().any(late)
    }

    fn moves_of_clients(&self, moves: &mut Vec<Move>) {
        let up = self.is_up();
        match self.writer {
            Writer::Built { .. } if up => moves.push(Move::Comes),
            Writer::Came { table, .. } if up && !self.locked[table] => {
                moves.push(Move::Writes);
                let faults = [Fault::AnswerLost, Fault::Late];
                moves.extend(self.with_messages(faults, Move::LosesWrite));
            }
            _ => {}
        }
        match self.reader {
            Reader::Between { table, .. } if up => moves.push(Move::Lists(1 - table)),
            Reader::Listed { .. } => moves.push(Move::Reads),
            _ => {}
        }
        if matches!(self.counter, Counter::Counted { .. }) {
            moves.push(Move::CountEnds);
        }
    }

    fn with_messages<const N: usize>(
        &self,
        faults: [Fault; N],
        next: impl Fn(Fault) -> Move,
    ) -> impl Iterator<Item = Move> {
        let left = self.faults.messages > 0;
        let moves = faults.map(next);
        moves.into_iter().filter(move |_| left)
    }

    /// Picks the version that the writer takes for the latest, and the place above it.
    pub fn build(&mut self, table: usize, raw: bool) {
        let next = self.tables[table].next();
        let seen = |place: &usize| raw || !self.is_hidden(table, place - 1);
        let place = (1..=next).rev().find(seen).unwrap_or(0);
        self.writer = match self.tables[table].before(place) {
            Some(on) => Writer::Built { table, place, on },
            None => Writer::Done,
        };
    }

    pub fn come(&mut self) {
        if let Writer::Built { table, place, on } = self.writer {
            let waited = false;
            self.writer = Writer::Came {
                table,
                place,
                on,
                waited,
            };
        }
    }

    /// Notes that a client was told of this version. A waiting writer above it has built on the version that was there
    /// before, so it is late.
    fn acknowledge(&mut self, table: usize, place: usize) {
        self.check_stands(table, place);
        if let Writer::Came {
            table: on,
            place: at,
            waited,
            ..
        } = &mut self.writer
            && *on == table
            && *at > place
        {
            *waited = true;
        }
    }

    /// Ends the writer that has built on an undone version: by this time it has sent its request and been answered.
    pub fn forgo_writer(&mut self, table: usize) {
        let (Writer::Built {
            table: on,
            place,
            on: maker,
        }
        | Writer::Came {
            table: on,
            place,
            on: maker,
            ..
        }) = self.writer
        else {
            return;
        };
        let stands = self.tables[table].before(place) == Some(maker);
        let lifted = self.setup.lifted == Some(Assumption::RawAsksSoon);
        if on == table && self.is_tainted(maker) && !stands && !lifted {
            self.writer = Writer::Done;
        }
    }

    /// Carries out the writer's create. With a `fault` its result is not told.
    pub fn write(&mut self, fault: Option<Fault>) {
        let writer = std::mem::replace(&mut self.writer, Writer::Done);
        let Writer::Came {
            table,
            place,
            on,
            waited,
        } = writer
        else {
            return;
        };
        if !self.may_create(table, place, waited) {
            return;
        }
        self.contest(table, place, true);
        if fault.is_some() {
            self.strays.add(table, Some(place));
        }
        match fault {
            Some(Fault::Late) => self.linger(Late::Write { table, place }),
            Some(_) => {
                self.tables[table].create(place, Maker::Stray);
            }
            None => {
                let stands = self.tables[table].before(place) == Some(on);
                if self.tables[table].create(place, Maker::Writer) {
                    // A client that saw storage and sends its create only after the base was created again looks like
                    // one that built on the new base.
                    let soon = waited || self.setup.lifted == Some(Assumption::RawAsksSoon);
                    let right = stands || !self.is_tainted(on) || !soon;
                    self.must(Invariant::NothingOnWhatIsGone, right);
                    self.acknowledge(table, place);
                    self.taken(table, Some(place));
                }
            }
        }
    }

    /// Carries out a change for which the catalog chooses the version. With a `fault` its result is not told.
    pub fn insert(&mut self, table: usize, fault: Option<Fault>) {
        self.server = false;
        let place = self.tables[table].next();
        if fault.is_some() {
            self.strays.add(table, None);
        }
        match fault {
            Some(Fault::Late) => self.linger(Late::Insert(table)),
            Some(_) => {
                self.tables[table].create(place, Maker::Stray);
            }
            None => {
                if self.tables[table].create(place, Maker::Writer) {
                    self.acknowledge(table, place);
                    self.taken(table, None);
                }
            }
        }
    }

    /// Lets the other batch validate and commit; if its create is `lost`, it is aborted.
    pub fn compete(&mut self, table: usize, lost: bool) {
        self.rival = Rival::Done;
        let place = self.tables[table].next();
        if !self.may_create(table, place, false) {
            return;
        }
        self.contest(table, place, false);
        if lost {
            let later = self.is_committed();
            self.rival = Rival::Uncertain {
                table,
                place,
                later,
            };
            self.linger(Late::Rival { table, place });
        } else if self.tables[table].create(place, Maker::Rival { committed: true }) {
            self.acknowledge(table, place);
            self.taken(table, Some(place));
        }
    }

    /// Lets the other batch undo a version that landed late, if it can prove that the version is its own, or end its
    /// watch. Returns false if it can do neither.
    pub fn rival_looks(&mut self) -> bool {
        let Rival::Uncertain { table, place, .. } = self.rival else {
            return false;
        };
        let late = Late::Rival { table, place };
        match self.tables[table].at(place) {
            Some(Maker::Rival { committed: false }) => {
                let alone = !self.rival_is_contested(table, place);
                let undone = alone && self.tables[table].is_latest(place);
                if undone {
                    self.tables[table].delete(place);
                }
                undone
            }
            // The version cannot be the other batch's own, so it is neither shown nor touched.
            Some(maker) if !maker.is_acknowledged() => false,
            _ => {
                self.late.retain(|other| *other != late);
                self.rival = Rival::Done;
                self.forgo_writer(table);
                true
            }
        }
    }

    fn rival_is_contested(&self, table: usize, place: usize) -> bool {
        self.entries().any(|entry| {
            let here = self.place_of(entry) == (table, place) && !self.removes(entry);
            here && self.slots[entry].is_uncertain()
        }) || !self.strays.is_empty()
    }

    /// Gives this name to another table. If the name has been removed, creates a new table.
    pub fn rename(&mut self, table: usize) {
        self.renamer = false;
        if !self.tables[table].reuse_base() {
            self.tables[table] = Table::alien();
            self.forget_freed(table);
            // A waiting writer is not told that its table has lost the name.
            self.forgo_writer(table);
        }
    }
}
