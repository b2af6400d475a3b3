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

/// The heartbeats of other gateways, and for how long each has been seen to stand still.
#[derive(Default)]
pub(super) struct Observer {
    beats: HashMap<Uuid, (i64, Duration)>,
    /// The time of the last look.
    looked: Option<Instant>,
}

impl Observer {
    /// Notes the heartbeats, and returns the gateways that were silent for longer than their leases. A time in which this
    /// one could not look does not count: the others could not show a heartbeat then, either.
    pub(super) fn dead(&mut self, users: &Users, me: Uuid) -> Vec<SeenInstance> {
        self.dead_at(users, me, Instant::now())
    }

    fn dead_at(&mut self, users: &Users, me: Uuid, now: Instant) -> Vec<SeenInstance> {
        let since = now.duration_since(self.looked.replace(now).unwrap_or(now));
        let is_there = |id: &Uuid| users.instances.iter().any(|one| one.id == *id);
        self.beats.retain(|id, _| is_there(id));
        let others = users.instances.iter().filter(|one| one.id != me);
        let mut dead = Vec::new();
        for one in others {
            let interval = heartbeat_interval(one.lease);
            let (beat, silent) = self
                .beats
                .entry(one.id)
                .or_insert((one.beat, Duration::ZERO));
            if *beat != one.beat {
                (*beat, *silent) = (one.beat, Duration::ZERO);
                continue;
            }
            *silent += since.min(interval.saturating_mul(2));
            if *silent > one.lease + interval {
                dead.push(one.clone());
            }
        }
        dead
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
            routes_differ: one.id != me && differ(one.routes.as_deref(), routes),
            silent_millis: self
                .beats
                .get(&one.id)
                .map_or(0, |(_, silent)| millis(*silent)),
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
            assert!(observer.dead_at(&users(7), me, now).is_empty());
            now += heartbeat_interval(LEASE);
        }
        assert!(observer.dead_at(&users(7), me, now).is_empty());
        now += heartbeat_interval(LEASE);
        assert_eq!(observer.dead_at(&users(7), me, now).len(), 1);
        assert!(observer.dead_at(&users(8), me, now).is_empty());
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
        assert!(observer.dead_at(&users(7), me, start).is_empty());
        // The server was away, for everybody.
        let now = start + LEASE * 10;
        assert!(observer.dead_at(&users(7), me, now).is_empty());
        // Slow looks find a dead gateway all the same.
        let looks = (1..10).find(|look| {
            !observer
                .dead_at(&users(7), me, now + LEASE * *look)
                .is_empty()
        });
        assert_eq!(looks, Some(3));
    }
}
