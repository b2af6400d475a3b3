//! Simulated time in milliseconds since the epoch.

use std::cell::Cell;

use tokio::time::Instant;

thread_local! {
    static BEGAN: Cell<Option<Instant>> = const { Cell::new(None) };
}

/// Starts the clock of this thread's simulation.
pub fn begin() {
    BEGAN.set(Some(Instant::now()));
}

/// Returns the wall-clock time. It goes on while no gateway is alive.
pub fn millis() -> u64 {
    let elapsed = BEGAN.get().map_or(0, |began| began.elapsed().as_millis());
    1_700_000_000_000 + u64::try_from(elapsed).unwrap_or(0)
}
