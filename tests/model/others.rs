//! Those who are not the batch: a writer and a reader who go through the gateway.

use nsgate::batch::step::Settled;

use crate::catalog::Maker;
use crate::invariants::Invariant;
use crate::moves::Move;
use crate::world::{Reader, SHARES, Slot, World, Writer};

impl World {
    pub fn moves_of_others(&self, moves: &mut Vec<Move>) {
        for table in 0..2 {
            if self.stranger {
                moves.extend([true, false].map(|alike| Move::Stranger { table, alike }));
            }
            if self.writer == Writer::Idle {
                moves.push(Move::Builds { table, raw: true });
                if self.is_up() {
                    moves.push(Move::Builds { table, raw: false });
                }
            }
            if self.is_up() && self.reader == Reader::Idle {
                moves.push(Move::Lists(table));
            }
        }
        match self.writer {
            Writer::Built { table, .. } if self.is_up() && !self.locked[table] => {
                moves.push(Move::Writes);
            }
            _ => {}
        }
        match self.reader {
            Reader::Between { table, .. } if self.is_up() => moves.push(Move::Lists(1 - table)),
            Reader::Listed { .. } => moves.push(Move::Reads),
            _ => {}
        }
    }

    /// What the writer takes for the latest version.
    pub fn build(&mut self, table: usize, raw: bool) {
        let hidden = |place: &usize| {
            let entry = SHARES[table].get(*place);
            entry.is_some_and(|entry| self.slots[*entry] != Slot::Open)
        };
        let next = self.tables[table].next();
        let seen = |place: &usize| raw || !hidden(&(place - 1));
        let place = (1..=next).rev().find(seen).unwrap_or(0);
        self.writer = match self.tables[table].before(place) {
            Some(on) => Writer::Built { table, place, on },
            None => Writer::Done,
        };
    }

    /// The batch made it, and let its number go. A number that somebody else was found to have taken was never let go.
    fn freed(&self, maker: Maker) -> bool {
        let Maker::Entry(entry) = maker else {
            return false;
        };
        let settled = self.log.settled[entry];
        matches!(settled, Some(Settled::Gone | Settled::Unseen))
    }

    pub fn write(&mut self) {
        let Writer::Built { table, place, on } = std::mem::replace(&mut self.writer, Writer::Done)
        else {
            return;
        };
        if self.rests(table, place) {
            return;
        }
        let stands = self.tables[table].before(place) == Some(on);
        if self.tables[table].create(place, Maker::Writer) {
            self.must(Invariant::NothingOnWhatIsGone, stands || !self.freed(on));
        }
    }

    pub fn read(&mut self) {
        let Reader::Listed {
            table,
            entries,
            earlier,
        } = self.reader
        else {
            return;
        };
        let shown = self.check_read(table, entries, earlier);
        self.reader = match earlier {
            None => Reader::Between {
                table,
                earlier: shown,
            },
            Some(_) => Reader::Done,
        };
    }
}
