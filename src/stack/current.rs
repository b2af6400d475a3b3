//! Sends each request to the stack of the active configuration; it stays in the one that was active when it came.

use std::sync::Arc;
use std::task::{Context, Poll};

use arc_swap::{ArcSwap, Cache};
use tower::Service;

/// A service that can be replaced while it serves. Each connection has its own clone: the check for a replacement
/// costs a request one load, and nothing that connections share is written.
///
/// A connection drops the old service at its next request, or when it ends.
pub struct Current<S> {
    latest: Cache<Arc<ArcSwap<S>>, Arc<S>>,
    /// The service that `own` is a clone of.
    seen: Arc<S>,
    own: S,
}

impl<S: Clone> Current<S> {
    /// Creates a service that passes each request to the value of `latest` at that time.
    pub fn of(latest: Arc<ArcSwap<S>>) -> Self {
        let seen = latest.load_full();
        Self {
            latest: Cache::new(latest),
            own: S::clone(&seen),
            seen,
        }
    }

    fn follow(&mut self) -> &mut S {
        let latest = self.latest.load();
        if !Arc::ptr_eq(latest, &self.seen) {
            self.seen = Arc::clone(latest);
            self.own = S::clone(&self.seen);
        }
        &mut self.own
    }
}

impl<S: Clone> Clone for Current<S> {
    fn clone(&self) -> Self {
        Self {
            latest: self.latest.clone(),
            seen: Arc::clone(&self.seen),
            own: self.own.clone(),
        }
    }
}

impl<R, S: Service<R> + Clone> Service<R> for Current<S> {
    type Response = S::Response;
    type Error = S::Error;
    type Future = S::Future;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.follow().poll_ready(cx)
    }

    fn call(&mut self, request: R) -> S::Future {
        self.follow().call(request)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test says what it expects")]
    use std::convert::Infallible;
    use std::future::{Ready, ready};

    use futures_util::FutureExt as _;

    use super::*;

    #[derive(Clone)]
    struct Says(Arc<str>);

    impl Service<()> for Says {
        type Response = Arc<str>;
        type Error = Infallible;
        type Future = Ready<Result<Arc<str>, Infallible>>;

        fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
            Poll::Ready(Ok(()))
        }

        fn call(&mut self, (): ()) -> Self::Future {
            ready(Ok(Arc::clone(&self.0)))
        }
    }

    #[test]
    fn every_clone_follows_and_the_old_one_is_let_go() {
        let first: Arc<str> = "first".into();
        let latest = Arc::new(ArcSwap::from_pointee(Says(Arc::clone(&first))));
        let mut connections = vec![Current::of(Arc::clone(&latest))];
        connections.push(connections[0].clone());
        let ask = |of: &mut Current<Says>| of.call(()).now_or_never().unwrap().unwrap();
        for connection in &mut connections {
            assert_eq!(&*ask(connection), "first");
        }
        latest.store(Arc::new(Says("second".into())));
        for connection in &mut connections {
            assert_eq!(&*ask(connection), "second");
        }
        connections.push(Current::of(latest));
        assert_eq!(&*ask(&mut connections[2]), "second");
        assert_eq!(Arc::strong_count(&first), 1);
    }
}
