//! Yields once after a signature check, so that requests with cached tokens run first.
//!
//! The check of a signature takes longer than all the rest of a request. If each request went on as soon as it was
//! checked, the catalogs and the clients on this machine would have done their work, and would sleep, before the next
//! request is sent to them. Waking a sleeper costs more than sending. Behind the requests that are ready, all checks of
//! one round are made first, and the requests that pass are sent one after the other. A request with a new token costs
//! 38.5 µs of processor time instead of 49.7 (`fresh` of `benches/gateways`).

use std::pin::Pin;
use std::task::{Context, Poll};

use pin_project_lite::pin_project;

pin_project! {
    /// The future of a response. It yields once if the caller's token had to be verified.
    pub struct YieldOnce<F> {
        waits: bool,
        #[pin]
        inner: F,
    }
}

impl<F> YieldOnce<F> {
    /// Continues with `inner`, after one yield if `checked`.
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
            // A task that is woken while it runs is queued behind those that were woken before.
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
