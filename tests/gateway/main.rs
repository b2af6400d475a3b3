//! Tests of the gateway's promises, over catalogs in this process that misbehave on command.
#![allow(
    clippy::unwrap_used,
    missing_docs,
    unreachable_pub,
    reason = "tests say what they expect; nobody links against them"
)]

mod access_log;
mod admin;
mod admin_commands;
mod agreement;
mod audit;
mod authorization;
mod batches;
mod batches_command;
#[path = "../support/browser.rs"]
mod browser;
#[path = "../support/cable.rs"]
#[allow(dead_code, reason = "other suites use more of it")]
mod cable;
mod catalog;
mod catalog_addresses;
#[path = "../support/client.rs"]
mod client;
mod command;
mod credentials;
mod drain;
mod explain_command;
mod failures;
mod faults;
mod fleet;
mod harness;
mod headers;
mod health_command;
mod hostile;
mod http2;
mod identity;
mod leading;
mod limits;
mod listing;
mod load;
mod online;
#[cfg(feature = "otlp")]
mod otlp;
mod overload;
#[path = "../support/postgres.rs"]
#[allow(dead_code, reason = "the tests of the log use more of it")]
mod postgres;
#[path = "../support/proc_status.rs"]
#[allow(dead_code, reason = "the benches use more of it")]
mod proc_status;
#[path = "../support/random.rs"]
#[allow(dead_code, reason = "the simulation uses more of it")]
mod random;
mod reload;
mod reload_command;
mod restart;
mod rewriting;
mod routing;
#[path = "../support/running_gateway.rs"]
#[allow(dead_code, reason = "the benches use more of it")]
mod running_gateway;
mod snapshot;
mod status_page;
mod streaming;
#[path = "../support/test_ca.rs"]
mod test_ca;
mod tls;
mod token;
mod unambiguous;

use catalog::faults::PATIENCE;
