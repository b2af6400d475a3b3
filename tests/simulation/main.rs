//! The simulation: the real service, coordinator, locks, visibility and recovery, over simulated catalogs, network and
//! disk. A seed decides everything that these do.
//!
//! `NSGATE_SEED=123` replays one seed and prints the events. `NSGATE_SEEDS=100000..200000` runs other seeds than the
//! usual ones, which the commit chooses (`part`). `NSGATE_SURVEY=1` continues after the first broken promise and counts how often each
//! breaks. `NSGATE_WITHOUT=RefusedAfter,Stale` leaves these kinds of faults out, to see which others there are.
//!
//! `fleet` runs three gateways of the real code at once, over one simulated log (`NSGATE_FLEET_SEEDS` for other seeds than
//! the usual ones). Clients ask any of them.
//!
//! The faults of the simulated world:
//!
//! - Requests and answers are lost, late by up to 15 minutes, doubled, or cut off.
//! - Catalogs stop and start again, and refuse what they have done. They answer 200 to a removal and never do it, or do
//!   it later. They say once that a version does not exist which does. They write long after they have looked. They
//!   keep, change or hide entity tags, and keep or consume staged manifests.
//! - The gateway dies at any point, and so do writes to its log.
//! - Of several gateways each dies, ends in order, or is stopped for longer than its lease, at any point. Their leases are
//!   measured by clocks of different rates. They are cut off from the log, or from each other.
//! - The server of the log restarts, or hangs until its standby is promoted. Requests to it, and those that gateways pass
//!   on, are lost, late, never answered, or carried out with the answer lost.
//! - Clients leave at any time. Others write, let the catalog write, rename, register, drop and create tables through
//!   the gateway all the while.
//!
//! The assumptions about this world, some of which `directed/assumptions.rs` takes away to show the damage:
//!
//! - A request that is 15 minutes old has been given up by everything that it may be waiting in.
//! - No sender repeats a request whose answer has been delivered.
//! - A catalog that answers 200 to a create, a declare, a register or a write of its own has done it by then.
//! - A catalog says at most once in a row that a version does not exist which does, or that it has removed what it has
//!   not.
//! - A list of a catalog shows what the catalog has.
//! - A catalog takes only manifests that were staged for the table that it creates a version of.
//! - A create fails if its number is taken, or if it is not the next one.
//! - An equal entity tag belongs to the same manifest. A tag that differs, and an equal size, prove nothing.
//! - A client that writes behind the gateway's back, or builds on what raw storage shows, may build on a version that
//!   is undone. A version made behind the gateway's back that looks like a batch's (same number and size, no telling
//!   tag) may be taken for it.
//! - A table has one name, except while it is renamed.
//! - A log write that was acknowledged survives a crash; an unacknowledged one may survive.
//! - A call of a function of the shared log happens at one moment. `postgres` has what a real server does with several.
#![allow(
    clippy::unwrap_used,
    missing_docs,
    unreachable_pub,
    reason = "tests say what they expect; nobody links against them"
)]

#[path = "../support/catalog.rs"]
mod catalog;
mod check;
mod clients;
mod clock;
mod directed;
mod environment;
mod fleet;
mod front;
mod history;
mod ledger;
mod network;
mod part;
#[path = "../support/random.rs"]
mod random;
mod run;
mod scenario;
mod seeds;
#[path = "../support/simulated_postgres.rs"]
#[allow(unused_imports, reason = "other suites use more of it")]
mod simulated_postgres;
mod single_fault;
mod trace;
