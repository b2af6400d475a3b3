//! The batch log on a disk that loses power: no acknowledged line is missing, and no other line appears.
//!
//! A seed is a few lives of one log. In each, many batches write at a time. At a moment that the seed chooses the power
//! fails, or a write or a sync fails. Unsynced data is then kept, lost, torn or applied out of order, at random, and
//! the next life opens what the disk really holds. The log must open. It must hold exactly what was acknowledged, or
//! that and the whole group of writes that was under way.
//!
//! `NSGATE_POWER_SEEDS=100000 cargo test --release --test power_loss` runs more seeds. `NSGATE_POWER_SEED=7` runs that
//! one.
#![allow(
    clippy::unwrap_used,
    missing_docs,
    unreachable_pub,
    reason = "tests say what they expect; nobody links against them"
)]

mod disk;
mod life;
mod model;
#[path = "../support/random.rs"]
#[allow(dead_code, reason = "the simulation uses more of it")]
mod random;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};

use disk::{Disk, Honesty};
use life::{Ended, live};
use model::Held;
use random::Random;

/// The number of seeds in `cargo test`.
const SEEDS: u64 = 2_000;
/// The maximum number of lives of one log.
const LIVES: u64 = 4;

/// The record of a seed's run.
#[derive(Default)]
struct Told {
    lives: u64,
    acknowledged: u64,
    ended: [u64; Ended::ALL.len()],
    trace: u64,
}

/// Runs one seed. Panics if the log loses or invents a line.
fn run(seed: u64, honesty: Honesty) -> Told {
    let mut random = Random::new(seed, 0);
    let mut disk = Disk::new(honesty);
    let mut held = Held::default();
    let mut told = Told::default();
    for life in 0..=random.below(LIVES) {
        let (ended, acknowledged) = live(&disk, &mut held, &mut random, life);
        told.lives += 1;
        told.acknowledged += acknowledged;
        told.ended[ended as usize] += 1;
        told.trace = told.trace.rotate_left(1) ^ disk.trace();
        // A log that was not finished has no name yet, so the next life creates a new one.
        disk = if held.is_made() {
            disk.after_power_loss(&mut random)
        } else {
            Disk::new(honesty)
        };
    }
    // The last life is only checked.
    life::check(&disk, &mut held);
    told
}

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}

#[test]
fn acknowledged_lines_survive_a_power_loss() {
    if let Some(seed) = number("NSGATE_POWER_SEED") {
        run(seed, Honesty::Honest);
        return;
    }
    let seeds = number("NSGATE_POWER_SEEDS").unwrap_or(SEEDS);
    let next = AtomicU64::new(0);
    let work = || {
        let mut sum = Told::default();
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= seeds {
                return sum;
            }
            let told = catch_unwind(|| run(seed, Honesty::Honest));
            let told = told.unwrap_or_else(|_| {
                panic!("seed {seed} fails; NSGATE_POWER_SEED={seed} runs it again")
            });
            sum.lives += told.lives;
            sum.acknowledged += told.acknowledged;
            for (sum, ended) in sum.ended.iter_mut().zip(told.ended) {
                *sum += ended;
            }
        }
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let mut sum = Told::default();
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        for worker in workers {
            let told = worker.join().unwrap();
            sum.lives += told.lives;
            sum.acknowledged += told.acknowledged;
            for (sum, ended) in sum.ended.iter_mut().zip(told.ended) {
                *sum += ended;
            }
        }
    });
    println!(
        "{seeds} seeds, {} lives, {} acknowledged writes; {}",
        sum.lives,
        sum.acknowledged,
        Ended::ALL
            .iter()
            .map(|ended| format!("{ended:?} {}", sum.ended[*ended as usize]))
            .collect::<Vec<_>>()
            .join(", ")
    );
    // A run in which no trouble struck would prove nothing.
    for ended in Ended::ALL {
        assert!(
            sum.ended[ended as usize] > 0 || seeds < SEEDS,
            "never: {ended:?}"
        );
    }
}

#[test]
fn a_disk_that_does_not_sync_is_caught() {
    let caught = (0..40)
        .filter(|seed| {
            let run = || run(*seed, Honesty::SyncsNothing);
            catch_unwind(AssertUnwindSafe(run)).is_err()
        })
        .count();
    assert!(caught >= 20, "{caught} of 40 seeds");
}

#[test]
fn a_seed_replays() {
    for seed in 0..40 {
        let (one, two) = (run(seed, Honesty::Honest), run(seed, Honesty::Honest));
        assert_eq!(one.trace, two.trace, "seed {seed}");
        assert_eq!(one.acknowledged, two.acknowledged, "seed {seed}");
    }
}
