//! The batch log in a real PostgreSQL: the same records as the log in a file, nothing acknowledged lost, and never two
//! gateways that write.
#![allow(
    clippy::unwrap_used,
    missing_docs,
    unreachable_pub,
    reason = "tests say what they expect; nobody links against them"
)]

#[path = "../support/cable.rs"]
#[allow(dead_code, reason = "other suites use more of it")]
mod cable;
mod commands;
mod conformance;
mod faults;
mod house;
mod ownership;
#[path = "../support/postgres.rs"]
#[allow(dead_code, reason = "other suites use more of it")]
mod postgres;
#[path = "../support/random.rs"]
#[allow(dead_code, reason = "other suites use more of it")]
mod random;
mod simulated;
#[path = "../support/simulated_postgres.rs"]
#[allow(dead_code, unused_imports, reason = "other suites use more of it")]
mod simulated_postgres;
mod standby;
mod takeover;
#[path = "../support/test_ca.rs"]
#[allow(dead_code, reason = "other suites use more of it")]
mod test_ca;
mod tls;
