//! The cost of the parts of the gateway, each alone, in time and allocations. `cargo bench --bench
//! parts [-- NAME…]`; see benches/README.md.

#![allow(
    clippy::unwrap_used,
    unreachable_pub,
    reason = "a measurement that cannot be made ends; `pub` is for the other files here"
)]

mod body;
mod context;
#[path = "../../tests/support/forge.rs"]
#[allow(dead_code, reason = "the tests of tokens use all of it")]
mod forge;
mod identifier;
mod inside;
mod metrics;
mod mounts;
mod recognize;
mod rewrite;
mod token;
mod versions;

/// Counts allocations during the measurement.
#[global_allocator]
static ALLOCATOR: divan::AllocProfiler = divan::AllocProfiler::system();

fn main() {
    divan::main();
}
