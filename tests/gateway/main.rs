//! The gateway's promises, kept over catalogs in this process that misbehave on command.
#![allow(
    clippy::unwrap_used,
    missing_docs,
    unreachable_pub,
    reason = "tests say what they expect; nobody links against them"
)]

mod admin;
mod agreement;
mod authority;
mod authorization;
mod batches;
mod catalog;
mod client;
mod credentials;
mod disclosure;
mod drain;
mod failures;
mod headers;
mod hostile;
mod http2;
mod identity;
mod limits;
mod listing;
mod load;
mod operator;
#[cfg(feature = "otlp")]
mod otlp;
mod overload;
#[path = "../simulation/random.rs"]
#[allow(dead_code, reason = "the simulation uses more of it")]
mod random;
mod reload;
mod rewriting;
mod routing;
mod sight;
mod streaming;
mod tls;
mod token;
mod unambiguous;
mod world;

use catalog::faults::PATIENCE;
