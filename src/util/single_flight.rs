//! One task at a time that brings something many requests wait for.

use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;

/// Work of which at most one task runs at a time, with the state `T` that decides when it may start.
#[derive(Debug, Default)]
pub(crate) struct SingleFlight<T>(Arc<Shared<T>>);

#[derive(Debug, Default)]
struct Shared<T> {
    state: Mutex<State<T>>,
    ended: watch::Sender<()>,
}

#[derive(Debug, Default)]
struct State<T> {
    is_running: bool,
    value: T,
}

/// The locked state. Starting a task and waiting for its end need it, so that no end is missed.
pub(crate) struct Locked<'a, T> {
    shared: &'a Arc<Shared<T>>,
    state: MutexGuard<'a, State<T>>,
}

/// A task that runs. It ends when this is dropped, by a panic too; the state must not be locked by the thread that does.
pub(crate) struct Running<T>(Arc<Shared<T>>);

/// Waits for the end of the task that was running.
pub(crate) struct Ended<T> {
    // Keeps the sender.
    _shared: Arc<Shared<T>>,
    ended: watch::Receiver<()>,
}

impl<T> SingleFlight<T> {
    /// Locks the state.
    pub(crate) fn lock(&self) -> Locked<'_, T> {
        let shared = &self.0;
        Locked {
            shared,
            state: shared.lock(),
        }
    }
}

impl<T> Locked<'_, T> {
    /// Starts a task; `None` while one runs. The caller moves what is returned into the task.
    pub(crate) fn start(&mut self) -> Option<Running<T>> {
        if self.state.is_running {
            return None;
        }
        self.state.is_running = true;
        Some(Running(Arc::clone(self.shared)))
    }

    /// True while a task runs.
    pub(crate) fn is_running(&self) -> bool {
        self.state.is_running
    }

    /// Returns what waits for the end of the task that runs.
    pub(crate) fn ended(&self) -> Ended<T> {
        Ended {
            _shared: Arc::clone(self.shared),
            ended: self.shared.ended.subscribe(),
        }
    }
}

impl<T> Shared<T> {
    fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> Deref for Locked<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.state.value
    }
}

impl<T> DerefMut for Locked<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.state.value
    }
}

impl<T> Ended<T> {
    /// Returns once the task has ended.
    pub(crate) async fn wait(mut self) {
        // The sender is kept here.
        let _ = self.ended.changed().await;
    }
}

impl<T> Drop for Running<T> {
    fn drop(&mut self) {
        self.0.lock().is_running = false;
        self.0.ended.send_modify(|()| {});
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn one_task_runs_at_a_time_and_its_end_is_not_missed() {
        let flight = SingleFlight::<u32>::default();
        let running = flight.lock().start();
        assert!(running.is_some());
        let second = flight.lock().start();
        assert!(second.is_none());
        let ended = flight.lock().ended();
        drop(running);
        ended.wait().await;
        assert!(!flight.lock().is_running());
        let next = flight.lock().start();
        assert!(next.is_some());
    }

    #[tokio::test]
    async fn a_panic_ends_the_task() {
        let flight = SingleFlight::<u32>::default();
        let running = flight.lock().start();
        let ended = flight.lock().ended();
        let task = tokio::spawn(async move {
            let _running = running;
            panic!("as planned");
        });
        assert!(task.await.is_err());
        ended.wait().await;
        assert!(!flight.lock().is_running());
    }
}
