//! The time limit for a catalog's answers: one timer for all requests of a connection.
//!
//! A timer for each request is expensive: it is inserted into a list that threads share and removed again, and nearly
//! none ever fires. So a connection keeps one timer. It was set for an earlier request, fires too early for the
//! present one, and is then set for that: once in a time limit rather than for each request.

use std::pin::Pin;
use std::task::{Context, Waker};

use tokio::time::{Instant, Sleep, sleep_until};

/// The timer of one connection.
#[derive(Default)]
pub(in crate::backend) struct DeadlineTimer(Option<Pin<Box<Sleep>>>);

impl DeadlineTimer {
    /// True if `deadline` has passed. If not, `waker` is called when it passes, or before.
    ///
    /// The waker must be the same every time, because it is not replaced while the timer is set.
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
        // For the next request the timer fires too early, and is set again.
        assert!(!patience.is_over(at(14), &waker));
        sleep(Duration::from_secs(7)).await;
        assert_eq!(woken.0.swap(0, Ordering::Relaxed), 1);
        assert!(!patience.is_over(at(14), &waker));
        sleep(Duration::from_secs(4)).await;
        assert_eq!(woken.0.swap(0, Ordering::Relaxed), 1);
        assert!(patience.is_over(at(14), &waker));
        // These are a request with less time, and one after a pause.
        assert!(!patience.is_over(at(30), &waker));
        assert!(!patience.is_over(at(20), &waker));
        sleep(Duration::from_secs(6)).await;
        assert_eq!(woken.0.swap(0, Ordering::Relaxed), 1);
        assert!(patience.is_over(at(20), &waker));
        sleep(Duration::from_secs(60)).await;
        assert!(!patience.is_over(at(200), &waker));
    }
}
