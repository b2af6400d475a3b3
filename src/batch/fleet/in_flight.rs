//! The requests that are served at the moment, so that a guard waits for those that began before it.
//!
//! Requests are counted in buckets by table. Each bucket has two counters: a drain makes new requests count in the other
//! one, and waits for the first to become empty (as sleepable RCU does). A request that takes longer than the drain waits
//! is doomed: when its answer comes, it is not shown.
//!
//! An answer that streams is not waited for, however slow its client is. It gives its place up when its head is there,
//! and is noted by the hash of its table. A drain of that table ends it: what arrives later may show part of a batch.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex as Lock, PoisonError};
use std::time::Duration;

use tokio::sync::Mutex;
use tokio::time::{Instant, sleep};

/// The number of buckets. Two tables that share one only wait for each other.
const BUCKETS: usize = 4096;
/// The interval at which a drain looks whether the requests are over.
const LOOK_EVERY: Duration = Duration::from_micros(500);
/// The longest time that a drain waits before it dooms the requests that are left.
const GRACE: Duration = Duration::from_millis(200);

/// The counters of all buckets.
#[derive(Clone)]
pub(super) struct InFlight(Arc<[Bucket]>);

#[derive(Default)]
struct Bucket {
    /// The counter in which new requests count.
    phase: AtomicU32,
    counts: [AtomicU32; 2],
    /// The number of drains that did not wait any longer, for each counter.
    dooms: [AtomicU32; 2],
    /// One drain at a time.
    drains: Mutex<()>,
    /// The answers that stream.
    streams: Lock<Vec<Arc<Streaming>>>,
}

/// An answer that streams.
struct Streaming {
    hash: u64,
    is_ended: AtomicBool,
}

/// The note of an answer that streams, until it is dropped.
pub(super) struct StreamNote {
    buckets: Arc<[Bucket]>,
    bucket: usize,
    streaming: Arc<Streaming>,
}

/// The place of a request in its bucket, until it is dropped.
pub(super) struct Place {
    buckets: Arc<[Bucket]>,
    bucket: usize,
    phase: usize,
    dooms: u32,
    hash: u64,
}

impl Default for InFlight {
    fn default() -> Self {
        Self((0..BUCKETS).map(|_| Bucket::default()).collect())
    }
}

impl InFlight {
    /// Counts a request for the table with this hash. The caller looks for guards after this, never before.
    pub(super) fn enter(&self, hash: u64) -> Place {
        let bucket = place(hash);
        let counters = &self.0[bucket];
        loop {
            let phase = counters.phase.load(Ordering::SeqCst);
            let count = &counters.counts[index(phase)];
            count.fetch_add(1, Ordering::SeqCst);
            // A drain that turned the phase meanwhile may have looked before this was counted.
            if counters.phase.load(Ordering::SeqCst) == phase {
                return Place {
                    buckets: Arc::clone(&self.0),
                    bucket,
                    phase: index(phase),
                    dooms: counters.dooms[index(phase)].load(Ordering::SeqCst),
                    hash,
                };
            }
            count.fetch_sub(1, Ordering::SeqCst);
        }
    }

    /// Waits until the requests that have entered before are over, or dooms them.
    pub(super) async fn drain(&self, hash: u64) {
        let bucket = &self.0[place(hash)];
        let _alone = bucket.drains.lock().await;
        let before = bucket.phase.fetch_xor(1, Ordering::SeqCst);
        let count = &bucket.counts[index(before)];
        let began = Instant::now();
        while count.load(Ordering::SeqCst) > 0 {
            if began.elapsed() >= GRACE {
                bucket.dooms[index(before)].fetch_add(1, Ordering::SeqCst);
                break;
            }
            sleep(LOOK_EVERY).await;
        }
        // Last: a request that was waited for may have begun to stream meanwhile.
        bucket.end_streams(|streaming| streaming.hash == hash);
    }

    /// Dooms every request.
    pub(super) fn doom_all(&self) {
        for bucket in &*self.0 {
            for dooms in &bucket.dooms {
                dooms.fetch_add(1, Ordering::SeqCst);
            }
            bucket.end_streams(|_| true);
        }
    }
}

impl Bucket {
    fn streams(&self) -> std::sync::MutexGuard<'_, Vec<Arc<Streaming>>> {
        self.streams.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn end_streams(&self, which: impl Fn(&Streaming) -> bool) {
        for streaming in self.streams().iter().filter(|streaming| which(streaming)) {
            streaming.is_ended.store(true, Ordering::SeqCst);
        }
    }
}

impl Place {
    /// True if a drain has given this request up.
    pub(super) fn is_doomed(&self) -> bool {
        self.buckets[self.bucket].dooms[self.phase].load(Ordering::SeqCst) != self.dooms
    }
}

impl Place {
    /// Notes that the answer of this request streams from now on. Check [`is_doomed`](Self::is_doomed) afterwards, and
    /// only then drop the place: a drain either waits for it, or ends the stream.
    pub(super) fn stream(&self) -> StreamNote {
        let streaming = Arc::new(Streaming {
            hash: self.hash,
            is_ended: AtomicBool::new(false),
        });
        let bucket = &self.buckets[self.bucket];
        bucket.streams().push(Arc::clone(&streaming));
        StreamNote {
            buckets: Arc::clone(&self.buckets),
            bucket: self.bucket,
            streaming,
        }
    }
}

impl StreamNote {
    /// True if what arrives from now on must not be shown.
    pub(super) fn is_ended(&self) -> bool {
        self.streaming.is_ended.load(Ordering::SeqCst)
    }
}

impl Drop for StreamNote {
    fn drop(&mut self) {
        let mut streams = self.buckets[self.bucket].streams();
        streams.retain(|streaming| !Arc::ptr_eq(streaming, &self.streaming));
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.buckets[self.bucket].counts[self.phase].fetch_sub(1, Ordering::SeqCst);
    }
}

fn place(hash: u64) -> usize {
    // The remainder is below the number of buckets.
    (hash % BUCKETS as u64) as usize
}

fn index(phase: u32) -> usize {
    (phase & 1) as usize
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_drain_waits_for_earlier_requests_and_not_for_later_ones() {
        let requests = InFlight::default();
        let earlier = requests.enter(7);
        let draining = tokio::spawn({
            let requests = requests.clone();
            async move { requests.drain(7).await }
        });
        tokio::task::yield_now().await;
        let later = requests.enter(7);
        assert!(!draining.is_finished());
        assert!(!earlier.is_doomed());
        drop(earlier);
        draining.await.expect("the drain ends");
        assert!(!later.is_doomed(), "it began after the guard");
    }

    #[tokio::test]
    async fn a_request_that_takes_too_long_is_doomed_and_another_bucket_is_not() {
        let requests = InFlight::default();
        let (slow, other) = (requests.enter(7), requests.enter(8));
        let mut draining = Box::pin(requests.drain(7));
        assert!((&mut draining).now_or_never().is_none());
        let later = requests.enter(7);
        draining.await;
        assert!(slow.is_doomed());
        assert!(!later.is_doomed());
        assert!(!other.is_doomed());
        let next = requests.enter(7);
        assert!(!next.is_doomed());
    }

    #[tokio::test(start_paused = true)]
    async fn a_drain_ends_the_streams_of_its_table_and_waits_for_none() {
        let requests = InFlight::default();
        let other_of_bucket = 7 + BUCKETS as u64;
        let [of_table, of_other] = [7, other_of_bucket].map(|hash| requests.enter(hash).stream());
        requests.drain(7).now_or_never().expect("it does not wait");
        assert!(of_table.is_ended() && !of_other.is_ended());
        let place = requests.enter(7);
        let mut draining = Box::pin(requests.drain(7));
        assert!((&mut draining).now_or_never().is_none());
        // The head of its answer comes while a drain waits for it.
        let late = place.stream();
        assert!(!place.is_doomed());
        drop(place);
        draining.await;
        assert!(late.is_ended());
        requests.doom_all();
        assert!(of_other.is_ended());
        drop((of_table, of_other, late));
        assert!(requests.0[7].streams().is_empty(), "nothing is left");
    }

    #[tokio::test]
    async fn an_expiry_dooms_everything() {
        let requests = InFlight::default();
        let (one, other) = (requests.enter(1), requests.enter(2));
        requests.doom_all();
        assert!(one.is_doomed() && other.is_doomed());
        assert!(!requests.enter(1).is_doomed());
    }
}
