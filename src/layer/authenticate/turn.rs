//! Whoever had to be checked goes on behind those who are ready.
//!
//! To check a signature takes longer than all the rest of a request. If each request went on as soon as it was checked,
//! the catalogs and the clients on this machine would have done what they were sent, and would sleep, before the next
//! one is sent to them, and to wake a sleeper costs more than to send. Behind what is ready, all checks of one round
//! are made first, and what they let in is sent one after the other.

use std::pin::Pin;
use std::task::{Context, Poll};

use pin_project_lite::pin_project;

pin_project! {
    /// The answer to a request, which waits for its turn where its caller had to be checked.
    pub struct YieldOnce<F> {
        waits: bool,
        #[pin]
        inner: F,
    }
}

impl<F> YieldOnce<F> {
    /// Goes on with `inner`, either now or in its turn.
    pub(super) fn new(checked: bool, inner: F) -> Self {
        Self {
            waits: checked,
            inner,
        }
    }
}

impl<F: Future> Future for YieldOnce<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let this = self.project();
        if std::mem::take(this.waits) {
            // A task that is woken while it runs comes behind those that were woken before.
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        this.inner.poll(cx)
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::rc::Rc;

    use tokio::task::LocalSet;

    use super::*;

    #[tokio::test]
    async fn all_are_checked_before_one_of_them_goes_on() {
        let order = async |checked: bool| {
            let (seen, tasks) = (Rc::new(RefCell::new(Vec::new())), LocalSet::new());
            for request in 0..3 {
                let seen = Rc::clone(&seen);
                tasks.spawn_local(async move {
                    seen.borrow_mut().push((request, "checked"));
                    let go_on = async { seen.borrow_mut().push((request, "on")) };
                    YieldOnce::new(checked, go_on).await;
                });
            }
            tasks.await;
            seen.take()
        };
        let (checked, on) = (|n| (n, "checked"), |n| (n, "on"));
        let expected = [checked(0), checked(1), checked(2), on(0), on(1), on(2)];
        assert_eq!(order(true).await, expected);
        let expected = [checked(0), on(0), checked(1), on(1), checked(2), on(2)];
        assert_eq!(order(false).await, expected);
    }
}
