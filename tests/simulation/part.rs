//! The part of all seeds and single faults that a run simulates. The commit chooses it, so that each is simulated every
//! few commits; a failure names what replays it.

use std::ops::Range;
use std::process::Command;

/// The seeds among which the commit chooses.
const SEEDS: u64 = 10_000;
/// An ordinary run simulates one of so many single faults. A prime: in a list of each kind at each message, no part lacks
/// a kind.
const SHARE: usize = 11;

/// Returns the seeds that a variable of the environment asks for: `FROM..TO`, or so many (usually `usual`), which the
/// commit chooses.
pub fn seeds(variable: &str, usual: u64) -> Range<u64> {
    let text = std::env::var(variable).unwrap_or_else(|_| usual.to_string());
    let number = |text: &str| {
        text.trim()
            .parse::<u64>()
            .unwrap_or_else(|_| panic!("{variable} is a count or FROM..TO"))
    };
    if let Some((from, to)) = text.split_once("..") {
        return number(from)..number(to);
    }
    let count = number(&text);
    let parts = (SEEDS / count.max(1)).max(1);
    let from = commit() % parts * count;
    from..from + count
}

/// Returns true if this run simulates every single fault: `NSGATE_FAULTS=all`.
pub fn has_every_fault() -> bool {
    std::env::var("NSGATE_FAULTS").is_ok_and(|wanted| wanted == "all")
}

/// Returns the cases that this run simulates: all, or one of eleven.
pub fn of<T>(cases: impl IntoIterator<Item = T>) -> Vec<T> {
    let (first, step) = match has_every_fault() {
        true => (0, 1),
        false => ((commit() % SHARE as u64) as usize, SHARE),
    };
    cases.into_iter().skip(first).step_by(step).collect()
}

/// Returns the least number of cases that this run must have, if all are at least `all`.
pub fn least(all: usize) -> usize {
    if has_every_fault() {
        all
    } else {
        all / SHARE / 2
    }
}

/// Returns a number that the commit gives; 0 without a commit.
fn commit() -> u64 {
    let git = Command::new("git")
        .args(["rev-parse", "HEAD"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output();
    let hash = git.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
    let first = hash.ok().and_then(|hash| hash.get(..8).map(str::to_owned));
    first.map_or(0, |hash| u64::from_str_radix(&hash, 16).unwrap_or(0))
}
