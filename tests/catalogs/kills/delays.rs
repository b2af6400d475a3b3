//! The delays of messages between gateways and catalogs, and the random choices of a run.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::harness::{Delay, Message};

/// The longest delay in milliseconds: five minutes, because every timeout here is a fifteenth of its default.
const LONGEST: usize = 20_000;

/// The number of requests, by kind, that were delayed by seconds.
pub(super) type Late = Arc<Mutex<BTreeMap<String, u64>>>;

/// Returns the delays of requests and answers. Most take a moment longer, some outlast the gateway's timeout, a few
/// take nearly everything: more often those that a catalog carries out whenever they come. Counts the longest, by kind.
pub(super) fn delays(mut random: Random, late: Late) -> impl FnMut(&Message) -> Delay + Send {
    move |request| {
        let path = request.path().trim_end_matches('/');
        let kind = path.rsplit('/').next().unwrap_or_default();
        let often = match kind {
            "" => return Delay::default(),
            "delete" | "register" | "deregister" => 50,
            "create" => 10,
            _ => 3,
        };
        let drawn = random.below(1000);
        let delay = if drawn < often {
            let kind = format!("delayed by seconds: {kind}");
            *late.lock().unwrap().entry(kind).or_default() += 1;
            random.between(2000, LONGEST)
        } else if drawn < 5 * often {
            random.between(100, 2000)
        } else {
            random.between(0, 3)
        };
        let (mut request, mut answer) = (delay, Duration::ZERO);
        if random.below(3) == 0 {
            (request, answer) = (answer, request);
        }
        Delay { request, answer }
    }
}

/// A SplitMix64 generator.
pub(super) struct Random(pub(super) u64);

impl Random {
    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    pub(super) fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.next() % bound as u64).unwrap()
    }

    /// Returns a time between `least` and `most` milliseconds.
    pub(super) fn between(&mut self, least: usize, most: usize) -> Duration {
        Duration::from_millis((least + self.below(most - least + 1)) as u64)
    }
}
