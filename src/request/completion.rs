//! Counts the bytes of a request's bodies, and tells the observers of its end.
//!
//! The end comes exactly once: when the response's body has ended, or when the record is dropped because no response can
//! come any more.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::RequestRecord;
use crate::body::{Body, End, Meter, Side};

/// Observes the ends of requests.
pub trait CompletionObserver: Send + Sync {
    /// Notes that a request is over. Called once for each.
    fn over(&self, exchange: &RequestRecord, how: End);
}

/// The observers of every request. All requests share them, so that none is registered for each.
#[derive(Clone, Default)]
pub struct CompletionObservers(Arc<[Arc<dyn CompletionObserver>]>);

impl RequestRecord {
    /// Counts the request's body as it is read.
    pub fn observe_request(self: &Arc<Self>, body: &mut Body) {
        if !http_body::Body::is_end_stream(body) {
            body.meter(Side::Request, Arc::clone(self) as Arc<dyn Meter>);
        }
    }

    /// Counts the response's body as it is sent; its end is the end of the request.
    pub fn observe_response(self: Arc<Self>, body: &mut Body) {
        body.meter(Side::Response, self);
    }

    /// The number of bytes of the request's body that were read.
    pub fn request_bytes(&self) -> u64 {
        self.request_bytes.load(Ordering::Relaxed)
    }

    /// The number of bytes of the response's body that were sent.
    pub fn response_bytes(&self) -> u64 {
        self.response_bytes.load(Ordering::Relaxed)
    }

    fn finish(&self, how: End) {
        // Two calls never come at once: a response's body ends once, and no reference is left when the record is
        // dropped.
        if self.over.load(Ordering::Relaxed) {
            return;
        }
        self.over.store(true, Ordering::Relaxed);
        for watcher in &*self.watchers.0 {
            watcher.over(self, how);
        }
    }
}

impl Drop for RequestRecord {
    fn drop(&mut self) {
        self.finish(End::Aborted);
    }
}

impl Meter for RequestRecord {
    fn data(&self, side: Side, length: usize) {
        let counter = match side {
            Side::Request => &self.request_bytes,
            Side::Response => &self.response_bytes,
        };
        // A body has one reader, so no count is lost between the two, and no lock is needed.
        let before = counter.load(Ordering::Relaxed);
        counter.store(before + length as u64, Ordering::Relaxed);
    }

    fn end(&self, side: Side, how: End) {
        match side {
            Side::Request => {}
            Side::Response => self.finish(how),
        }
    }
}

impl FromIterator<Arc<dyn CompletionObserver>> for CompletionObservers {
    fn from_iter<W: IntoIterator<Item = Arc<dyn CompletionObserver>>>(watchers: W) -> Self {
        Self(watchers.into_iter().collect())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test says what it expects")]

    use std::sync::Mutex;

    use super::*;

    #[derive(Default)]
    struct Log(Mutex<Vec<(u64, u64, End)>>);

    impl CompletionObserver for Log {
        fn over(&self, exchange: &RequestRecord, how: End) {
            let seen = (exchange.request_bytes(), exchange.response_bytes(), how);
            self.0.lock().unwrap().push(seen);
        }
    }

    #[tokio::test]
    async fn every_watcher_is_told_of_the_end_once() {
        let log = Arc::new(Log::default());
        let both = [log.clone() as Arc<dyn CompletionObserver>, log.clone()];
        let exchange = RequestRecord::begin(None, both.into_iter().collect());
        let mut asked = Body::full("abc");
        exchange.observe_request(&mut asked);
        asked.collect_up_to(9).await.unwrap();
        let mut answer = Body::full("defgh");
        Arc::clone(&exchange).observe_response(&mut answer);
        answer.collect_up_to(9).await.unwrap();
        assert_eq!(*log.0.lock().unwrap(), [(3, 5, End::Complete); 2]);
        drop(exchange);
        assert_eq!(log.0.lock().unwrap().len(), 2);
    }

    #[test]
    fn a_request_that_nobody_answers_is_over_when_it_is_dropped() {
        let log = Arc::new(Log::default());
        let watchers = [log.clone() as Arc<dyn CompletionObserver>]
            .into_iter()
            .collect();
        let exchange = RequestRecord::begin(None, watchers);
        let mut body = Body::full("abc");
        exchange.observe_request(&mut body);
        drop(exchange);
        assert!(
            log.0.lock().unwrap().is_empty(),
            "its body could still be read"
        );
        drop(body);
        assert_eq!(*log.0.lock().unwrap(), [(0, 0, End::Aborted)]);
    }
}
