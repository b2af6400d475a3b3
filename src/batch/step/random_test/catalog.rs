//! The catalogs of a walk. They lose answers, act late, refuse after they have acted, falsely report success, answer
//! once from an old copy, and conflict; other writers change them, too.

use super::*;

impl World {
    /// Applies a create in the catalog: only of the next version, and only with a staged manifest.
    fn act(&mut self, entry: usize) -> Event {
        if self.catalog[entry] != Maker::Nobody || !self.is_next(entry) {
            return Event::Conflicted(entry, refusal());
        }
        if !self.staged[entry] {
            return Event::Refused(entry, refusal());
        }
        self.catalog[entry] = Maker::Us;
        self.staged[entry] = false;
        Event::Created(entry)
    }

    /// True if every version below the entry's in its share exists, and none above it.
    pub(super) fn is_next(&self, entry: usize) -> bool {
        let exists = |other: &usize| self.catalog[*other] != Maker::Nobody;
        let mut others = self.share_of(entry).iter();
        others.all(|other| *other == entry || exists(other) == (*other < entry))
    }

    pub(super) fn create(&mut self, entry: usize) -> Event {
        assert!(self.intent, "I3: a create before INTENT");
        if self.faulty(12) && self.catalog[entry] == Maker::Nobody {
            let alike = self.random.below(2) == 0;
            self.catalog[entry] = Maker::Other { alike };
        }
        if self.faulty(6) {
            if self.random.below(2) == 0 {
                self.late.push(Late::Create(entry));
            }
            return Event::Lost(entry);
        }
        if self.faulty(20) {
            return Event::Unsent(entry, refusal());
        }
        if self.faulty(8) {
            return Event::Refused(entry, refusal());
        }
        let event = self.act(entry);
        let acted = self.catalog[entry] == Maker::Us;
        if self.faulty(4) {
            return match self.random.below(4) {
                0 if acted => Event::Conflicted(entry, refusal()),
                1 if acted => Event::Refused(entry, refusal()),
                2 if acted => Event::Spoiled(entry, refusal()),
                _ => Event::Lost(entry),
            };
        }
        self.proof[entry] |= event == Event::Created(entry);
        event
    }

    pub(super) fn find(&mut self, entry: usize) -> Event {
        let there = self.catalog[entry] != Maker::Nobody;
        if self.faulty(5) {
            if there && self.random.below(2) == 0 {
                // That was the truth, so the catalog may lie again.
                self.lied[entry] = false;
                return Event::Glimpsed(entry);
            }
            return Event::Unanswered(entry);
        }
        // Answers from an old copy: once in a walk, and not about a version that the catalog has lied about.
        if there && !self.stale && !self.lied[entry] && self.faulty(8) {
            self.stale = true;
            self.seen_absent[entry] |= self.decision == Some(Decision::Abort);
            self.landed[entry] |= self.seen_absent[entry];
            return Event::Found(entry, Finding::Absent);
        }
        self.seen_absent[entry] = !there && self.decision == Some(Decision::Abort);
        let alike = if self.contested[entry] {
            Match::Incomparable
        } else {
            Match::Alike
        };
        let likeness = match self.catalog[entry] {
            Maker::Nobody => return Event::Found(entry, Finding::Absent),
            Maker::Us if self.proof[entry] => Match::Proven,
            Maker::Us | Maker::Writer | Maker::Other { alike: true } => alike,
            Maker::Other { alike: false } => Match::Unlike,
        };
        let mut above = self.share_of(entry).iter().filter(|other| **other > entry);
        let latest =
            !self.built_on[entry] && above.all(|other| self.catalog[*other] == Maker::Nobody);
        let obstacle = if latest {
            self.is_alone(entry).then_some(Hazard::OnlyVersion)
        } else {
            Some(Hazard::BuiltOn)
        };
        Event::Found(entry, Finding::Present { likeness, obstacle })
    }

    /// True if the table has no other version than this one.
    fn is_alone(&self, entry: usize) -> bool {
        let share = self.shares.iter().position(|share| share.contains(&entry));
        let mut others = self.share_of(entry).iter();
        self.cleaned[share.unwrap()]
            && others.all(|other| *other == entry || self.catalog[*other] == Maker::Nobody)
    }

    pub(super) fn delete(&mut self, entry: usize) -> Event {
        let aborted = self.decision == Some(Decision::Abort);
        assert!(aborted, "I5: a delete before ABORT");
        if self.faulty(4) {
            return self.not_deleted(entry);
        }
        // A version that looks alike and came after a lost answer of ours cannot be told from ours by any gateway.
        assert_ne!(self.catalog[entry], Maker::Other { alike: false }, "I5");
        assert!(!self.built_on[entry], "I5: something was built on it");
        let is_there = self.catalog[entry] != Maker::Nobody;
        assert!(!is_there || !self.is_alone(entry), "I5: all that is left");
        self.deleted(entry);
        match self.faulty(6) {
            true if self.random.below(2) == 0 => Event::RemovalLost(entry),
            true => Event::NotDeleted(entry),
            false => Event::Deleted(entry),
        }
    }

    /// Fails a delete: it may still act later, and the answer may be true or false.
    fn not_deleted(&mut self, entry: usize) -> Event {
        let later = self.random.below(2) == 0;
        let lies = !self.stale && self.random.below(3) == 0;
        if later {
            self.late.push(Late::Delete(entry));
        }
        match (lies, later) {
            (true, _) => {
                self.lied[entry] = true;
                Event::Deleted(entry)
            }
            (false, true) => Event::RemovalLost(entry),
            (false, false) => Event::NotDeleted(entry),
        }
    }

    fn deleted(&mut self, entry: usize) {
        // No other writer loses a version that the gateway has confirmed to them.
        assert_ne!(self.catalog[entry], Maker::Writer, "I9: {entry}");
        self.catalog[entry] = Maker::Nobody;
    }

    pub(super) fn remove(&mut self, entry: usize) -> Event {
        let committed = self.decision == Some(Decision::Commit);
        assert!(committed, "I5: a removal before COMMIT");
        if self.faulty(3) {
            if self.random.below(2) == 0 {
                return Event::NotRemoved(entry);
            }
            if self.random.below(2) == 0 {
                self.late.push(Late::Remove(entry));
            }
            return Event::RemovalLost(entry);
        }
        self.removals[entry] = Some(true);
        if self.faulty(6) {
            Event::RemovalLost(entry)
        } else {
            Event::Removed(entry)
        }
    }

    /// Ends the watch only when no late request of the entry is left, because a real watch outlasts them.
    pub(super) fn watch(&mut self, entry: usize) -> Option<Event> {
        let over = self.taken[entry] || self.removals[entry].is_some();
        let aborted = self.decision == Some(Decision::Abort);
        if !over && aborted && self.catalog[entry] != Maker::Nobody {
            let share = self.shares.iter().position(|share| share.contains(&entry));
            self.unlocked[share.unwrap()] = false;
            return Some(Event::Landed(entry));
        }
        let waits = |late: &Late| late.entry() == entry && !self.taken[entry];
        if self.late.iter().any(waits) {
            None
        } else {
            Some(Event::WatchOver(entry))
        }
    }

    /// Lets one of the lost requests act after all.
    pub(super) fn land(&mut self, state: &State) {
        let next = self.random.below(self.late.len());
        match self.late.remove(next) {
            Late::Create(entry) => {
                let acted = self.act(entry) == Event::Created(entry);
                self.landed[entry] |= acted && self.seen_absent[entry];
            }
            Late::Delete(entry) => {
                self.check_resting(entry, state);
                self.deleted(entry);
            }
            Late::Remove(entry) => {
                self.check_resting(entry, state);
                self.removals[entry] = Some(true);
            }
        }
    }

    /// Checks I9: a version or name that a removal may still hit is either locked, or reserved and watched.
    pub(super) fn check_resting(&self, entry: usize, state: &State) {
        let share = self.shares.iter().position(|share| share.contains(&entry));
        let rests = state.is_leaving(entry) && state.is_watched(entry);
        let locked = !self.unlocked[share.unwrap()];
        assert!(rests || locked, "I9: {entry} is free: {state:?}");
    }

    /// A writer who bypasses the gateway builds on a version that is not decided yet.
    pub(super) fn build_on(&mut self) {
        let share = self.random.below(self.shares.len());
        let last = self.shares[share][self.shares[share].len() - 1];
        self.built_on[last] |= self.catalog[last] == Maker::Us;
    }

    /// A cleanup that takes the version of the batch for the latest one deletes those from before the batch.
    pub(super) fn clean(&mut self) {
        let share = self.random.below(self.shares.len());
        let mut line = self.shares[share].iter();
        self.cleaned[share] |= line.any(|entry| self.catalog[*entry] != Maker::Nobody);
    }

    /// A create that the gateway knows nothing about lands after the abort.
    pub(super) fn intrude(&mut self) {
        let entry = self.random.below(self.catalog.len());
        // After a crash, undo does not know the requests of the earlier life before it has seen that nothing is there.
        let unknown = self.settled[entry].is_none() && self.late.contains(&Late::Delete(entry));
        let free = self.catalog[entry] == Maker::Nobody && self.removals[entry].is_none();
        let free = free && !unknown;
        if self.decision == Some(Decision::Abort) && free && self.is_next(entry) {
            self.catalog[entry] = Maker::Other { alike: false };
        }
    }

    /// A writer who uses the gateway takes the next number of a table, if it is free for them.
    pub(super) fn write(&mut self, state: &State) {
        let share = self.random.below(self.shares.len());
        let lost_to = |entry: &usize| self.removals[*entry].is_none() && self.is_next(*entry);
        let next = self.shares[share].iter().copied().find(lost_to);
        let Some(entry) = next.filter(|entry| self.catalog[*entry] == Maker::Nobody) else {
            return;
        };
        let mut line = self.shares[share].iter();
        let uncertain = line.any(|other| *other < entry && state.is_watched(*other));
        let free = self.settled[entry].is_some_and(Settled::is_free);
        let aborted = self.decision == Some(Decision::Abort);
        if !aborted || !self.unlocked[share] || !free || uncertain || state.is_leaving(entry) {
            return;
        }
        if state.is_watched(entry) {
            self.contested[entry] = true;
            self.settled[entry] = Some(Settled::Contested);
        }
        // Our create may have come first; then the catalog refuses the writer's.
        self.catalog[entry] = Maker::Writer;
        self.taken[entry] = true;
        self.settled[entry] = Some(Settled::Theirs);
    }

    /// Simulates a crash: the answers of all requests in flight are lost, and some of the requests act later.
    pub(super) fn abandon(&mut self, waiting: &[Result<Effect, Event>]) {
        for waits in waiting {
            let late = match waits {
                Ok(Effect::Create { entry, .. }) => Late::Create(*entry),
                Ok(Effect::Delete { entry, .. }) => Late::Delete(*entry),
                Ok(Effect::Remove { entry, .. }) => Late::Remove(*entry),
                _ => continue,
            };
            if self.random.below(2) == 0 {
                self.late.push(late);
            }
        }
        self.unclear.fill(true);
        self.unlocked.fill(false);
    }
}
