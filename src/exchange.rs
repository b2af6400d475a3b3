//! What is known about one request and its answer while it goes through the stack, and who is told at its end.
//!
//! One record a request, made by the outermost layer and found by the others as the request extension
//! `Arc<Exchange>`. A fact is written once, by the part that learns it. The end comes exactly once: when the
//! response's body ended, or when nobody is left who could answer.

use std::sync::atomic::{AtomicBool, AtomicU16, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use http::{HeaderValue, Request, StatusCode};

use crate::body::{Body, End, Observer};
use crate::protocol::operation::Operation;

/// A request on its way.
pub struct Exchange {
    began: Instant,
    id: OnceLock<HeaderValue>,
    operation: OnceLock<Operation>,
    backend: OnceLock<Arc<str>>,
    subject: OnceLock<Arc<str>>,
    context: Mutex<Vec<(String, String)>>,
    /// 0 until there is a response.
    status: AtomicU16,
    upstream_nanos: AtomicU64,
    request_bytes: AtomicU64,
    response_bytes: AtomicU64,
    over: AtomicBool,
    watchers: [OnceLock<Arc<dyn Watcher>>; WATCHERS],
}

/// Wants to know when an exchange is over.
pub trait Watcher: Send + Sync {
    /// It is over. Called once for each exchange that was asked for.
    fn over(&self, exchange: &Exchange, how: End);
}

/// The layers that watch: metrics, trace, limits.
const WATCHERS: usize = 3;

impl Exchange {
    /// The exchange that a request belongs to; it begins where there is none yet.
    pub fn of<B>(request: &mut Request<B>) -> Arc<Self> {
        let begin = || Arc::new(Self::begin());
        Arc::clone(request.extensions_mut().get_or_insert_with(begin))
    }

    fn begin() -> Self {
        Self {
            began: Instant::now(),
            id: OnceLock::new(),
            operation: OnceLock::new(),
            backend: OnceLock::new(),
            subject: OnceLock::new(),
            context: Mutex::default(),
            status: AtomicU16::new(0),
            upstream_nanos: AtomicU64::new(0),
            request_bytes: AtomicU64::new(0),
            response_bytes: AtomicU64::new(0),
            over: AtomicBool::new(false),
            watchers: [const { OnceLock::new() }; WATCHERS],
        }
    }

    /// Tells `watcher` when it is over; at most three can be told.
    pub fn watch(&self, mut watcher: Arc<dyn Watcher>) {
        for place in &self.watchers {
            match place.set(watcher) {
                Ok(()) => return,
                Err(back) => watcher = back,
            }
        }
        debug_assert!(false, "more watchers than places");
    }

    /// Counts the request's body as it is read.
    #[must_use]
    pub fn observe_request(self: &Arc<Self>, body: Body) -> Body {
        if http_body::Body::is_end_stream(&body) {
            return body;
        }
        body.observe(Box::new(Asked(Arc::clone(self))))
    }

    /// Counts the response's body as it is sent; its end is the exchange's.
    #[must_use]
    pub fn observe_response(self: &Arc<Self>, body: Body) -> Body {
        body.observe(Box::new(Answered(Arc::clone(self))))
    }

    /// The request's id was chosen.
    pub fn identified(&self, id: HeaderValue) {
        let _ = self.id.set(id);
    }

    /// It was recognized.
    pub fn recognized(&self, operation: Operation) {
        let _ = self.operation.set(operation);
    }

    /// This backend has the last word on it.
    pub fn served_by(&self, backend: &Arc<str>) {
        let _ = self.backend.set(Arc::clone(backend));
    }

    /// Catalogs were waited for; adds up.
    pub fn waited(&self, upstream: Duration) {
        let nanos = u64::try_from(upstream.as_nanos()).unwrap_or(u64::MAX);
        self.upstream_nanos.fetch_add(nanos, Ordering::Relaxed);
    }

    /// Its caller is known.
    pub fn authenticated(&self, subject: &Arc<str>) {
        let _ = self.subject.set(Arc::clone(subject));
    }

    /// Entries of its context that the access log shows; those of the body come later than the others.
    pub fn described(&self, entries: impl IntoIterator<Item = (String, String)>) {
        self.entries().extend(entries);
    }

    /// It is answered with this status.
    pub fn answered(&self, status: StatusCode) {
        self.status.store(status.as_u16(), Ordering::Relaxed);
    }

    /// The request's id.
    pub fn id(&self) -> Option<&HeaderValue> {
        self.id.get()
    }

    /// What was asked.
    pub fn operation(&self) -> Option<Operation> {
        self.operation.get().copied()
    }

    /// Which backend served it; `None`: the gateway alone.
    pub fn backend(&self) -> Option<&Arc<str>> {
        self.backend.get()
    }

    /// Who asked.
    pub fn subject(&self) -> Option<&Arc<str>> {
        self.subject.get()
    }

    /// The entries of its context to show.
    pub fn context(&self) -> Vec<(String, String)> {
        self.entries().clone()
    }

    fn entries(&self) -> MutexGuard<'_, Vec<(String, String)>> {
        self.context.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The response's status; `None` if there was none.
    pub fn status(&self) -> Option<StatusCode> {
        StatusCode::from_u16(self.status.load(Ordering::Relaxed)).ok()
    }

    /// Since its headers came in.
    pub fn age(&self) -> Duration {
        self.began.elapsed()
    }

    /// How long catalogs were waited for.
    pub fn upstream(&self) -> Duration {
        Duration::from_nanos(self.upstream_nanos.load(Ordering::Relaxed))
    }

    /// Bytes of the request's body that were read.
    pub fn request_bytes(&self) -> u64 {
        self.request_bytes.load(Ordering::Relaxed)
    }

    /// Bytes of the response's body that were sent.
    pub fn response_bytes(&self) -> u64 {
        self.response_bytes.load(Ordering::Relaxed)
    }

    fn end(&self, how: End) {
        if self.over.swap(true, Ordering::Relaxed) {
            return;
        }
        for watcher in self.watchers.iter().filter_map(OnceLock::get) {
            watcher.over(self, how);
        }
    }
}

impl Drop for Exchange {
    fn drop(&mut self) {
        self.end(End::Aborted);
    }
}

struct Asked(Arc<Exchange>);

impl Observer for Asked {
    fn data(&mut self, length: usize) {
        add(&self.0.request_bytes, length);
    }

    fn end(&mut self, _: End) {}
}

struct Answered(Arc<Exchange>);

impl Observer for Answered {
    fn data(&mut self, length: usize) {
        add(&self.0.response_bytes, length);
    }

    fn end(&mut self, how: End) {
        self.0.end(how);
    }
}

fn add(counter: &AtomicU64, length: usize) {
    counter.fetch_add(length as u64, Ordering::Relaxed);
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test says what it expects")]

    use super::*;

    #[derive(Default)]
    struct Log(Mutex<Vec<(u64, u64, End)>>);

    impl Watcher for Log {
        fn over(&self, exchange: &Exchange, how: End) {
            let seen = (exchange.request_bytes(), exchange.response_bytes(), how);
            self.0.lock().unwrap().push(seen);
        }
    }

    #[tokio::test]
    async fn every_watcher_is_told_of_the_end_once() {
        let log = Arc::new(Log::default());
        let exchange = Arc::new(Exchange::begin());
        exchange.watch(log.clone());
        exchange.watch(log.clone());
        let asked = exchange.observe_request(Body::full("abc"));
        asked.collect_up_to(9).await.unwrap();
        let answer = exchange.observe_response(Body::full("defgh"));
        answer.collect_up_to(9).await.unwrap();
        assert_eq!(*log.0.lock().unwrap(), [(3, 5, End::Complete); 2]);
        drop(exchange);
        assert_eq!(log.0.lock().unwrap().len(), 2);
    }

    #[test]
    fn a_request_that_nobody_answers_is_over_when_it_is_dropped() {
        let log = Arc::new(Log::default());
        let exchange = Arc::new(Exchange::begin());
        exchange.watch(log.clone());
        let body = exchange.observe_request(Body::full("abc"));
        drop(exchange);
        assert!(
            log.0.lock().unwrap().is_empty(),
            "its body could still be read"
        );
        drop(body);
        assert_eq!(*log.0.lock().unwrap(), [(0, 0, End::Aborted)]);
    }
}
