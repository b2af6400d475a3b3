//! Checks the lease: whether a gateway may still serve what batches can change without a new heartbeat. Its length is
//! `batch.lease`.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::Instant;

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
}

impl Lease {
    pub(super) fn new(length: Duration) -> Self {
        Self {
            began: Instant::now(),
            length,
            end: AtomicU64::new(0),
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
    }

    /// Ends the lease at once.
    pub(super) fn end(&self) {
        self.end.store(0, Ordering::SeqCst);
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
