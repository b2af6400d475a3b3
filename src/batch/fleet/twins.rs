//! Finds gateways that tell the same address: what is passed on to one of them reaches the other.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use super::Member;

/// The two gateways that tell the same address, if there are any.
#[derive(Default)]
pub(super) struct Twins(Mutex<Option<Seen>>);

struct Seen {
    names: [String; 2],
    since: Instant,
    is_told: bool,
}

impl Twins {
    /// Looks for two among `members`. Reports them once they have both lived for two leases: a gateway that was started
    /// again lives beside its dead predecessor for a while.
    pub(super) fn look(&self, members: &[Member]) {
        let mut seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some((one, other)) = find(members) else {
            *seen = None;
            return;
        };
        let names = [one.name.clone(), other.name.clone()];
        let mut known = seen.take().filter(|seen| seen.names == names);
        let known = seen.insert(known.take().unwrap_or_else(|| Seen {
            names,
            since: Instant::now(),
            is_told: false,
        }));
        let lease = Duration::from_millis(one.lease_millis.max(other.lease_millis));
        if known.is_told || known.since.elapsed() < lease * 2 {
            return;
        }
        known.is_told = true;
        tracing::warn!(
            one = one.name,
            other = other.name,
            address = one.address,
            "two gateways tell the same address, so what is passed on to one of them reaches the other. Give each its own `batch.gateways.advertise`"
        );
    }
}

fn find(members: &[Member]) -> Option<(&Member, &Member)> {
    let lives = |one: &&Member| one.address.is_some() && one.silent_millis < one.lease_millis / 2;
    let mut living = members.iter().filter(lives);
    living.find_map(|one| {
        let is_twin = |other: &&Member| {
            other.address == one.address && !std::ptr::eq(*other, one) && lives(other)
        };
        Some((one, members.iter().find(is_twin)?))
    })
}
