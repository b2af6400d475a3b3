//! Checks the lease: whether a gateway may still serve what batches can change without a new heartbeat. Its length is
//! `batch.lease`.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, timeout};

/// The interval at which those who wait for a lease look again.
pub(super) const LOOK_EVERY: Duration = Duration::from_millis(20);

/// The part of a lease before its end in which the owner of the log sends nothing more, so that a request that it has
/// begun to send leaves within the lease. It is also the time in which a busy machine must let the process disarm the timer
/// that would end it (`deadline.rs`).
const SPARE: u32 = 5;

/// The lease of one gateway.
pub(in crate::batch) struct Lease {
    began: Instant,
    length: Duration,
    /// The end in nanoseconds after `began`; 0 while there is none.
    end: AtomicU64,
    /// Told when the end is another one.
    moved: Notify,
}

impl Lease {
    pub(super) fn new(length: Duration) -> Self {
        Self {
            began: Instant::now(),
            length,
            end: AtomicU64::new(0),
            moved: Notify::new(),
        }
    }

    /// The time for which a heartbeat counts.
    pub(in crate::batch) fn length(&self) -> Duration {
        self.length
    }

    /// Renews the lease after a heartbeat was acknowledged that was sent at `asked`, or later.
    pub(in crate::batch) fn renew(&self, asked: Instant) {
        let end = asked.saturating_duration_since(self.began) + self.length;
        let end = u64::try_from(end.as_nanos()).unwrap_or(u64::MAX);
        self.end.fetch_max(end, Ordering::SeqCst);
        self.moved.notify_waiters();
    }

    /// Ends the lease at once.
    pub(super) fn end(&self) {
        self.end.store(0, Ordering::SeqCst);
        self.moved.notify_waiters();
    }

    /// True while the lease lasts.
    pub(super) fn is_valid(&self) -> bool {
        let end = self.end.load(Ordering::SeqCst);
        self.began.elapsed() < Duration::from_nanos(end)
    }

    /// True while a request of a batch may be sent: the lease lasts for some time yet.
    pub(in crate::batch) fn may_send(&self) -> bool {
        self.left() > self.length / SPARE
    }

    /// Calls `with` with the time that is left, now and whenever the lease is renewed, and with zero as soon as no request
    /// of a batch may be sent. Never returns.
    pub(in crate::batch) async fn follow(&self, mut with: impl FnMut(Duration)) {
        loop {
            let moved = self.moved.notified();
            let left = self.left();
            let sends_for = left.saturating_sub(self.length / SPARE);
            if sends_for.is_zero() {
                with(Duration::ZERO);
                moved.await;
            } else {
                with(left);
                // Both ends of the wait need another look.
                let _ = timeout(sends_for, moved).await;
            }
        }
    }

    /// Returns at the next renewal or end of the lease.
    pub(super) fn renewed(&self) -> impl Future<Output = ()> + '_ {
        self.moved.notified()
    }

    /// The time that is left; zero if it is over.
    pub(in crate::batch) fn left(&self) -> Duration {
        let end = Duration::from_nanos(self.end.load(Ordering::SeqCst));
        end.saturating_sub(self.began.elapsed())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_counts_from_before_its_heartbeat() {
        let lease = Lease::new(Duration::from_secs(5));
        assert!(
            !lease.is_valid(),
            "nobody has one before the first heartbeat"
        );
        let asked = Instant::now();
        lease.renew(asked);
        assert!(lease.is_valid());
        assert!(lease.left() <= Duration::from_secs(5));
        let late = Lease::new(Duration::ZERO);
        late.renew(Instant::now());
        assert!(!late.is_valid());
    }

    #[tokio::test(start_paused = true)]
    async fn it_is_followed_until_nothing_may_be_sent_and_again_from_its_renewal() {
        let seconds = Duration::from_secs;
        let lease = Lease::new(seconds(5));
        let told = std::cell::RefCell::new(Vec::new());
        let began = Instant::now();
        let follow = lease.follow(|left| told.borrow_mut().push((began.elapsed(), left)));
        let beats = async {
            tokio::time::sleep(seconds(1)).await;
            lease.renew(Instant::now());
            tokio::time::sleep(seconds(2)).await;
            lease.renew(Instant::now());
            tokio::time::sleep(seconds(9)).await;
            lease.renew(Instant::now());
            tokio::time::sleep(seconds(1)).await;
            lease.end();
            tokio::time::sleep(seconds(60)).await;
        };
        tokio::select! {
            () = follow => {}
            () = beats => {}
        }
        let whole = |(at, left): &(Duration, Duration)| (at.as_secs(), left.as_secs());
        let told: Vec<_> = told.borrow().iter().map(whole).collect();
        assert_eq!(told, [(0, 0), (1, 5), (3, 5), (7, 0), (12, 5), (13, 0)]);
    }

    #[test]
    fn an_older_heartbeat_does_not_shorten_it_and_an_expiry_ends_it() {
        let lease = Lease::new(Duration::from_secs(5));
        let asked = Instant::now();
        lease.renew(asked + Duration::from_secs(60));
        let left = lease.left();
        lease.renew(asked);
        assert!(lease.left() + Duration::from_secs(1) > left);
        lease.end();
        assert!(!lease.is_valid());
        assert_eq!(lease.left(), Duration::ZERO);
    }
}
