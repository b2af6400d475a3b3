//! Tests of tokens: which are accepted and which refused, and keys that come and go.
//!
//! All tests use the real authenticate layer, real keys from an issuer on loopback, and a clock that the test sets.
#![allow(
    clippy::unwrap_used,
    missing_docs,
    unreachable_pub,
    reason = "tests say what they expect; nobody links against them"
)]

mod algorithms;
mod attacks;
mod claims;
#[path = "../support/forge.rs"]
mod forge;
mod issuer;
mod judge;
mod keys;
mod keys_under_load;
mod log;
mod memory;
mod tls;
mod verifier;
