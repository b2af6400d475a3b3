//! The bounds of the searches.

use crate::mutants::{Assumption, Rules};
use crate::world::{Budget, GATEWAYS, Promise};

/// The bounds of a search: the batches, and how many faults and requests there are.
#[derive(Clone, Copy, Debug)]
pub struct Bound {
    pub name: &'static str,
    pub rules: Rules,
    pub budget: Budget,
    pub gateways: usize,
}

/// No events but batches.
const NONE: Budget = Budget {
    lapses: 0,
    crashes: 0,
    restarts: 0,
    leaves: 0,
    lost: 0,
    late: 0,
    refusals: 0,
    reads: 0,
    writes: 0,
};

impl Bound {
    /// One batch on both tables.
    pub const fn one(name: &'static str) -> Self {
        let rules = Rules {
            tables: [0b11, 0],
            naming: 0,
            lifted: None,
            bug: None,
        };
        Self {
            name,
            rules,
            budget: NONE,
            gateways: GATEWAYS,
        }
    }

    /// A batch on both tables, and one on the first.
    pub const fn two(name: &'static str) -> Self {
        let mut bound = Self::one(name);
        bound.rules.tables = [0b11, 0b01];
        bound
    }

    /// One follower only.
    pub const fn pair(mut self) -> Self {
        self.gateways = 2;
        self
    }

    /// Batches on one table only.
    pub const fn narrow(mut self) -> Self {
        self.rules.tables = [0b01, self.rules.tables[1] & 0b01];
        self
    }

    /// The last of the batches gives names.
    pub const fn naming(mut self) -> Self {
        self.rules.naming = if self.rules.tables[1] == 0 {
            0b01
        } else {
            0b10
        };
        self
    }

    pub const fn lapses(mut self, count: u8) -> Self {
        self.budget.lapses = count;
        self
    }

    pub const fn crashes(mut self, count: u8) -> Self {
        self.budget.crashes = count;
        self
    }

    pub const fn restarts(mut self, count: u8) -> Self {
        self.budget.restarts = count;
        self
    }

    pub const fn leaves(mut self, count: u8) -> Self {
        self.budget.leaves = count;
        self
    }

    pub const fn lost(mut self, count: u8) -> Self {
        self.budget.lost = count;
        self
    }

    pub const fn late(mut self, count: u8) -> Self {
        self.budget.late = count;
        self
    }

    pub const fn refusals(mut self, count: u8) -> Self {
        self.budget.refusals = count;
        self
    }

    pub const fn reads(mut self, count: u8) -> Self {
        self.budget.reads = count;
        self
    }

    pub const fn writes(mut self, count: u8) -> Self {
        self.budget.writes = count;
        self
    }

    const fn without(mut self, assumption: Assumption) -> Self {
        self.rules.lifted = Some(assumption);
        self
    }
}

/// The bounds of an ordinary run. Each adds something to a batch alone; together they reach every state in `REACHED`.
const SMALL: &[Bound] = &[
    Bound::one("a refusal, a read, a write")
        .narrow()
        .refusals(1)
        .reads(1)
        .writes(1),
    Bound::one("two tables, a refusal, two reads")
        .pair()
        .refusals(1)
        .reads(2),
    Bound::one("two tables, a crash, a refusal")
        .crashes(1)
        .refusals(1),
    Bound::one("a crash, a refusal, a read")
        .narrow()
        .crashes(1)
        .refusals(1)
        .reads(1),
    Bound::one("a lease, a read")
        .pair()
        .narrow()
        .lapses(1)
        .reads(1),
    Bound::one("two leases, a read")
        .pair()
        .narrow()
        .lapses(2)
        .reads(1),
    Bound::one("a lease, a write")
        .pair()
        .narrow()
        .lapses(1)
        .writes(1),
    Bound::one("a crash, a lease").narrow().lapses(1).crashes(1),
    Bound::one("a lost answer, a crash")
        .narrow()
        .lost(1)
        .crashes(1),
    Bound::one("a lost answer, a lease, a read")
        .pair()
        .narrow()
        .lost(1)
        .lapses(1)
        .reads(1),
    Bound::one("a late call, a lease")
        .narrow()
        .late(1)
        .lapses(1),
    Bound::one("a late call, a crash, a restart")
        .pair()
        .narrow()
        .late(1)
        .crashes(1)
        .restarts(1),
    Bound::one("a farewell, a lease, a read")
        .pair()
        .narrow()
        .leaves(1)
        .lapses(1)
        .reads(1),
    Bound::one("a farewell that is held up")
        .pair()
        .narrow()
        .leaves(1)
        .late(1),
    Bound::one("three crashes").narrow().crashes(3).refusals(1),
    Bound::two("two batches, names, two reads")
        .pair()
        .narrow()
        .naming()
        .reads(2),
    Bound::two("two batches, a late call, a read")
        .pair()
        .narrow()
        .late(1)
        .reads(1),
    Bound::two("two batches, a lost answer, a read")
        .pair()
        .narrow()
        .lost(1)
        .reads(1),
    Bound::two("two batches, two leases")
        .pair()
        .narrow()
        .lapses(2),
];

/// The bounds of a full run.
const FULL: &[Bound] = &[
    Bound::one("two tables, a lease, two reads, a refusal")
        .pair()
        .lapses(1)
        .reads(2)
        .refusals(1),
    Bound::one("a lost answer, a lease, a crash")
        .narrow()
        .lost(1)
        .lapses(1)
        .crashes(1),
    Bound::one("a farewell, a lease, a crash")
        .narrow()
        .leaves(1)
        .lapses(1)
        .crashes(1),
    Bound::one("a farewell, a lease, a read")
        .narrow()
        .leaves(1)
        .lapses(1)
        .reads(1),
    Bound::one("a farewell that is held up, a restart, a read")
        .pair()
        .narrow()
        .leaves(1)
        .late(1)
        .restarts(1)
        .reads(1),
    Bound::two("two batches, a lease").narrow().lapses(1),
    Bound::one("two tables, a lease, a read").lapses(1).reads(1),
    Bound::one("two tables, a refusal, a read, a write")
        .refusals(1)
        .reads(1)
        .writes(1),
    Bound::one("two leases, a crash, a refusal")
        .narrow()
        .lapses(2)
        .crashes(1)
        .refusals(1),
    Bound::two("two batches, a lease, a read")
        .pair()
        .narrow()
        .lapses(1)
        .reads(1),
    Bound::two("two batches, a late call, a lost answer, a crash")
        .narrow()
        .late(1)
        .lost(1)
        .crashes(1),
];

/// The assumptions: for each, a bound that lacks it, and the promises that break there.
pub const ASSUMED: &[(Bound, &[Promise])] = &[
    (
        Bound::one("leases are counted shorter than they are")
            .pair()
            .narrow()
            .reads(2)
            .writes(1)
            .without(Assumption::Leases),
        &[
            Promise::OnlyCommitted,
            Promise::AllOfIt,
            Promise::NoWriteBeside,
            Promise::Guarded,
        ],
    ),
    (
        Bound::one("a create arrives after the end of its batch")
            .pair()
            .narrow()
            .lapses(1)
            .reads(1)
            .without(Assumption::Creates),
        &[Promise::OnlyCommitted],
    ),
];

/// Returns the bounds of this run.
pub fn bounds() -> Vec<Bound> {
    let mut bounds = SMALL.to_vec();
    if std::env::var("NSGATE_MODEL").is_ok_and(|words| words == "full") {
        bounds.extend(FULL);
    }
    bounds
}
