//! The catalogs of a walk: they lose answers, act late, refuse and conflict, and somebody else writes to them, too.

use super::*;

impl World {
    /// The catalog takes a create: only the next version, only with a staged manifest.
    fn act(&mut self, entry: usize) -> Event {
        let share = self.share_of(entry).to_vec();
        let place = share.iter().position(|other| *other == entry).unwrap();
        if self.catalog[entry] != Maker::Nobody {
            return Event::Conflicted(entry, refusal());
        }
        if place > 0 && self.catalog[share[place - 1]] == Maker::Nobody {
            return Event::Conflicted(entry, refusal());
        }
        if !self.staged[entry] {
            return Event::Refused(entry, refusal());
        }
        self.catalog[entry] = Maker::Us;
        self.staged[entry] = false;
        Event::Created(entry)
    }

    pub(super) fn create(&mut self, entry: usize) -> Event {
        assert!(self.intent, "I3: a create before INTENT");
        if self.faulty(12) && self.catalog[entry] == Maker::Nobody {
            let alike = self.random.below(2) == 0;
            self.catalog[entry] = Maker::Other { alike };
        }
        if self.faulty(6) {
            if self.random.below(2) == 0 {
                self.late.push(entry);
            }
            return Event::Lost(entry);
        }
        if self.faulty(8) {
            return Event::Refused(entry, refusal());
        }
        let event = self.act(entry);
        if self.faulty(4) {
            return match self.random.below(2) {
                0 => Event::Lost(entry),
                _ if self.catalog[entry] == Maker::Us => Event::Conflicted(entry, refusal()),
                _ => Event::Lost(entry),
            };
        }
        self.proof[entry] |= event == Event::Created(entry);
        event
    }

    pub(super) fn find(&mut self, entry: usize) -> Event {
        if self.faulty(5) {
            return Event::Unanswered(entry);
        }
        self.seen_absent[entry] =
            self.catalog[entry] == Maker::Nobody && self.decision == Some(Decision::Abort);
        let likeness = match self.catalog[entry] {
            Maker::Nobody => return Event::Found(entry, Finding::Absent),
            Maker::Us if self.proof[entry] => Likeness::Proven,
            Maker::Us | Maker::Other { alike: true } => Likeness::Alike,
            Maker::Other { alike: false } => Likeness::Unlike,
        };
        let mut above = self.share_of(entry).iter().filter(|other| **other > entry);
        let latest =
            !self.built_on[entry] && above.all(|other| self.catalog[*other] == Maker::Nobody);
        Event::Found(entry, Finding::Present { likeness, latest })
    }

    pub(super) fn delete(&mut self, entry: usize) -> Event {
        assert_eq!(
            self.decision,
            Some(Decision::Abort),
            "I5: a delete before ABORT"
        );
        if !self.faulty(4) {
            // What looks alike and came after an answer of ours was lost cannot be told from ours by any gateway.
            assert_ne!(self.catalog[entry], Maker::Other { alike: false }, "I5");
            assert!(!self.built_on[entry], "I5: something was built on it");
            self.catalog[entry] = Maker::Nobody;
        }
        Event::Deleted(entry)
    }

    pub(super) fn remove(&mut self, entry: usize) -> Event {
        assert_eq!(
            self.decision,
            Some(Decision::Commit),
            "I5: a removal before COMMIT"
        );
        if self.faulty(3) {
            return Event::NotRemoved(entry);
        }
        self.removals[entry] = Some(true);
        Event::Removed(entry)
    }

    /// The watch outlives what may land.
    pub(super) fn watch(&mut self, entry: usize) -> Option<Event> {
        match self.catalog[entry] {
            Maker::Us => {
                let share = self.shares.iter().position(|share| share.contains(&entry));
                self.unlocked[share.unwrap()] = false;
                Some(Event::Landed(entry))
            }
            _ if self.late.contains(&entry) => None,
            _ => Some(Event::WatchOver(entry)),
        }
    }

    /// A create that was lost on its way acts after all.
    pub(super) fn land(&mut self) {
        if let Some(entry) = self.late.pop() {
            let acted = self.act(entry) == Event::Created(entry);
            self.landed[entry] |= acted && self.seen_absent[entry];
        }
    }

    /// Somebody behind the gateway's back builds on a version that is not decided yet.
    pub(super) fn build_on(&mut self) {
        let share = self.random.below(self.shares.len() as u64) as usize;
        let last = self.shares[share][self.shares[share].len() - 1];
        self.built_on[last] |= self.catalog[last] == Maker::Us;
    }
}
