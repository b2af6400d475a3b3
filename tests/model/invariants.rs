//! I1 to I8, each as a property of its own, and what else must hold: nothing goes round in circles, and every batch ends.
//!
//! Those that speak of a moment (a create before INTENT) are noted in the world where it is broken; those that speak of
//! what can be seen are asked of every world.

use nsgate::batch::step::{Answer, Decision, Effect};

use crate::catalog::Maker;
use crate::world::{ENTRIES, Facts, Gateway, SHARES, Told, World, place_of};

/// What the protocol promises.
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
    NothingOnWhatIsGone,
    Ends,
    NoCircles,
}

/// Steps without a fault within which every batch must have come to rest.
const LONG: u8 = 120;

impl Invariant {
    pub const ALL: [Self; 11] = [
        Self::OneDecision,
        Self::CommitIsProven,
        Self::IntentFirst,
        Self::UndecidedIsHidden,
        Self::DeletesOnlyOurs,
        Self::AnswersAreRecorded,
        Self::UnlocksUndone,
        Self::AllAtOnce,
        Self::NothingOnWhatIsGone,
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
                "I5 a delete only after ABORT, of what is ours and latest; a removal only after COMMIT"
            }
            Self::AnswersAreRecorded => "I6 an answer only after its record",
            Self::UnlocksUndone => {
                "I7 a table unlocks only when its undo, or its removals, are done"
            }
            Self::AllAtOnce => "I8 all of a batch is seen together",
            Self::NothingOnWhatIsGone => "nothing is built on a version that is gone",
            Self::Ends => "every batch ends when faults stop, or waits for a person",
            Self::NoCircles => "no batch goes round in circles",
        }
    }

    /// Asked of every world.
    pub fn holds(self, world: &World) -> bool {
        if world.broken == Some(self) {
            return false;
        }
        let committed = world.log.decision == Some(Decision::Commit);
        match self {
            Self::UndecidedIsHidden => {
                let kept = |entry: usize| world.facts[entry].kept;
                committed || !(0..ENTRIES).any(|entry| world.is_visible(entry) && !kept(entry))
            }
            Self::AllAtOnce => {
                let part = |entry: &usize| {
                    (world.is_ours(*entry) || world.plan.removes(*entry))
                        && !world.facts[*entry].kept
                };
                let visible = |entry: usize| world.is_visible(entry);
                let mut parts = (0..ENTRIES).filter(part).map(visible);
                let first = parts.next();
                parts.all(|other| Some(other) == first)
            }
            Self::CommitIsProven => {
                !committed || world.made().all(|entry| world.passes_for_ours(entry))
            }
            Self::UnlocksUndone => {
                let left = |entry: usize| world.is_ours(entry) && !world.facts[entry].kept;
                !world.log.ended || committed || !(0..ENTRIES).any(left)
            }
            Self::AnswersAreRecorded => match world.client {
                Some(Told::Committed) => committed,
                Some(Told::Refused) => !committed,
                None => true,
            },
            Self::Ends => !world.is_at_rest() || world.is_over() || world.waits_for_a_person(),
            Self::NoCircles => world.moves < LONG,
            _ => true,
        }
    }
}

impl World {
    /// The first invariant that breaks is the one that is named.
    pub fn must(&mut self, invariant: Invariant, holds: bool) {
        if !holds {
            self.broken.get_or_insert(invariant);
        }
    }

    /// Nothing is under way that would move the batch on.
    fn is_at_rest(&self) -> bool {
        self.is_up() && self.flights.is_empty()
    }

    fn is_over(&self) -> bool {
        self.gateway == Gateway::Idle
            && (self.log.ended || !self.log.intent)
            && self.locked == [false; 2]
    }

    pub fn waits_for_a_person(&self) -> bool {
        matches!(&self.gateway, Gateway::Busy(state) if state.hazards().count() > 0)
    }

    /// What the protocol asks for is checked when it asks, against what is durable then.
    pub fn check_effect(&mut self, effect: &Effect) {
        let decision = self.log.decision;
        let aborted = decision == Some(Decision::Abort);
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
                let allowed = aborted && self.facts[*entry].deletable;
                self.must(Invariant::DeletesOnlyOurs, allowed);
            }
            Effect::Remove { .. } => {
                self.must(
                    Invariant::DeletesOnlyOurs,
                    decision == Some(Decision::Commit),
                );
            }
            Effect::Reveal => {
                self.must(
                    Invariant::UndecidedIsHidden,
                    decision == Some(Decision::Commit),
                );
            }
            Effect::Answer(Answer::Committed) => {
                self.must(
                    Invariant::AnswersAreRecorded,
                    decision == Some(Decision::Commit),
                );
            }
            Effect::Answer(Answer::Refused(_)) => {
                self.must(Invariant::AnswersAreRecorded, aborted || !self.log.intent);
            }
            Effect::Unlock(share) => self.check_unlock(*share),
            _ => {}
        }
    }

    /// Nothing of ours is left in an aborted table, but what a late create brought when undo had seen that nothing was
    /// there; nor in a committed one what is to be removed. What a person keeps stays.
    fn check_unlock(&mut self, share: usize) {
        if !self.log.intent {
            return;
        }
        let decision = self.log.decision;
        let left = |entry: &usize| {
            let Facts { landed, kept, .. } = self.facts[*entry];
            let left = match decision {
                Some(Decision::Commit) => self.plan.removes(*entry) && !self.is_done(*entry),
                _ => self.is_ours(*entry) && !landed,
            };
            left && !kept
        };
        let done = decision.is_some() && !SHARES[share].iter().any(left);
        self.must(Invariant::UnlocksUndone, done);
    }

    /// What a delete removes, at the moment when the catalog does it.
    ///
    /// Nobody behind the gateway's back is protected between undo's look and the delete; whoever goes through it is.
    pub fn check_delete(&mut self, entry: usize) {
        let (table, place) = place_of(entry);
        let writer = Some(Maker::Writer);
        let above = self.tables[table]
            .above(place)
            .any(|maker| Some(maker) == writer);
        let kept = self.facts[entry].kept && self.is_ours(entry);
        let harmed = self.maker(entry) == writer || self.maker(entry).is_some() && above || kept;
        self.must(Invariant::DeletesOnlyOurs, !harmed);
    }

    /// What one reader sees of the batch: all of it or nothing, and what it saw once it sees again. True: it sees it.
    pub fn check_read(&mut self, table: usize, listed: u8, earlier: Option<bool>) -> bool {
        let part = |entry: &&usize| !self.facts[**entry].kept;
        let parts = SHARES[table].iter().filter(part);
        let shown = |entry: &usize| self.shows(*entry, listed & 1 << *entry != 0);
        let (shown, all): (Vec<_>, Vec<_>) = parts.map(|entry| (shown(entry), true)).unzip();
        let any = shown.contains(&true);
        let committed = self.log.decision == Some(Decision::Commit);
        self.must(Invariant::UndecidedIsHidden, !any || committed);
        let lost = earlier == Some(true) && !any;
        self.must(Invariant::AllAtOnce, (!any || shown == all) && !lost);
        any
    }

    /// The entries that are made before the decision.
    fn made(&self) -> impl Iterator<Item = usize> + use<> {
        let plan = self.plan;
        (0..ENTRIES).filter(move |entry| !plan.removes(*entry))
    }
}
