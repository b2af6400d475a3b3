//! The growth of costs with sizes: each figure over at least four sizes, its exponent and its bound.
//! `cargo bench --bench growth [-- NAME…]`; see benches/README.md.

#![allow(
    clippy::unwrap_used,
    unreachable_pub,
    reason = "a measurement that cannot be made ends; `pub` is for the other files here"
)]

#[path = "../batches/catalog.rs"]
#[allow(dead_code, reason = "the benchmark of batches uses more of it")]
mod catalog;
mod configuration;
#[path = "../soak/connection.rs"]
#[allow(dead_code, reason = "the soak uses more of it")]
mod connection;
mod curve;
mod entries;
#[allow(dead_code, reason = "the soak uses more of it")]
mod fit;
#[path = "../../tests/support/forge.rs"]
#[allow(dead_code, reason = "the tests use more of it")]
mod forge;
mod listing;
mod log;
#[path = "../../tests/support/proc_status.rs"]
mod proc_status;
#[path = "../batches/processor.rs"]
#[allow(dead_code, reason = "the benchmark of batches uses more of it")]
mod processor;
mod program;
#[path = "../batches/remembered.rs"]
mod remembered;
mod report;
mod requests;
#[path = "../../tests/support/running_gateway.rs"]
#[allow(dead_code, reason = "the tests use more of it")]
mod running_gateway;
mod series;
mod server;
mod stalls;
mod versions;

/// The measurements, in their order.
const ALL: [&str; 8] = [
    "start", "log", "mounts", "rules", "listing", "versions", "entries", "series",
];
/// The last ones: the cost of a request over each of these.
const REQUESTS: [&str; 4] = [
    "over-mounts",
    "over-rules",
    "over-tokens",
    "over-connections",
];

#[tokio::main]
async fn main() {
    // Arguments that cargo passes to every benchmark are ignored.
    let asked: Vec<String> = std::env::args()
        .skip(1)
        .filter(|word| !word.starts_with("--"))
        .collect();
    let all: Vec<&str> = ALL.into_iter().chain(REQUESTS).collect();
    if let Some(unknown) = asked.iter().find(|word| !all.contains(&word.as_str())) {
        eprintln!("`{unknown}` is none of: {}", all.join(" "));
        std::process::exit(2);
    }
    for name in all {
        if !asked.is_empty() && !asked.iter().any(|word| word == name) {
            continue;
        }
        report::begin(name);
        match name {
            "start" => log::start().await,
            "log" => log::file().await,
            "mounts" => configuration::mounts().await,
            "rules" => configuration::rules().await,
            "listing" => listing::measure().await,
            "versions" => versions::measure().await,
            "entries" => entries::measure().await,
            "series" => series::measure().await,
            "over-mounts" => requests::mounts().await,
            "over-rules" => requests::rules().await,
            "over-tokens" => requests::tokens().await,
            _ => requests::connections().await,
        }
    }
    report::print_table();
}

/// Returns the default sizes, or those that the variable `NSGATE_GROWTH_NAME` lists with commas.
fn sizes(name: &str, default: &[usize]) -> Vec<usize> {
    let name = format!("NSGATE_GROWTH_{}", name.to_uppercase());
    match std::env::var(&name) {
        Ok(list) => list.split(',').map(|size| size.parse().unwrap()).collect(),
        Err(_) => default.to_vec(),
    }
}
