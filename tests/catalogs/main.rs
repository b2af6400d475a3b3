//! The gateway in front of real catalogs, used by real clients.
//!
//! The tests need Python 3.11 or newer with `venv` and `pip`. The first test makes its own environment below `target/`.
//! `NSGATE_SKIP_REAL=1` skips the tests that need it, and says so.
#![allow(
    clippy::unwrap_used,
    dead_code,
    missing_docs,
    unreachable_pub,
    reason = "tests say what they expect; nobody links against them"
)]

mod batches;
#[path = "../support/browser.rs"]
mod browser;
#[path = "../support/cable.rs"]
#[allow(dead_code, reason = "other suites use more of it")]
mod cable;
#[path = "../support/client.rs"]
mod client;
mod clients;
mod commits;
mod credentials;
mod dashboard;
mod differential;
mod faults;
mod harness;
mod kills;
#[path = "../support/postgres.rs"]
mod postgres;
#[path = "../support/proc_status.rs"]
mod proc_status;
mod prometheus;
mod readers;
mod rename;
mod simulated;
mod status;
mod streaming;
#[path = "../support/test_ca.rs"]
mod test_ca;
mod transactions;
mod transport;

use harness::PATIENCE;
