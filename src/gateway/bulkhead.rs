//! Limits how many requests may wait for one catalog: at most as many as the gateway can still accept.
//!
//! The number of requests that are served at a time is limited (`limits.in_flight`), and requests that wait for a
//! catalog that hangs release their places late. So that they never hold all places, a catalog may keep as many
//! requests waiting as there are free places: one catalog that hangs takes half of the places, two take a third each,
//! and some places always remain.

use super::{Free, RoutingSnapshot};
use crate::backend::Backend;
use crate::error::Error;
use crate::error::retry_after::RetryAfter;
use crate::metrics::Limit;

/// The number of requests that may always wait for a catalog: with fewer places there is nothing to share out.
const ALWAYS: usize = 16;

/// Refuses a request that would wait for a catalog that already holds its share of the places; 503.
pub(super) fn check(
    free: Option<&Free>,
    world: &RoutingSnapshot,
    backend: &Backend,
) -> Result<(), Error> {
    // A single catalog shares the places with no other.
    if world.backends.len() < 2 {
        return Ok(());
    }
    let waiting = backend.waiting();
    if free.is_none_or(|free| has_room(waiting, free())) {
        return Ok(());
    }
    let message = format!(
        "too many requests are waiting for backend `{}`; retry later",
        backend.name()
    );
    Err(Error::unavailable(message)
        .because(Limit::Catalog.as_str())
        .with_retry_after(RetryAfter::SOON))
}

fn has_room(waiting: usize, free: usize) -> bool {
    waiting <= free.max(ALWAYS)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Fills `all` places with requests that wait for `hanging` catalogs in turn; returns the number of places left.
    fn left(all: usize, hanging: usize) -> usize {
        let mut waiting = vec![0_usize; hanging];
        for turn in 0..all * hanging {
            let taken: usize = waiting.iter().sum();
            let Some(free) = all.checked_sub(taken + 1) else {
                break;
            };
            let mine = &mut waiting[turn % hanging];
            *mine += usize::from(has_room(*mine, free));
        }
        all - waiting.iter().sum::<usize>()
    }

    #[test]
    fn catalogs_that_hang_leave_places_to_the_others() {
        assert_eq!(left(4096, 1), 2048);
        assert!((1360..=1370).contains(&left(4096, 2)));
        assert!((370..=375).contains(&left(4096, 10)));
        assert_eq!(left(8, 1), 0, "too few to share");
    }
}
