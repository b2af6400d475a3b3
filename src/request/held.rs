//! The memory of bodies that are held whole, of requests and of answers to them, and each caller's share of it.
//!
//! A body counts by the bytes that have arrived, so that one that is announced and never comes takes nothing. One that
//! arrived with its head, or is [`SHORT`], does not count: there are only as many as places of requests.

use std::hash::{BuildHasher as _, RandomState};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body::{Frame, SizeHint};

use super::caller::Caller;
use crate::body::Body;
use crate::error::BoxError;

/// The number of callers that are told apart, roughly. Two callers in one slot have one share; no caller can choose
/// which two.
const SLOTS: usize = 1 << 12;

/// The length up to which a body does not count, where it is known before the body is read.
pub const SHORT: u64 = 16 << 10;

/// The memory of all bodies that are held.
pub struct HeldBodies {
    all: AtomicUsize,
    /// The most that one caller may have of it, in percent.
    share: AtomicU32,
    taken: AtomicUsize,
    /// The bytes of each caller.
    slots: Box<[AtomicUsize]>,
    hasher: RandomState,
}

/// The memory of one body, which is given back when this is dropped.
pub struct HeldBody {
    among: Arc<HeldBodies>,
    slot: usize,
    bytes: AtomicUsize,
}

/// The reason why a body gets no more memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoRoom {
    /// All of the memory is taken.
    #[error("the bodies that are held take all of `limits.json_bodies`; retry later")]
    All,
    /// The caller has its share of it.
    #[error(
        "this caller has reached its share of `limits.json_bodies`, the memory of bodies that are held; retry when some of its requests have finished"
    )]
    Share,
}

/// A body whose bytes count as they arrive. It fails with [`NoRoom`].
pub struct CountedBody {
    body: Body,
    held: Arc<HeldBody>,
}

impl HeldBodies {
    /// Creates the memory: `all` bytes, of which one caller has at most `share` percent.
    pub fn new(all: usize, share: u32) -> Self {
        Self {
            all: AtomicUsize::new(all),
            share: AtomicU32::new(share),
            taken: AtomicUsize::new(0),
            slots: (0..SLOTS).map(|_| AtomicUsize::new(0)).collect(),
            hasher: RandomState::new(),
        }
    }

    /// Changes the size and the share; bodies that are held stay.
    pub fn set(&self, all: usize, share: u32) {
        self.all.store(all, Ordering::Relaxed);
        self.share.store(share, Ordering::Relaxed);
    }

    /// Begins to count a body of `caller`.
    pub fn hold(self: &Arc<Self>, caller: &Caller<'_>) -> HeldBody {
        HeldBody {
            slot: self.hasher.hash_one(caller) as usize % SLOTS,
            among: Arc::clone(self),
            bytes: AtomicUsize::new(0),
        }
    }
}

impl HeldBody {
    /// Takes memory for more bytes. A body that is the only one of its caller may exceed the share, and the only one of
    /// all may exceed all: `limits.json_body` bounds it.
    ///
    /// # Errors
    /// There is none left; nothing is taken then.
    pub fn grow(&self, bytes: usize) -> Result<(), NoRoom> {
        let among = &*self.among;
        let all = among.all.load(Ordering::Relaxed);
        let share = all / 100 * among.share.load(Ordering::Relaxed) as usize;
        let own = self.bytes.load(Ordering::Relaxed);
        let (before, after) = (counted(own), counted(own + bytes));
        for (of, most, full) in [
            (&among.slots[self.slot], share, NoRoom::Share),
            (&among.taken, all, NoRoom::All),
        ] {
            let taken = of.load(Ordering::Relaxed);
            if after > before && taken > before && taken.saturating_add(after - before) > most {
                return Err(full);
            }
        }
        among.slots[self.slot].fetch_add(after - before, Ordering::Relaxed);
        among.taken.fetch_add(after - before, Ordering::Relaxed);
        self.bytes.store(own + bytes, Ordering::Relaxed);
        Ok(())
    }
}

/// Returns the part of a body's bytes that counts: what is beyond [`SHORT`].
fn counted(bytes: usize) -> usize {
    bytes.saturating_sub(SHORT as usize)
}

impl Drop for HeldBody {
    fn drop(&mut self) {
        let bytes = counted(*self.bytes.get_mut());
        self.among.slots[self.slot].fetch_sub(bytes, Ordering::Relaxed);
        self.among.taken.fetch_sub(bytes, Ordering::Relaxed);
    }
}

impl CountedBody {
    /// Counts the bytes of `body` toward `held`.
    pub fn new(body: Body, held: Arc<HeldBody>) -> Self {
        Self { body, held }
    }
}

impl http_body::Body for CountedBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(cx));
        if let Some(Ok(frame)) = &frame
            && let Some(data) = frame.data_ref()
            && let Err(full) = self.held.grow(data.len())
        {
            return Poll::Ready(Some(Err(full.into())));
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test says what it expects")]
    use super::*;

    /// A body whose bytes that do not count have come.
    fn begun(all: &Arc<HeldBodies>, name: &str) -> HeldBody {
        let body = all.hold(&Caller::of_subject("i", name));
        body.grow(1).unwrap();
        body.grow(SHORT as usize - 1).unwrap();
        body
    }

    #[test]
    fn one_caller_leaves_memory_to_others_and_all_is_given_back() {
        let all = Arc::new(HeldBodies::new(1000, 75));
        let of = |name| begun(&all, name);
        let mut held: Vec<_> = (0..3).map(|_| of("one")).collect();
        for body in &held {
            body.grow(200).unwrap();
            body.grow(50).unwrap();
        }
        let more = of("one");
        assert_eq!(more.grow(1), Err(NoRoom::Share));
        let others = of("other");
        others.grow(250).unwrap();
        assert_eq!(of("other").grow(1), Err(NoRoom::All));
        held.pop();
        more.grow(250).unwrap();
        drop((held, more, others));
        assert_eq!(all.taken.load(Ordering::Relaxed), 0);
        assert!(
            all.slots
                .iter()
                .all(|slot| slot.load(Ordering::Relaxed) == 0)
        );
    }

    #[test]
    fn a_body_that_is_alone_may_be_as_long_as_a_body_may_be() {
        let all = Arc::new(HeldBodies::new(100, 75));
        let one = begun(&all, "one");
        one.grow(90).unwrap();
        one.grow(90).unwrap();
        let other = begun(&all, "other");
        assert_eq!(other.grow(1), Err(NoRoom::All));
    }
}
