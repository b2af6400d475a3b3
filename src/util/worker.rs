//! The threads that serve, called workers: how many there are and which one this is.
//!
//! A connection stays on the worker that it was handed to, and so does everything that is done for its requests. What
//! would otherwise be passed between processors with every request is therefore kept once for each worker.

use std::cell::Cell;
use std::sync::OnceLock;

static COUNT: OnceLock<usize> = OnceLock::new();

thread_local! {
    static INDEX: Cell<usize> = const { Cell::new(0) };
}

/// Says how many there will be, before there is any. The first word stands.
pub fn announce(count: usize) {
    let _ = COUNT.set(count.max(1));
}

/// How many there are.
pub fn count() -> usize {
    COUNT.get().copied().unwrap_or(1)
}

/// Makes this thread the worker with that number, from 0.
pub fn become_one(index: usize) {
    INDEX.set(index);
}

/// Which one this thread is; threads that are none count as the first.
pub fn index() -> usize {
    INDEX.get()
}
