//! The gateway in a simulated world: the real service, coordinator, locks, visibility and recovery, over catalogs, a
//! network and a disk that do what a seed says.
//!
//! `NSGATE_SEED=123` replays one seed and prints what happens; `NSGATE_SEEDS=100000..200000` (or a count) runs others than
//! the usual ones. `NSGATE_SURVEY=1` goes on after the first broken promise and counts which break how often;
//! `NSGATE_WITHOUT=RefusedAfter,Stale` leaves kinds of faults out, to see what else there is.
//!
//! What the world may do to the gateway: requests and answers are lost, late by up to 15 minutes, doubled, cut off;
//! catalogs stop and come back, refuse what they have done, answer 200 to a removal and do nothing or act later, say once
//! that a version is not there which is, keep or change or hide entity tags, keep or consume staged manifests, put long
//! after they have looked; the gateway dies at any point, and so do writes to its log; clients leave at any time; others
//! write, let the catalog write, rename, register, drop and create tables through the gateway all the while.
//!
//! What is assumed of it all the same:
//!
//! - A request that is 15 minutes old has been given up by everything that it may be waiting in.
//! - Nobody repeats a request whose answer has been delivered.
//! - A catalog that answers 200 to a create, a declare, a register or a write of its own has done it by then.
//! - A catalog says at most once in a row that a version is not there which is, or that it has removed what it has not.
//! - What a catalog lists is what it has.
//! - A catalog takes only manifests that were staged for the table that it creates a version of.
//! - A create fails if its number is there, or if it is not the next one.
//! - An equal entity tag belongs to the same manifest; a tag that differs, and an equal size, prove nothing.
//! - Who writes behind the gateway's back, or builds on what raw storage shows, may build on a version that is undone;
//!   and a version from behind that looks like a batch's (same number and size, no telling tag) may be taken for it.
//! - A table has one name, but for the time in which it is renamed.
//! - What a write to the log has been acknowledged for is there after a crash; an unacknowledged one may be.
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
mod front;
mod history;
mod ledger;
mod network;
#[path = "../support/random.rs"]
mod random;
mod run;
mod scenario;
mod seeds;
mod single_fault;
mod trace;
