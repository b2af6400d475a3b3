//! The cost of a plain request while batches run on other tables, compared with its cost without batches.
//!
//! The cost of the batches themselves must not be counted. `thread` and `instructions` separate the two: plain
//! requests have a thread of their own, and only the work of that thread is counted. `whole` measures the program as
//! it is deployed, with both on one thread, and can only subtract the cost of batches that run alone.

mod crowd;
pub mod instructions;
mod plain;
mod steady;
pub mod thread;
pub mod whole;

/// The number of batches a second.
const RATE: u32 = 200;
/// The highest additional cost of a plain request, in percent.
const MORE: f64 = 5.0;

/// Returns by how many percent the second figure exceeds the first.
fn more(without: f64, with: f64) -> f64 {
    (with / without - 1.0) * 100.0
}

fn median(mut of: Vec<f64>) -> f64 {
    of.sort_by(f64::total_cmp);
    of[of.len() / 2]
}
