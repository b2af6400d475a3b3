//! The cost of batches, each figure beside its limit. `cargo bench --bench batches [-- NAME…]`; see
//! benches/README.md.

#![allow(
    clippy::unwrap_used,
    unreachable_pub,
    reason = "a measurement that cannot be made ends; `pub` is for the other files here"
)]

mod beside;
mod catalog;
mod filter;
mod fleet;
mod house;
mod lists;
mod memory;
#[path = "../../tests/support/postgres.rs"]
#[allow(dead_code, reason = "the tests use more of it")]
mod postgres;
#[path = "../../tests/support/proc_status.rs"]
mod proc_status;
#[allow(dead_code, reason = "the other benches use more of it")]
mod processor;
mod program;
mod rate;
mod recovery;
mod remembered;
#[path = "../../tests/support/running_gateway.rs"]
#[allow(dead_code, reason = "the tests use more of it")]
mod running_gateway;
mod single;
mod spread;
mod start;
mod table;

use table::Table;

/// The same allocator as in the program.
#[cfg(feature = "jemalloc")]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// The measurements, in the order of the table.
const ALL: [&str; 12] = [
    "single",
    "spread",
    "rate",
    "thread",
    "instructions",
    "whole",
    "filter",
    "recovery",
    "fleet",
    "start",
    "lists",
    "memory",
];

fn main() {
    // Arguments that cargo passes to every benchmark are ignored.
    let asked: Vec<String> = std::env::args()
        .skip(1)
        .filter(|word| !word.starts_with("--"))
        .collect();
    if asked
        .first()
        .is_some_and(|word| word == beside::instructions::WORD)
    {
        return beside::instructions::counted(&asked[1..]);
    }
    if let Some(unknown) = asked.iter().find(|word| !ALL.contains(&word.as_str())) {
        eprintln!("`{unknown}` is none of: {}", ALL.join(" "));
        std::process::exit(2);
    }
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .unwrap();
    let mut table = Table::new();
    table.note(
        "the disk makes 4 KiB durable in, median",
        format!("{:.2} ms", table::millis(house::fsync())),
    );
    for name in ALL {
        if !asked.is_empty() && !asked.iter().any(|word| word == name) {
            continue;
        }
        table.begin(name);
        runtime.block_on(async {
            match name {
                "single" => single::measure(&mut table).await,
                "spread" => spread::measure(&mut table).await,
                "rate" => rate::measure(&mut table).await,
                "thread" => beside::thread::measure(&mut table).await,
                "instructions" => beside::instructions::measure(&mut table),
                "whole" => beside::whole::measure(&mut table).await,
                "filter" => filter::measure(&mut table).await,
                "recovery" => recovery::measure(&mut table).await,
                "fleet" => fleet::measure(&mut table).await,
                "start" => start::measure(&mut table).await,
                "lists" => lists::measure(&mut table).await,
                _ => memory::measure(&mut table).await,
            }
        });
    }
}
