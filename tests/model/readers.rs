//! The readers: one lists what there is, and one has the catalog choose the version.

use crate::invariants::Invariant;
use crate::setup::Flaw;
use crate::world::World;

/// A client that reads one table and then the other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Reader {
    #[default]
    Idle,
    /// The catalog has answered with these entries (one bit each), and the filter is still to run.
    Listed {
        table: usize,
        entries: u8,
        earlier: Option<bool>,
    },
    /// The reader has read one table. `earlier`: that table showed the batch.
    Between {
        table: usize,
        earlier: bool,
    },
    Done,
}

/// A client that has the catalog choose the version that it reads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Counter {
    #[default]
    Idle,
    /// The catalog has answered. `tainted`: the answer counts a version that must not be seen.
    Counted {
        table: usize,
        tainted: bool,
    },
    Done,
}

impl World {
    pub fn list(&mut self, table: usize) {
        let listed = self.setup.plan.shares().get(table).into_iter().copied();
        let listed = listed.flatten().filter(|entry| self.is_done(**entry));
        let entries = listed.map(|entry| 1 << entry).sum();
        let earlier = match self.reader {
            Reader::Between { earlier, .. } => Some(earlier),
            _ => None,
        };
        self.reader = Reader::Listed {
            table,
            entries,
            earlier,
        };
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

    /// Lets the catalog answer with what is there.
    pub fn count(&mut self, table: usize) {
        let mut made = self.tables[table].made();
        let tainted = made.any(|(_, maker)| self.is_tainted(maker));
        self.counter = Counter::Counted { table, tainted };
    }

    /// Passes the answer on, unless an uncertain version has landed.
    pub fn end_count(&mut self) {
        let counter = std::mem::replace(&mut self.counter, Counter::Done);
        let Counter::Counted { table, tainted } = counter else {
            return;
        };
        let landed = |place| self.tables[table].at(place).is_some();
        let unchecked = self.setup.flaw == Some(Flaw::CountUnchecked);
        let refused = !unchecked && self.landing(table).any(landed);
        self.must(Invariant::UndecidedIsHidden, refused || !tainted);
    }
}
