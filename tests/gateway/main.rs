//! The gateway's promises, kept over catalogs in this process that misbehave on command.
#![allow(
    clippy::unwrap_used,
    dead_code,
    missing_docs,
    unreachable_pub,
    reason = "tests say what they expect; nobody links against them"
)]

mod catalog;
mod client;

use catalog::faults::PATIENCE;
