//! Decides when a silent gateway counts as dead.
//!
//! No clock is compared with another. A gateway counts its heartbeat up; an observer that sees the count stand still for
//! longer than that gateway's lease, on the observer's own clock, takes it for dead.

use std::collections::HashMap;
use std::time::Duration;

use tokio::time::Instant;
use uuid::Uuid;

use super::owner::{SeenInstance, Users};
use crate::batch::fleet::Member;

/// The time that makes a silence longer than its limit.
const MOMENT: Duration = Duration::from_millis(1);

/// The heartbeats of other gateways.
#[derive(Default)]
pub(super) struct Observer {
    seen: HashMap<Uuid, Seen>,
    /// The time of the last look.
    looked: Option<Instant>,
    /// The number of the run of the server that was looked at.
    run: u64,
}

/// A gateway: its heartbeat, and for how long that has been seen to stand still.
struct Seen {
    beat: i64,
    silent: Duration,
    lease: Duration,
}

impl Seen {
    fn is_dead(&self) -> bool {
        self.silent > self.patience()
    }

    /// The longest time for which it may be silent.
    fn patience(&self) -> Duration {
        self.lease + heartbeat_interval(self.lease)
    }
}

impl Observer {
    /// Notes the heartbeats in a run of the server, and returns the gateways that were silent for longer than their leases.
    pub(super) fn dead(&mut self, users: &Users, me: Uuid, run: u64) -> Vec<SeenInstance> {
        self.dead_at(users, me, run, Instant::now())
    }

    fn dead_at(&mut self, users: &Users, me: Uuid, run: u64, now: Instant) -> Vec<SeenInstance> {
        if !self.looks_at(run) {
            return Vec::new();
        }
        let others = || users.instances.iter().filter(|one| one.id != me);
        self.beats_at(others().map(|one| (one.id, one.beat)), now);
        // A newcomer was not silent before it was seen.
        for one in others() {
            self.seen.entry(one.id).or_insert(Seen {
                beat: one.beat,
                silent: Duration::ZERO,
                lease: one.lease,
            });
        }
        let is_dead = |one: &&SeenInstance| self.seen.get(&one.id).is_some_and(Seen::is_dead);
        others().filter(is_dead).cloned().collect()
    }

    /// Notes heartbeats between two looks at everything. Returns true if a gateway is dead now.
    pub(super) fn beats(&mut self, beats: impl Iterator<Item = (Uuid, i64)>, run: u64) -> bool {
        self.looks_at(run) && self.beats_at(beats, Instant::now())
    }

    /// Notes that the server was looked at in this run. Returns false if a later one was seen already. A standby that is
    /// promoted may lack heartbeats: those of a gateway that lives count up from a lower number there.
    fn looks_at(&mut self, run: u64) -> bool {
        if run > self.run {
            (self.run, self.looked) = (run, None);
            self.seen.clear();
        }
        run == self.run
    }

    /// Forgets gateways that are gone. A time in which this one could not look does not count: the others could not show a
    /// heartbeat then, either.
    fn beats_at(&mut self, beats: impl Iterator<Item = (Uuid, i64)>, now: Instant) -> bool {
        let since = now.duration_since(self.looked.replace(now).unwrap_or(now));
        let beats: HashMap<Uuid, i64> = beats.collect();
        let mut is_one_dead = false;
        self.seen.retain(|id, seen| {
            let Some(beat) = beats.get(id) else {
                return false;
            };
            // A look may be older than the one before.
            if *beat > seen.beat {
                (seen.beat, seen.silent) = (*beat, Duration::ZERO);
                return true;
            }
            seen.silent += since.min(heartbeat_interval(seen.lease).saturating_mul(2));
            is_one_dead |= seen.is_dead();
            true
        });
        is_one_dead
    }

    /// Returns the time at which a look finds the next one dead, if it stays silent; `None` if there is no other one.
    pub(super) fn next_death(&self) -> Option<Instant> {
        let looked = self.looked?;
        let seen = self.seen.values();
        let left = seen.filter_map(|seen| seen.patience().checked_sub(seen.silent));
        left.min().map(|left| looked + left + MOMENT)
    }

    /// Returns the gateways for operators.
    pub(super) fn members(&self, users: &Users, me: Uuid, routes: &str) -> Vec<Member> {
        let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        let members = users.instances.iter().map(|one| Member {
            name: one.name.clone(),
            address: one.address.clone(),
            version: one.version.clone(),
            is_owner: users.owner == Some(one.id),
            is_this: one.id == me,
            recovers: false,
            routes_differ: one.id != me && differ(one.routes.as_deref(), routes),
            silent_millis: self.seen.get(&one.id).map_or(0, |seen| millis(seen.silent)),
            lease_millis: millis(one.lease),
        });
        let mut members: Vec<Member> = members.collect();
        members.sort_by(|one, other| one.name.cmp(&other.name));
        members
    }
}

/// True if two gateways are known to find tables at different places. A gateway that starts tells its routes a moment
/// after its first heartbeat, which has none.
fn differ(others: Option<&str>, own: &str) -> bool {
    others.is_some_and(|others| ![others, own].contains(&"") && others != own)
}

/// Returns the time between two heartbeats.
pub(super) fn heartbeat_interval(lease: Duration) -> Duration {
    lease / 5
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test says what it expects")]

    use super::*;

    const LEASE: Duration = Duration::from_secs(5);

    fn users(beat: i64) -> Users {
        let one = SeenInstance {
            id: Uuid::from_u128(1),
            name: "other".into(),
            beat,
            lease: LEASE,
            address: None,
            token: None,
            version: String::new(),
            routes: None,
        };
        Users {
            owner: Some(one.id),
            instances: vec![one],
        }
    }

    #[test]
    fn a_gateway_is_dead_once_it_was_silent_for_longer_than_its_lease() {
        let (mut observer, me) = (Observer::default(), Uuid::from_u128(2));
        let mut now = Instant::now();
        for _ in 0..6 {
            assert!(observer.dead_at(&users(7), me, 0, now).is_empty());
            now += heartbeat_interval(LEASE);
        }
        assert!(observer.dead_at(&users(7), me, 0, now).is_empty());
        now += heartbeat_interval(LEASE);
        assert_eq!(observer.dead_at(&users(7), me, 0, now).len(), 1);
        assert!(observer.dead_at(&users(8), me, 0, now).is_empty());
    }

    #[test]
    fn looks_at_heartbeats_alone_find_a_dead_gateway_in_between() {
        let (mut observer, me) = (Observer::default(), Uuid::from_u128(2));
        let (one, start) = (Uuid::from_u128(1), Instant::now());
        let beats = |observer: &mut Observer, beat, at| {
            observer.beats_at([(one, beat), (me, 9)].into_iter(), start + at)
        };
        let looks = Duration::from_millis(250);
        assert!(!beats(&mut observer, 7, LEASE * 9), "it is not known yet");
        assert!(
            observer
                .dead_at(&users(7), me, 0, start + LEASE * 9)
                .is_empty()
        );
        let silent = (1..100).find(|look| beats(&mut observer, 7, LEASE * 9 + looks * *look));
        assert_eq!(silent, Some(25), "a look after 1.2 leases");
        assert!(!beats(&mut observer, 8, LEASE * 12));
    }

    /// One that could not look for a while learns of it late.
    #[test]
    fn a_newcomer_was_not_silent_before_it_was_seen() {
        let (mut observer, me) = (Observer::default(), Uuid::from_u128(2));
        let start = Instant::now();
        let nobody = Users {
            owner: None,
            instances: Vec::new(),
        };
        observer.dead_at(&nobody, me, 0, start);
        observer.dead_at(&users(7), me, 0, start + LEASE);
        let since_then = observer.next_death().unwrap() - (start + LEASE);
        assert_eq!(since_then, LEASE + heartbeat_interval(LEASE) + MOMENT);
    }

    #[test]
    fn a_gateway_that_is_gone_has_no_death_to_come() {
        let (mut observer, me) = (Observer::default(), Uuid::from_u128(2));
        let start = Instant::now();
        observer.dead_at(&users(7), me, 0, start);
        assert!(observer.next_death().is_some());
        observer.beats_at([(me, 9)].into_iter(), start + LEASE / 2);
        assert_eq!(observer.next_death(), None);
    }

    #[test]
    fn the_next_death_is_when_a_look_finds_the_one_that_is_silent_longest_dead() {
        let (mut observer, me) = (Observer::default(), Uuid::from_u128(2));
        let start = Instant::now();
        assert_eq!(observer.next_death(), None);
        assert!(observer.dead_at(&users(7), me, 0, start).is_empty());
        let mut at = start;
        for _ in 0..10 {
            let expected = start + LEASE + heartbeat_interval(LEASE) + MOMENT;
            assert_eq!(observer.next_death(), Some(expected));
            at += LEASE / 10;
            assert!(observer.dead_at(&users(7), me, 0, at).is_empty());
        }
        let death = observer.next_death().unwrap();
        // Another one, which has just been heard of.
        let mut both = users(7);
        both.instances.extend(users(1).instances);
        both.instances[1].id = Uuid::from_u128(3);
        assert!(observer.dead_at(&both, me, 0, death - MOMENT).is_empty());
        assert_eq!(observer.next_death(), Some(death));
        assert_eq!(observer.dead_at(&both, me, 0, death).len(), 1);
        let next = observer.next_death().unwrap();
        assert!(next > death, "the first is dead already");
    }

    /// The standby lacks the last heartbeats, so those of a gateway that lives begin lower.
    #[test]
    fn silence_at_another_server_is_counted_anew() {
        let (mut observer, me) = (Observer::default(), Uuid::from_u128(2));
        let mut now = Instant::now();
        assert!(observer.dead_at(&users(28), me, 0, now).is_empty());
        for beat in 12..60 {
            now += heartbeat_interval(LEASE);
            assert!(observer.dead_at(&users(beat), me, 1, now).is_empty());
            // An answer of the old server that comes late.
            assert!(!observer.beats([(Uuid::from_u128(1), 99)].into_iter(), 0));
        }
        let silent = (1..100).find(|_| {
            now += heartbeat_interval(LEASE);
            !observer.dead_at(&users(59), me, 1, now).is_empty()
        });
        assert_eq!(silent, Some(7), "a look after 1.2 leases");
    }

    #[test]
    fn a_gateway_that_has_not_told_its_routes_is_not_reported_to_have_others() {
        assert!(differ(Some("a"), "b"));
        for (others, own) in [
            (None, "b"),
            (Some(""), "b"),
            (Some("a"), ""),
            (Some("b"), "b"),
        ] {
            assert!(!differ(others, own), "{others:?} {own:?}");
        }
    }

    #[test]
    fn a_time_without_a_look_says_little_about_others() {
        let (mut observer, me) = (Observer::default(), Uuid::from_u128(2));
        let start = Instant::now();
        assert!(observer.dead_at(&users(7), me, 0, start).is_empty());
        // The server was away, for everybody.
        let now = start + LEASE * 10;
        assert!(observer.dead_at(&users(7), me, 0, now).is_empty());
        // Slow looks find a dead gateway all the same.
        let looks = (1..10).find(|look| {
            !observer
                .dead_at(&users(7), me, 0, now + LEASE * *look)
                .is_empty()
        });
        assert_eq!(looks, Some(3));
    }
}
