//! Random walks through the protocol. The catalogs lose answers, act late, refuse, conflict and lie; the gateway
//! crashes at any instant; other writers use the numbers again. Every walk ends once faults stop, and keeps the
//! invariants.

#![allow(clippy::unwrap_used, reason = "a test that panics fails")]

use super::*;
use crate::util::dice::Dice;

mod catalog;

const WALKS: u64 = 20_000;
/// The number of steps after which faults stop, so that every walk can end.
const FAULTY_STEPS: u32 = 60;

/// The maker of an entry's version in the catalog.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Maker {
    Nobody,
    Us,
    /// Another writer, who bypasses the gateway. `alike`: the version has the same size as ours.
    Other {
        alike: bool,
    },
    /// Another writer, who uses the gateway and was told that the version is theirs.
    Writer,
}

/// A request that was lost on its way and may still act.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Late {
    Create(usize),
    Delete(usize),
    Remove(usize),
}

impl Late {
    fn entry(self) -> usize {
        let (Self::Create(entry) | Self::Delete(entry) | Self::Remove(entry)) = self;
        entry
    }
}

struct World {
    random: Dice,
    shares: Vec<Vec<usize>>,
    /// The state of each removal, true if it is done; `None` if the entry is not a removal.
    removals: Vec<Option<bool>>,
    catalog: Vec<Maker>,
    late: Vec<Late>,
    /// True for each entry whose staged manifest is still there.
    staged: Vec<bool>,
    /// True for each entry whose lost create acted after undo had seen that nothing was there, or whose version an old
    /// copy did not show.
    landed: Vec<bool>,
    /// True for each entry with a lost answer, or after a crash of the gateway: a version that looks like ours may be
    /// taken for ours.
    unclear: Vec<bool>,
    /// True for each entry that undo has seen to be absent.
    seen_absent: Vec<bool>,
    /// True for each entry on whose version a writer who bypasses the gateway has built.
    built_on: Vec<bool>,
    /// True for each share whose table has lost the versions from before the batch.
    cleaned: Vec<bool>,
    /// True for each entry whose create was answered with its object.
    proof: Vec<bool>,
    /// True if a catalog has answered from an old copy.
    stale: bool,
    /// True if a removal was outstanding when its table was unlocked.
    left: bool,
    /// True for each entry that a catalog falsely reported as deleted.
    lied: Vec<bool>,
    /// True for each entry whose number another writer's create was let through for, and has succeeded.
    contested: Vec<bool>,
    taken: Vec<bool>,
    intent: bool,
    decision: Option<Decision>,
    settled: Vec<Option<Settled>>,
    ended: bool,
    answer: Option<super::Answer>,
    unlocked: Vec<bool>,
    revealed: bool,
    steps: u32,
}

impl World {
    fn new(seed: u64) -> Self {
        let mut random = Dice::new(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
        let mut shares: Vec<Vec<usize>> = vec![Vec::new()];
        let entries = 1 + random.below(4);
        for entry in 0..entries {
            if !shares[shares.len() - 1].is_empty() && random.below(3) > 0 {
                shares.push(Vec::new());
            }
            shares.last_mut().unwrap().push(entry);
        }
        let mut removals = vec![None; entries];
        for share in &shares {
            if random.below(4) == 0 {
                removals[share[share.len() - 1]] = Some(false);
            }
        }
        Self {
            removals,
            unlocked: vec![false; shares.len()],
            cleaned: vec![false; shares.len()],
            shares,
            catalog: vec![Maker::Nobody; entries],
            late: Vec::new(),
            staged: vec![true; entries],
            landed: vec![false; entries],
            unclear: vec![false; entries],
            seen_absent: vec![false; entries],
            built_on: vec![false; entries],
            proof: vec![false; entries],
            stale: false,
            left: false,
            lied: vec![false; entries],
            contested: vec![false; entries],
            taken: vec![false; entries],
            intent: false,
            decision: None,
            settled: vec![None; entries],
            ended: false,
            answer: None,
            revealed: false,
            steps: 0,
            random,
        }
    }

    fn shape(&self) -> Shape {
        let kind = |removal: &Option<bool>| removal.map_or(Kind::Made, |_| Kind::Removed);
        Shape {
            kinds: self.removals.iter().map(kind).collect(),
            ..Shape::versions(self.shares.clone())
        }
    }

    fn faulty(&mut self, one_in: usize) -> bool {
        self.steps < FAULTY_STEPS && self.random.below(one_in) == 0
    }

    fn share_of(&self, entry: usize) -> &[usize] {
        self.shares
            .iter()
            .find(|share| share.contains(&entry))
            .unwrap()
    }

    /// Carries out the immediate effects in their order; returns the others as in flight.
    fn begin(&mut self, effects: Vec<Effect>) -> Vec<Result<Effect, Event>> {
        let (now, later): (Vec<_>, Vec<_>) = effects.into_iter().partition(is_immediate);
        for effect in now {
            assert!(self.perform(effect).is_none());
        }
        later.into_iter().map(Ok).collect()
    }

    fn perform(&mut self, effect: Effect) -> Option<Event> {
        Some(match effect {
            Effect::Lock => Event::Locked,
            Effect::Validate(share) => {
                let refusal = self.faulty(20).then(refusal);
                Event::Validated { share, refusal }
            }
            Effect::LogIntent => {
                self.intent = true;
                Event::IntentDurable
            }
            Effect::StartClock if self.faulty(3) => Event::PrepareTimedOut(refusal()),
            Effect::Create { entry, .. } => self.create(entry),
            Effect::Find { entry, .. } => self.find(entry),
            Effect::LogDecision(decision) => {
                let standing = *self.decision.get_or_insert(decision);
                Event::Decided(standing)
            }
            Effect::Delete { entry, .. } => self.delete(entry),
            Effect::Remove { entry, .. } => self.remove(entry),
            Effect::Watch(entry) => return self.watch(entry),
            Effect::Note(entry, settled) => {
                self.left |= settled.is_leaving();
                self.settled[entry] = Some(settled);
                Event::Noted(entry)
            }
            Effect::LogEnd => {
                self.ended = true;
                Event::Ended
            }
            Effect::Reveal => {
                assert_eq!(
                    self.decision,
                    Some(Decision::Commit),
                    "I4: revealed undecided"
                );
                self.revealed = true;
                return None;
            }
            Effect::Answer(answer) => {
                self.answered(answer);
                return None;
            }
            Effect::Unlock(share) => {
                self.check_unlock(share);
                return None;
            }
            Effect::Hide | Effect::StartClock => return None,
            Effect::Show(_) | Effect::Reserve(_) | Effect::Free(_) => return None,
        })
    }

    fn answered(&mut self, answer: super::Answer) {
        match &answer {
            super::Answer::Committed => assert_eq!(self.decision, Some(Decision::Commit), "I6"),
            super::Answer::Refused(_) => {
                assert!(!self.intent || self.decision == Some(Decision::Abort), "I6");
            }
            super::Answer::Unknown => {}
        }
        self.answer = Some(answer);
    }

    /// Checks I7: when an aborted table unlocks, no version of ours is in it, except one that a late create brought.
    fn check_unlock(&mut self, share: usize) {
        self.unlocked[share] = true;
        if self.decision == Some(Decision::Commit) {
            for entry in &self.shares[share] {
                assert_ne!(self.removals[*entry], Some(false), "I7: {entry}");
            }
        }
        if self.decision == Some(Decision::Abort) {
            for entry in &self.shares[share] {
                let ours = self.catalog[*entry] == Maker::Us;
                assert!(!ours || self.landed[*entry], "I7: {entry}");
            }
        }
    }

    fn check_end(&self, state: &State) {
        for late in &self.late {
            if !matches!(late, Late::Create(_)) {
                self.check_resting(late.entry(), state);
            }
        }
        if self.decision == Some(Decision::Commit) {
            assert!(self.revealed, "a committed batch is visible");
            for (entry, maker) in self.catalog.iter().enumerate() {
                if let Some(removed) = self.removals[entry] {
                    assert!(removed, "{entry} is not removed");
                    continue;
                }
                let alike = *maker == Maker::Other { alike: true } && self.unclear[entry];
                assert!(*maker == Maker::Us || alike, "I2: {entry} is {maker:?}");
            }
        }
        let hazards = state.hazards().count() > 0;
        if self.decision == Some(Decision::Abort) && state.is_ended() {
            assert!(
                !self.catalog.contains(&Maker::Us),
                "I4: a late create stays"
            );
            assert!(
                !self.removals.contains(&Some(true)),
                "removed although aborted"
            );
        }
        assert!(
            state.is_ended() || hazards,
            "a batch ends when faults stop: {state:?}"
        );
        assert!(self.unlocked.iter().all(|unlocked| *unlocked) || hazards);
    }
}

fn refusal() -> Refusal {
    Refusal::conflict("")
}

fn walk(seed: u64) -> World {
    let mut world = World::new(seed);
    let mut state = State::new(world.shape());
    let mut waiting: Vec<Result<Effect, Event>> = vec![Err(Event::Begin)];
    while !waiting.is_empty() {
        world.steps += 1;
        assert!(world.steps < 10_000, "the batch does not end: {state:?}");
        if !world.late.is_empty() && (world.random.below(5) == 0 || world.steps > FAULTY_STEPS) {
            world.land(&state);
        }
        if world.random.below(10) == 0 {
            world.write(&state);
        }
        let deleting = |waits: &Result<Effect, Event>| matches!(waits, Ok(Effect::Delete { .. }));
        if world.faulty(20) && !waiting.iter().any(deleting) {
            match world.random.below(3) {
                0 => world.build_on(),
                1 => world.clean(),
                _ => world.intrude(),
            }
        }
        if world.intent && !world.ended && world.faulty(25) {
            world.abandon(&waiting);
            let settled = world.settled.clone();
            let (recovered, effects) = State::recovered(world.shape(), world.decision, &settled);
            state = recovered;
            waiting = world.begin(effects);
            continue;
        }
        let next = world.random.below(waiting.len());
        let event = match waiting.remove(next) {
            Err(event) => event,
            Ok(effect) => match world.perform(effect.clone()) {
                Some(event) => event,
                None => {
                    if matches!(effect, Effect::Watch(_)) {
                        waiting.push(Ok(effect));
                    }
                    continue;
                }
            },
        };
        if let Event::Lost(entry) = event {
            world.unclear[entry] = true;
        }
        let (stepped, effects) = step(state, event);
        state = stepped;
        waiting.extend(world.begin(effects));
    }
    world.check_end(&state);
    world
}

/// True for effects that are carried out at once, in their order. The others take time.
fn is_immediate(effect: &Effect) -> bool {
    use Effect::*;
    matches!(
        effect,
        Hide | Reveal | Answer(_) | Show(_) | Reserve(_) | Free(_) | Unlock(_)
    )
}

#[test]
fn every_walk_ends_and_keeps_the_invariants() {
    let (mut committed, mut aborted, mut hazards, mut late) = (0, 0, 0, 0);
    let (mut leaving, mut taken, mut lied, mut stale, mut alone) = (0, 0, 0, 0, 0);
    for seed in 1..=WALKS {
        let world = match std::panic::catch_unwind(|| walk(seed)) {
            Ok(world) => world,
            Err(panic) => {
                eprintln!("seed {seed}");
                std::panic::resume_unwind(panic);
            }
        };
        committed += u64::from(world.decision == Some(Decision::Commit));
        aborted += u64::from(world.decision == Some(Decision::Abort));
        late += u64::from(world.landed.contains(&true));
        leaving += u64::from(world.left);
        taken += u64::from(world.taken.contains(&true));
        lied += u64::from(world.lied.contains(&true));
        stale += u64::from(world.stale);
        let has = |hazard: fn(&Hazard) -> bool| {
            let mut settled = world.settled.iter();
            settled.any(|it| matches!(it, Some(Settled::Hazard(why)) if hazard(why)))
        };
        hazards += u64::from(has(|_| true));
        alone += u64::from(has(|why| *why == Hazard::OnlyVersion));
    }
    // The walks prove something only if they reach every case.
    assert!(
        committed > WALKS / 10 && aborted > WALKS / 10 && hazards > 10 && late > 10,
        "{committed} {aborted} {hazards} {late}"
    );
    assert!(
        leaving > WALKS / 100 && taken > WALKS / 100 && lied > 10 && stale > WALKS / 100,
        "{leaving} {taken} {lied} {stale}"
    );
    assert!(alone > 10, "{alone}");
}
