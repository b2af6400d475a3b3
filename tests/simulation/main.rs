//! The gateway in a simulated world: the real service, coordinator, locks, visibility and recovery, over catalogs, a
//! network and a disk that do what a seed says.
//!
//! `NSGATE_SEED=123` replays one seed and prints what happens; `NSGATE_SEEDS=100000..200000` (or a count) runs others than
//! the usual ones.
#![allow(
    clippy::unwrap_used,
    missing_docs,
    unreachable_pub,
    reason = "tests say what they expect; nobody links against them"
)]

mod catalog;
mod check;
mod clients;
mod clock;
mod directed;
mod front;
mod history;
mod ledger;
mod network;
mod random;
mod run;
mod scenario;
mod seeds;
mod singly;
mod trace;
mod world;
