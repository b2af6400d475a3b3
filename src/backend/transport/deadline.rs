//! How long an answer is waited for.
//!
//! A timer for each request costs more than it looks like: it is put into a list that threads share and taken out
//! again, and nearly none ever goes off. A connection keeps one instead. It is set for a request that was sent a while
//! ago, goes off too early for the present one, and is then set for that: once in a time limit rather than for each
//! request.

use std::pin::Pin;
use std::task::{Context, Waker};

use tokio::time::{Instant, Sleep, sleep_until};

/// The timer of one connection.
#[derive(Default)]
pub(in crate::backend) struct DeadlineTimer(Option<Pin<Box<Sleep>>>);

impl DeadlineTimer {
    /// Whether `deadline` is over; if not, `waker` is called when it is, or before.
    ///
    /// The same waker every time: who called it is not looked at as long as the timer is set.
    pub(in crate::backend) fn is_over(&mut self, deadline: Instant, waker: &Waker) -> bool {
        let timer = match &mut self.0 {
            Some(timer) if timer.is_elapsed() => {
                if timer.deadline() >= deadline {
                    return true;
                }
                timer.as_mut().reset(deadline);
                timer
            }
            Some(timer) if timer.deadline() > deadline => {
                timer.as_mut().reset(deadline);
                timer
            }
            Some(_) => return false,
            none => none.insert(Box::pin(sleep_until(deadline))),
        };
        timer
            .as_mut()
            .poll(&mut Context::from_waker(waker))
            .is_ready()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::Wake;
    use std::time::Duration;

    use tokio::time::sleep;

    use super::*;

    #[derive(Default)]
    struct Woken(AtomicUsize);

    impl Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn every_deadline_is_met_by_the_one_timer() {
        let woken = Arc::new(Woken::default());
        let waker = Waker::from(Arc::clone(&woken));
        let begin = Instant::now();
        let at = |seconds| begin + Duration::from_secs(seconds);
        let mut patience = DeadlineTimer::default();
        assert!(!patience.is_over(at(10), &waker));
        sleep(Duration::from_secs(4)).await;
        // The next request: the timer goes off too early for it, and is set for it.
        assert!(!patience.is_over(at(14), &waker));
        sleep(Duration::from_secs(7)).await;
        assert_eq!(woken.0.swap(0, Ordering::Relaxed), 1);
        assert!(!patience.is_over(at(14), &waker));
        sleep(Duration::from_secs(4)).await;
        assert_eq!(woken.0.swap(0, Ordering::Relaxed), 1);
        assert!(patience.is_over(at(14), &waker));
        // One with less time, and one after a pause.
        assert!(!patience.is_over(at(30), &waker));
        assert!(!patience.is_over(at(20), &waker));
        sleep(Duration::from_secs(6)).await;
        assert_eq!(woken.0.swap(0, Ordering::Relaxed), 1);
        assert!(patience.is_over(at(20), &waker));
        sleep(Duration::from_secs(60)).await;
        assert!(!patience.is_over(at(200), &waker));
    }
}
