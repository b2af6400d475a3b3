//! The threads that serve, called workers: their number, and which of them is running.
//!
//! A connection stays on the worker that it was handed to, and so does all work for its requests. State that would
//! otherwise move between processors with every request is therefore kept once for each worker.

use std::cell::Cell;
use std::sync::OnceLock;

static COUNT: OnceLock<usize> = OnceLock::new();

thread_local! {
    static INDEX: Cell<usize> = const { Cell::new(0) };
    static IS_WORKER: Cell<bool> = const { Cell::new(false) };
}

/// Sets the number of workers, before there are any. Only the first call counts.
pub fn announce(count: usize) {
    let _ = COUNT.set(count.max(1));
}

/// The number of workers; 1 if it was not announced.
pub fn count() -> usize {
    COUNT.get().copied().unwrap_or(1)
}

/// Makes this thread the worker with that number, from 0.
pub fn become_one(index: usize) {
    INDEX.set(index);
    IS_WORKER.set(true);
}

/// True if this thread is a worker: then requests wait for what runs on it.
pub fn is_one() -> bool {
    IS_WORKER.get()
}

/// The number of the worker that this thread is; 0 for a thread that is none.
pub fn index() -> usize {
    INDEX.get()
}
