//! What a plain request costs while batches run on other tables, beside what it costs while none does.
//!
//! A batch costs something itself, and that is not what is asked for. `thread` and `instructions` keep the two apart:
//! plain requests have a thread of their own, and only what that thread does is counted. `whole` is the program as it
//! is run, where both share a thread, and can only take away what batches cost alone.

mod crowd;
pub mod instructions;
mod plain;
mod steady;
pub mod thread;
pub mod whole;

/// Batches a second.
const RATE: u32 = 200;
/// What a plain request may cost more, in percent.
const MORE: f64 = 5.0;

/// How much more the second is, in percent.
fn more(without: f64, with: f64) -> f64 {
    (with / without - 1.0) * 100.0
}

fn median(mut of: Vec<f64>) -> f64 {
    of.sort_by(f64::total_cmp);
    of[of.len() / 2]
}
