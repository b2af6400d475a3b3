//! The lines that are counted instead of written: requests that change nothing must not fill the disk, which may be that
//! of the batch log.
//!
//! Each caller has so many lines a minute, and all of them together so many bytes. What is beyond is told by one line for
//! each caller, at the end of the minute.

use std::collections::HashMap;
use std::hash::{BuildHasher as _, RandomState};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::record::Who;

/// The time for which lines are counted together.
const WINDOW: Duration = Duration::from_secs(60);
/// The most lines of one caller in that time.
const LINES: u64 = 100;
/// The most bytes of the records of all callers in that time.
const BYTES: usize = 4 << 20;
/// The most callers that are told apart in that time; the others are counted as one, of whom nothing is said.
const CALLERS: usize = 1024;

/// The lines of the present time, and those that were left out.
#[derive(Default)]
pub(super) struct Counted {
    hasher: RandomState,
    window: Mutex<Window>,
}

#[derive(Default)]
struct Window {
    began: Option<Instant>,
    bytes: usize,
    callers: HashMap<u64, Tally>,
    others: Tally,
    /// True if a line was left out.
    leaves_out: bool,
}

/// The lines of one caller.
#[derive(Default)]
struct Tally {
    lines: u64,
    omitted: Omitted,
}

/// The lines of one caller that were left out.
#[derive(Debug, Default)]
pub(super) struct Omitted {
    /// The caller of the first of them.
    pub(super) who: Who,
    pub(super) lines: u64,
}

/// The decision about a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Spared {
    /// It is written.
    No,
    /// It is counted.
    Yes,
    /// It is counted, and the first in its time, which has so much left.
    First(Duration),
}

impl Counted {
    /// Decides about the line of a request by `who`, whose record has this size, and counts it. Returns, in addition,
    /// what was left out in a time that is over.
    pub(super) fn admit(&self, who: &Who, bytes: usize, now: Instant) -> (Spared, Vec<Omitted>) {
        let caller = self.hasher.hash_one(who.caller());
        let mut window = self.window.lock().unwrap_or_else(PoisonError::into_inner);
        let began = *window.began.get_or_insert(now);
        let over = if now.duration_since(began) < WINDOW {
            Vec::new()
        } else {
            std::mem::take(&mut *window).omitted()
        };
        let began = *window.began.get_or_insert(now);
        let left = (began + WINDOW).saturating_duration_since(now);
        (window.count(caller, who, bytes, left), over)
    }

    /// Returns what was left out so far; another time begins.
    pub(super) fn end(&self) -> Vec<Omitted> {
        let mut window = self.window.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut *window).omitted()
    }
}

impl Window {
    fn count(&mut self, caller: u64, who: &Who, bytes: usize, left: Duration) -> Spared {
        let is_told_apart = self.callers.len() < CALLERS || self.callers.contains_key(&caller);
        let tally = if is_told_apart {
            self.callers.entry(caller).or_default()
        } else {
            &mut self.others
        };
        tally.lines += 1;
        if tally.lines <= LINES && self.bytes + bytes <= BYTES {
            self.bytes += bytes;
            return Spared::No;
        }
        if tally.omitted.lines == 0 && is_told_apart {
            tally.omitted.who = who.clone();
        }
        tally.omitted.lines += 1;
        if std::mem::replace(&mut self.leaves_out, true) {
            Spared::Yes
        } else {
            Spared::First(left)
        }
    }

    fn omitted(self) -> Vec<Omitted> {
        let all = self.callers.into_values().chain([self.others]);
        let omitted = all.map(|tally| tally.omitted);
        omitted.filter(|omitted| omitted.lines > 0).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::peer::Peer;

    fn at(address: &str) -> Who {
        let address = address.parse().unwrap_or_else(|_| unreachable!());
        Who::at(Some(&Peer::new(address, false)))
    }

    fn omitted(all: Vec<Omitted>) -> Vec<u64> {
        let mut lines: Vec<u64> = all.into_iter().map(|one| one.lines).collect();
        lines.sort_unstable();
        lines
    }

    #[test]
    fn a_caller_has_a_hundred_lines_a_minute_and_the_others_are_counted() {
        let (counted, now) = (Counted::default(), Instant::now());
        let written = |who: &Who, now, many: u64| {
            let all = (0..many).map(|_| counted.admit(who, 1, now).0);
            all.filter(|spared| *spared == Spared::No).count()
        };
        // The port of a connection makes no other caller.
        let (one, same, other) = (at("192.0.2.7:1"), at("192.0.2.7:2"), at("192.0.2.8:1"));
        assert_eq!(written(&one, now, 99), 99);
        assert_eq!(counted.admit(&same, 1, now).0, Spared::No);
        assert_eq!(counted.admit(&one, 1, now).0, Spared::First(WINDOW));
        assert_eq!(written(&one, now, 200), 0);
        assert_eq!(written(&other, now, 150), 100);
        let (spared, over) = counted.admit(&one, 1, now + WINDOW);
        assert_eq!((spared, omitted(over)), (Spared::No, vec![50, 201]));
        assert!(counted.end().is_empty());
    }

    #[test]
    fn many_callers_together_have_a_bound_too() {
        let (counted, now) = (Counted::default(), Instant::now());
        let mut written = 0;
        for number in 0..2000_u32 {
            let address = format!("10.0.{}.{}:1", number >> 8, number & 255);
            for _ in 0..2 {
                let (spared, _) = counted.admit(&at(&address), 1 << 10, now);
                written += usize::from(spared == Spared::No);
            }
        }
        assert_eq!(written, 2 * CALLERS + 100);
        let all = counted.end();
        let unnamed = all.iter().filter(|one| one.who.client().is_none());
        assert_eq!(unnamed.count(), all.len(), "those that are not told apart");
        assert_eq!(omitted(all), [2 * 2000 - 2 * CALLERS as u64 - 100]);
        assert_eq!(counted.admit(&at("10.0.0.1:1"), BYTES, now).0, Spared::No);
        assert_ne!(counted.admit(&at("10.0.0.2:1"), 1, now).0, Spared::No);
    }
}
