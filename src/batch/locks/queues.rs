//! Limits how many requests wait for locks. Requests that need not wait are not counted.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::{Key, LockError};

/// The largest number of batches that wait for one table or namespace. Each holds the entries of its request in
/// memory.
const BATCHES: usize = 64;
/// The largest number of other requests that wait for one table or namespace. It is far more writers than one table
/// can serve in a wait of 10 s.
const REQUESTS: usize = 1024;
/// The number of requests that may always wait, because a smaller number is not worth sharing out.
const ALWAYS: usize = 16;

/// Returns how many more requests may be served now.
pub type Free = Arc<dyn Fn() -> usize + Send + Sync>;

/// The kind of a waiting request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Queue {
    Batches,
    Requests,
}

/// All requests that wait for a lock.
#[derive(Default)]
pub(super) struct Queues(Mutex<State>);

#[derive(Default)]
struct State {
    /// The number of waiters for each lock, by [`Queue`]. Locks without waiters are not in it.
    lengths: HashMap<Key, [usize; 2]>,
    /// The number of all waiters.
    waiting: usize,
    /// The function that returns the free capacity; `None` if it is not limited.
    free: Option<Free>,
}

/// A place in a queue. Dropping it gives it back.
pub(super) struct QueueTicket<'a> {
    queues: &'a Queues,
    queue: Queue,
    key: &'a Key,
}

impl Queues {
    pub(super) fn leave_places(&self, free: Free) {
        self.state().free = Some(free);
    }

    /// Joins the queue for `key`, unless the limit for this lock or for all locks is reached. Every waiter is one of
    /// the requests that are being served, so there must not be more waiters than there is free capacity.
    pub(super) fn join<'a>(
        &'a self,
        queue: Queue,
        key: &'a Key,
    ) -> Result<QueueTicket<'a>, LockError> {
        let mut state = self.state();
        let free = state.free.as_ref();
        let room = free.is_none_or(|free| state.waiting < free().max(ALWAYS));
        let length = state
            .lengths
            .get(key)
            .map_or(0, |both| both[queue as usize]);
        if !room || length >= queue.longest() {
            return Err(LockError::Crowded);
        }
        state.lengths.entry(key.clone()).or_default()[queue as usize] += 1;
        state.waiting += 1;
        Ok(QueueTicket {
            queues: self,
            queue,
            key,
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Queue {
    fn longest(self) -> usize {
        match self {
            Self::Batches => BATCHES,
            Self::Requests => REQUESTS,
        }
    }
}

impl QueueTicket<'_> {
    /// True if this place is in the queue for `key`.
    pub(super) fn is_for(&self, key: &Key) -> bool {
        self.key == key
    }
}

impl Drop for QueueTicket<'_> {
    fn drop(&mut self) {
        let mut state = self.queues.state();
        state.waiting -= 1;
        if let Some(lengths) = state.lengths.get_mut(self.key) {
            lengths[self.queue as usize] -= 1;
            if *lengths == [0, 0] {
                state.lengths.remove(self.key);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that panics fails")]
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;
    use crate::batch::TableKey;
    use crate::protocol::data_scope::DataScope;
    use crate::protocol::identifier::Identifier;

    fn key(name: &str) -> Key {
        Key::Table(TableKey {
            scope: DataScope::default(),
            backend: "lake".into(),
            table: Identifier::from_names([name]).unwrap(),
        })
    }

    #[test]
    fn one_table_has_so_many_who_wait_for_it_and_leaves_the_others_theirs() {
        let queues = Queues::default();
        let (t, u) = (key("t"), key("u"));
        let fill = |queue| -> Vec<QueueTicket<'_>> {
            std::iter::from_fn(|| queues.join(queue, &t).ok()).collect()
        };
        let batches = fill(Queue::Batches);
        let requests = fill(Queue::Requests);
        assert_eq!((batches.len(), requests.len()), (64, 1024));
        drop(queues.join(Queue::Batches, &u).unwrap());
        drop(batches);
        drop(queues.join(Queue::Batches, &t).unwrap());
        drop(requests);
        assert!(queues.state().lengths.is_empty(), "nothing is left behind");
        assert_eq!(queues.state().waiting, 0);
    }

    #[test]
    fn those_who_wait_have_no_more_places_than_are_left() {
        let (queues, waiting) = (Queues::default(), Arc::new(AtomicUsize::new(0)));
        let counted = Arc::clone(&waiting);
        queues.leave_places(Arc::new(move || 100 - counted.load(Ordering::Relaxed)));
        let (t, u) = (key("t"), key("u"));
        let mut places = Vec::new();
        for turn in 0..100 {
            waiting.fetch_add(1, Ordering::Relaxed);
            match queues.join(Queue::Requests, [&t, &u][turn % 2]) {
                Ok(place) => places.push(place),
                Err(_) => _ = waiting.fetch_sub(1, Ordering::Relaxed),
            }
        }
        assert_eq!(places.len(), 50);
    }
}
