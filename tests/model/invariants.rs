//! The invariants: I1 to I10, and what else must hold. No acknowledged version is lost or hidden, no batch goes round
//! in circles, and every batch ends.
//!
//! An invariant about a moment (a create before INTENT) is noted in the world at that moment. An invariant about what
//! can be seen is checked in every world.

use nsgate::batch::step::{Answer, Decision, Effect};

use crate::catalog::Maker;
use crate::readers::Counter;
use crate::setup::Tags;
use crate::world::{Facts, Gateway, Told, World};

/// A promise of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Invariant {
    OneDecision,
    CommitIsProven,
    IntentFirst,
    UndecidedIsHidden,
    DeletesOnlyOurs,
    AnswersAreRecorded,
    UnlocksUndone,
    AllAtOnce,
    RemovalsMissOthers,
    CreatesMissOthers,
    NothingIsLost,
    NothingOnWhatIsGone,
    WhatIsToldIsShown,
    Ends,
    NoCircles,
}

/// The number of steps without a fault within which every batch must have come to rest.
const LONG: u8 = 120;

impl Invariant {
    pub const ALL: [Self; 15] = [
        Self::OneDecision,
        Self::CommitIsProven,
        Self::IntentFirst,
        Self::UndecidedIsHidden,
        Self::DeletesOnlyOurs,
        Self::AnswersAreRecorded,
        Self::UnlocksUndone,
        Self::AllAtOnce,
        Self::RemovalsMissOthers,
        Self::CreatesMissOthers,
        Self::NothingIsLost,
        Self::NothingOnWhatIsGone,
        Self::WhatIsToldIsShown,
        Self::Ends,
        Self::NoCircles,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Self::OneDecision => "I1 a batch has at most one decision",
            Self::CommitIsProven => "I2 COMMIT implies every version proven created",
            Self::IntentFirst => "I3 no create before a durable INTENT",
            Self::UndecidedIsHidden => "I4 no undecided or aborted version is shown",
            Self::DeletesOnlyOurs => {
                "I5 a delete only after ABORT, of what is ours, latest and not all that is left; a removal only after COMMIT"
            }
            Self::AnswersAreRecorded => "I6 an answer only after its record",
            Self::UnlocksUndone => {
                "I7 a table unlocks only when its undo, or its removals, are done"
            }
            Self::AllAtOnce => "I8 all of a batch is seen together",
            Self::RemovalsMissOthers => "I9 no removal of ours hits what was made after it",
            Self::CreatesMissOthers => {
                "I10 no create of ours acts on another table that got the name"
            }
            Self::NothingIsLost => "nothing acknowledged is lost",
            Self::NothingOnWhatIsGone => "nothing acknowledged stands on what was undone",
            Self::WhatIsToldIsShown => "what was acknowledged is not hidden",
            Self::Ends => "every batch ends when faults stop, or waits for a person",
            Self::NoCircles => "no batch goes round in circles",
        }
    }

    /// Returns true if the invariant holds in this world. It is checked in every world.
    pub fn holds(self, world: &World) -> bool {
        if world.broken == Some(self) {
            return false;
        }
        let committed = world.is_committed();
        match self {
            Self::UndecidedIsHidden => {
                !world.is_up() || (0..2).all(|table| world.shows_well(table))
            }
            Self::AllAtOnce => {
                let part = |entry: &usize| {
                    (world.is_ours(*entry) || world.removes(*entry)) && !world.facts[*entry].kept
                };
                let visible = |entry: usize| world.is_visible(entry);
                let mut parts = world.entries().filter(part).map(visible);
                let first = parts.next();
                parts.all(|other| Some(other) == first)
            }
            Self::CommitIsProven => {
                // After the unlock another table may get the name, so the batch's versions are elsewhere.
                let alien = |entry: usize| {
                    let table = world.place_of(entry).0;
                    world.tables[table].at(0) == Some(Maker::Alien)
                };
                let proven = |entry: usize| world.passes_for_ours(entry) || alien(entry);
                !committed || world.made().all(proven)
            }
            Self::UnlocksUndone => {
                let left = |entry: usize| world.is_ours(entry) && !world.facts[entry].kept;
                !world.log.ended || committed || !world.entries().any(left)
            }
            Self::AnswersAreRecorded => match world.client {
                Some(Told::Committed) => committed,
                Some(Told::Refused) => !committed,
                None => true,
            },
            Self::WhatIsToldIsShown => {
                let told = |table: usize| {
                    let mut made = world.tables[table].made();
                    made.all(|(place, maker)| {
                        !maker.is_acknowledged() || !world.is_hidden(table, place)
                    })
                };
                !world.is_up() || (0..2).all(told)
            }
            Self::Ends => !world.is_at_rest() || world.is_over() || world.waits_for_a_person(),
            Self::NoCircles => world.moves < LONG,
            _ => true,
        }
    }
}

impl World {
    /// Notes the invariant as broken if it does not hold. Only the first one that breaks is kept.
    pub fn must(&mut self, invariant: Invariant, holds: bool) {
        if !holds {
            self.broken.get_or_insert(invariant);
        }
    }

    /// Returns true if no shown version of the table is tainted or stands on a tainted one.
    fn shows_well(&self, table: usize) -> bool {
        let mut tainted = false;
        self.tables[table].made().all(|(place, maker)| {
            tainted |= self.is_tainted(maker);
            !tainted || self.is_hidden(table, place)
        })
    }

    /// Returns true if a reader through the gateway sees this part of the batch. `done` is the catalog's answer.
    pub fn shows(&self, entry: usize, done: bool) -> bool {
        let (table, place) = self.place_of(entry);
        if self.removes(entry) {
            done || self.slots[entry] == crate::visibility::Slot::Removed
        } else {
            done && !self.is_hidden(table, place)
        }
    }

    /// Returns true if such a reader would see it now.
    pub fn is_visible(&self, entry: usize) -> bool {
        self.is_up() && self.shows(entry, self.is_done(entry))
    }

    /// Returns true if the version is the batch's, or looks so like it that no gateway could know better: a version
    /// that was made behind the gateway's back, or a version of an unanswered create after an operator's decision.
    pub fn passes_for_ours(&self, entry: usize) -> bool {
        let Facts { unclear, told, .. } = self.facts[entry];
        self.is_ours(entry)
            || match self.maker(entry) {
                Some(Maker::Stranger { alike: true }) => {
                    told || unclear || self.setup.tags == Tags::None
                }
                Some(Maker::Stray | Maker::Rival { committed: false }) => told,
                _ => false,
            }
    }

    /// Returns true if nothing is under way that would move the batch on.
    fn is_at_rest(&self) -> bool {
        let counting = matches!(self.counter, Counter::Counted { .. });
        self.is_up() && !counting && !self.flights.iter().any(|flight| self.can_go(flight))
    }

    fn is_over(&self) -> bool {
        self.gateway == Gateway::Idle
            && (self.log.ended || !self.log.intent)
            && self.locked == [false; 2]
    }

    pub fn waits_for_a_person(&self) -> bool {
        matches!(&self.gateway, Gateway::Busy(state) if state.hazards().count() > 0)
    }

    /// Checks an effect when the protocol asks for it, against what is durable at that moment.
    pub fn check_effect(&mut self, effect: &Effect) {
        let aborted = self.log.decision == Some(Decision::Abort);
        let committed = self.is_committed();
        match effect {
            Effect::LogDecision(asked) => {
                let same = self.asked.is_none_or(|before| before == *asked);
                self.must(Invariant::OneDecision, same && !self.knows);
                let proven = self.made().all(|entry| self.passes_for_ours(entry));
                let commits = *asked == Decision::Commit;
                self.must(Invariant::CommitIsProven, !commits || proven);
                self.asked = Some(*asked);
            }
            Effect::Create { .. } => self.must(Invariant::IntentFirst, self.log.intent),
            Effect::Delete { entry, .. } => {
                let told = self.maker(*entry).is_some_and(Maker::is_acknowledged);
                self.must(Invariant::NothingIsLost, !told);
                let allowed = aborted && self.facts[*entry].deletable;
                self.must(Invariant::DeletesOnlyOurs, allowed);
            }
            Effect::Remove { .. } => self.must(Invariant::DeletesOnlyOurs, committed),
            Effect::Reveal => self.must(Invariant::UndecidedIsHidden, committed),
            Effect::Answer(Answer::Committed) => {
                self.must(Invariant::AnswersAreRecorded, committed);
            }
            Effect::Answer(Answer::Refused(_)) => {
                self.must(Invariant::AnswersAreRecorded, aborted || !self.log.intent);
            }
            Effect::Unlock(share) => self.check_unlock(*share),
            _ => {}
        }
    }

    /// Checks the unlock of a table. An aborted table must have no version of the batch, except one that a late create
    /// made after undo had seen none. A committed table must have nothing that was to be removed. What an operator
    /// keeps may stay.
    fn check_unlock(&mut self, share: usize) {
        if !self.log.intent {
            return;
        }
        let left = |entry: &usize| {
            let Facts { landed, kept, .. } = self.facts[*entry];
            let left = match self.log.decision {
                Some(Decision::Commit) => self.removes(*entry) && !self.is_done(*entry),
                _ => self.is_ours(*entry) && !landed,
            };
            left && !kept
        };
        let decided = self.log.decision.is_some();
        let done = decided && !self.setup.plan.shares()[share].iter().any(left);
        self.must(Invariant::UnlocksUndone, done);
    }

    /// Checks what a delete removes, at the moment when the catalog does it.
    ///
    /// A client behind the gateway's back is not protected between undo's look and the delete. A client of the gateway
    /// is: neither a version that it was told of nor one that it can see may be deleted.
    pub fn check_delete(&mut self, entry: usize, breaks: Invariant) {
        let (table, place) = self.place_of(entry);
        let Some(deleted) = self.maker(entry) else {
            return;
        };
        let seen = deleted == Maker::Stray && !self.is_hidden(table, place) && self.is_up();
        let mut made = self.tables[table].made();
        let above = made.any(|(above, maker)| above > place && maker.is_acknowledged());
        drop(made);
        self.must(breaks, !deleted.is_acknowledged() && !seen && !above);
        let kept = self.facts[entry].kept && self.is_ours(entry);
        self.must(Invariant::DeletesOnlyOurs, !kept);
    }

    /// Checks an acknowledged version: no version below it will be, or should have been, undone.
    pub fn check_stands(&mut self, table: usize, place: usize) {
        let mut made = self.tables[table].made();
        let stands = !made.any(|(below, maker)| below < place && self.is_tainted(maker));
        drop(made);
        self.must(Invariant::NothingOnWhatIsGone, stands);
    }

    /// Checks that a reader sees all of the batch or nothing, and sees it again once it has seen it. Returns true if
    /// the reader sees it.
    pub fn check_read(&mut self, table: usize, listed: u8, earlier: Option<bool>) -> bool {
        let part = |entry: &&usize| !self.facts[**entry].kept;
        let share = self.setup.plan.shares().get(table).copied();
        let parts = share.unwrap_or_default().iter().filter(part);
        let shown = |entry: &usize| self.shows(*entry, listed & 1 << *entry != 0);
        let (shown, all): (Vec<_>, Vec<_>) = parts.map(|entry| (shown(entry), true)).unzip();
        let any = shown.contains(&true);
        self.must(Invariant::UndecidedIsHidden, !any || self.is_committed());
        let alien = self.tables[table].at(0) == Some(Maker::Alien);
        let lost = earlier == Some(true) && !any && !shown.is_empty() && !alien;
        self.must(Invariant::AllAtOnce, (!any || shown == all) && !lost);
        any
    }

    /// Iterates over the entries that are created before the decision.
    pub fn made(&self) -> impl Iterator<Item = usize> + use<> {
        let plan = self.setup.plan;
        (0..plan.entries()).filter(move |entry| !plan.removes(*entry))
    }
}
