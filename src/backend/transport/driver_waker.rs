//! Tells the task that drives a connection whether there is anything to do on it.
//!
//! hyper's two halves wake each other through the waker that the connection is polled with, even if they are polled
//! together. With the task's own waker, each of these wakes would run the whole task once more. So a connection is
//! polled with a waker of its own: it remembers that it was called, and wakes the task only while the task waits.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Wake, Waker};

use futures_util::task::AtomicWaker;

/// The waker of one connection.
pub(in crate::backend) struct DriverWaker {
    rung: Arc<WokenFlag>,
    waker: Waker,
    /// True if a task may be waiting.
    awaited: bool,
}

struct WokenFlag {
    since_last: AtomicBool,
    /// The waker of the task, only while it waits.
    task: AtomicWaker,
}

impl DriverWaker {
    /// Returns a waker that counts as called, because the connection was never polled.
    pub(in crate::backend) fn new() -> Self {
        let rung = Arc::new(WokenFlag {
            since_last: AtomicBool::new(true),
            task: AtomicWaker::new(),
        });
        Self {
            waker: Waker::from(Arc::clone(&rung)),
            rung,
            awaited: false,
        }
    }

    /// Returns the waker that the connection must be polled with.
    pub(in crate::backend) fn waker(&self) -> &Waker {
        &self.waker
    }

    /// True if it was called since the last check.
    pub(in crate::backend) fn rang(&self) -> bool {
        let since_last = &self.rung.since_last;
        // A load costs less than a swap.
        since_last.load(Ordering::Acquire) && since_last.swap(false, Ordering::AcqRel)
    }

    /// Notes that there is something to do.
    pub(in crate::backend) fn ring(&self) {
        self.rung.since_last.store(true, Ordering::Release);
    }

    /// Stops waking the task until it waits again.
    pub(in crate::backend) fn hush(&mut self) {
        // A call since then has already taken the task's waker.
        if std::mem::take(&mut self.awaited) && !self.rung.since_last.load(Ordering::Acquire) {
            self.rung.task.take();
        }
    }

    /// Makes the task wait for the next call.
    pub(in crate::backend) fn wait(&mut self, cx: &mut Context<'_>) {
        if self.rung.since_last.load(Ordering::Acquire) {
            return cx.waker().wake_by_ref();
        }
        self.awaited = true;
        self.rung.task.register(cx.waker());
        if self.rung.since_last.load(Ordering::Acquire) {
            cx.waker().wake_by_ref();
        }
    }
}

impl Wake for WokenFlag {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.since_last.store(true, Ordering::Release);
        self.task.wake();
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test says what it expects")]
    use std::sync::atomic::AtomicUsize;

    use super::*;

    #[derive(Default)]
    struct Task(AtomicUsize);

    impl Wake for Task {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn only_a_task_that_waits_is_woken() {
        let (mut bell, task) = (DriverWaker::new(), Arc::new(Task::default()));
        let waker = Waker::from(Arc::clone(&task));
        let woken = || task.0.swap(0, Ordering::Relaxed);
        let wait = |bell: &mut DriverWaker| bell.wait(&mut Context::from_waker(&waker));
        assert!(bell.rang(), "nobody has looked at the connection yet");
        bell.waker().wake_by_ref();
        assert_eq!(woken(), 0);
        wait(&mut bell);
        assert_eq!(woken(), 1, "it rang before the task waited");
        assert!(bell.rang() && !bell.rang());
        wait(&mut bell);
        assert_eq!(woken(), 0);
        bell.waker().wake_by_ref();
        assert_eq!(woken(), 1);
        assert!(bell.rang());
        wait(&mut bell);
        bell.hush();
        bell.waker().wake_by_ref();
        assert_eq!(woken(), 0);
        assert!(bell.rang());
    }
}
