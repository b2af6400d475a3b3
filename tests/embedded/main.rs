//! A catalog in a directory, embedded: the contract's operations on real tables (cargo feature `dir`).
#![cfg(feature = "dir")]
#![allow(clippy::unwrap_used, reason = "a test may fail by panicking")]
#![allow(unreachable_pub, reason = "modules of one test")]

mod catalog;
mod gateway;
mod life;
mod operations;
mod refusals;
