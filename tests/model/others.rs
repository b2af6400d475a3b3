//! Those who are not the batch, and write through the gateway: a writer who names his version, one who has the catalog
//! choose it, another batch, and somebody who changes names.

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
    /// It has built on `on` and will ask for the version at `place`.
    Built {
        table: usize,
        place: usize,
        on: Maker,
    },
    /// It has asked. `waited`: what is below was made again since.
    Came {
        table: usize,
        place: usize,
        on: Maker,
        waited: bool,
    },
    Done,
}

/// Another batch, which wants the next version of one table; as far as this one meets it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Rival {
    #[default]
    Idle,
    /// It was aborted, and its create may land, or has landed.
    Uncertain {
        table: usize,
        place: usize,
        /// It came after this one was committed.
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
        // They are remembered for longer than they may land, by more than a batch takes to be decided.
        let lifted = self.setup.lifted == Some(Assumption::StraysRemembered);
        let undecided = self.log.decision.is_none() && self.locked.contains(&true) && !lifted;
        if up && !self.strays.is_empty() && !undecided && self.has_no_strays_under_way() {
            moves.push(Move::StraysOver);
        }
    }

    /// A delete of what comes next here is under way: nobody behind the gateway's back is protected from it.
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

    /// What the writer takes for the latest version.
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

    /// Somebody has made this version and is told so: who waits, and has built on what was there before, is late.
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

    /// So long after it was undone, who has built on it has asked, and has been answered.
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

    /// `fault`: nobody hears what comes of it.
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
                    // Who saw storage and asks only after it was made again cannot be told from who built on that.
                    let soon = waited || self.setup.lifted == Some(Assumption::RawAsksSoon);
                    let right = stands || !self.is_tainted(on) || !soon;
                    self.must(Invariant::NothingOnWhatIsGone, right);
                    self.acknowledge(table, place);
                    self.taken(table, Some(place));
                }
            }
        }
    }

    /// The catalog chooses the version.
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

    /// The other batch validates, and commits; or its create is lost, and it is aborted.
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

    /// The other batch undoes what has landed late, where it can tell that it is its own; or its watch is over.
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
            // It is not its own, and is neither shown nor touched.
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

    /// Another table gets this name; or, where the name has been removed, a new one.
    pub fn rename(&mut self, table: usize) {
        self.renamer = false;
        if !self.tables[table].reuse_base() {
            self.tables[table] = Table::alien();
            self.forget_freed(table);
            // Whose table loses its name while he waits is not told of it.
            self.forgo_writer(table);
        }
    }
}
