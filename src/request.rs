//! What is known about one request and its answer while it goes through the stack, and who is told at its end.
//!
//! One record a request, made by the outermost layer and found by the others in [`crate::request::context::RequestContext`]. A fact is
//! written once, by the part that learns it. The end comes exactly once: when the response's body ended, or when nobody
//! is left who could answer.

pub mod caller;
pub mod context;
mod head;
pub mod origin;
pub mod peer;
pub mod places;
pub mod span;
mod waits;

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU16, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use http::{Request, StatusCode};

use crate::body::{Body, End, Meter, Side};
use crate::error::code::Code;
use crate::metrics;
use crate::protocol::identifier::Identifier;
use crate::protocol::operation::Operation;
use crate::protocol::principal::Principal;
use crate::request::context::RequestContext;
pub use head::RequestHead;
use waits::WaitClock;

/// Of a context entry so many bytes are shown.
const MAX_SHOWN: usize = 256;

/// A request on its way.
pub struct RequestRecord {
    began: Instant,
    /// `None` only where no layer has read one.
    head: Option<RequestHead>,
    watchers: CompletionObservers,
    /// As a byte; 0 until it is known.
    operation: AtomicU8,
    /// It has one of the places among those that are served.
    served: AtomicBool,
    /// Where its caller's share of them is counted, counted from 1; 0: nowhere.
    share: AtomicU16,
    mount: OnceLock<Identifier>,
    backend: OnceLock<Arc<metrics::Backend>>,
    caller: OnceLock<Principal>,
    context: Mutex<Vec<(String, String)>>,
    /// Why the gateway itself refused or failed: the contract's code, and a word for the log.
    failure: OnceLock<(Code, Option<&'static str>)>,
    /// 0 until there is a response.
    status: AtomicU16,
    /// When there was one.
    answered: OnceLock<Duration>,
    waits: WaitClock,
    request_bytes: AtomicU64,
    response_bytes: AtomicU64,
    over: AtomicBool,
}

/// A catalog is waited for, as long as this lives.
pub struct CatalogWait(Arc<RequestRecord>);

/// Wants to know when an exchange is over.
pub trait CompletionObserver: Send + Sync {
    /// It is over. Called once for each.
    fn over(&self, exchange: &RequestRecord, how: End);
}

/// Those that are told of every exchange. Shared by all, so that none need be registered for each.
#[derive(Clone, Default)]
pub struct CompletionObservers(Arc<[Arc<dyn CompletionObserver>]>);

impl RequestRecord {
    /// The exchange that a request belongs to; it begins where there is none yet.
    pub fn of<B>(request: &mut Request<B>) -> &Arc<Self> {
        let learned = RequestContext::more(request.extensions_mut());
        let begin = || Self::begin(None, CompletionObservers::default());
        learned.exchange.get_or_insert_with(begin)
    }

    /// One that begins now; `watchers` are told when it is over.
    pub fn begin(head: Option<RequestHead>, watchers: CompletionObservers) -> Arc<Self> {
        Arc::new(Self {
            began: Instant::now(),
            head,
            watchers,
            operation: AtomicU8::new(0),
            served: AtomicBool::new(false),
            share: AtomicU16::new(0),
            mount: OnceLock::new(),
            backend: OnceLock::new(),
            caller: OnceLock::new(),
            context: Mutex::default(),
            failure: OnceLock::new(),
            status: AtomicU16::new(0),
            answered: OnceLock::new(),
            waits: WaitClock::default(),
            request_bytes: AtomicU64::new(0),
            response_bytes: AtomicU64::new(0),
            over: AtomicBool::new(false),
        })
    }

    /// Counts the request's body as it is read.
    pub fn observe_request(self: &Arc<Self>, body: &mut Body) {
        if !http_body::Body::is_end_stream(body) {
            body.meter(Side::Request, Arc::clone(self) as Arc<dyn Meter>);
        }
    }

    /// Counts the response's body as it is sent; its end is the exchange's.
    pub fn observe_response(self: Arc<Self>, body: &mut Body) {
        body.meter(Side::Response, self);
    }

    /// It was recognized.
    pub fn recognized(&self, operation: Operation) {
        self.operation.store(operation.byte(), Ordering::Relaxed);
    }

    /// It was given one of the places among those that are served.
    pub fn served(&self) {
        self.served.store(true, Ordering::Relaxed);
    }

    /// Its place is counted to its caller, in this slot.
    fn shares(&self, slot: usize) {
        let slot = u16::try_from(slot + 1).unwrap_or(0);
        self.share.store(slot, Ordering::Relaxed);
    }

    /// Where its place is counted to its caller, if it is.
    fn share(&self) -> Option<usize> {
        usize::from(self.share.load(Ordering::Relaxed)).checked_sub(1)
    }

    /// This mount owns what it names.
    pub fn routed(&self, mount: &Identifier) {
        // All requests of a mount share its name: not even its count is touched where nobody asks.
        if self.is_told() {
            let _ = self.mount.set(mount.clone());
        }
    }

    /// This backend has the last word on it, and counts it.
    pub fn served_by(&self, backend: &Arc<metrics::Backend>) {
        let _ = self.backend.set(Arc::clone(backend));
    }

    /// A catalog is waited for until what this returns is dropped; `None` where nobody asks how long.
    #[must_use]
    pub fn waiting(self: &Arc<Self>) -> Option<CatalogWait> {
        if !self.is_told() {
            return None;
        }
        self.waits.began(self.age());
        Some(CatalogWait(Arc::clone(self)))
    }

    /// Its caller is known.
    pub fn authenticated(&self, caller: &Principal) {
        if self.is_told() {
            let _ = self.caller.set(caller.clone());
        }
    }

    /// Entries of its context that the access log shows; those of the body come later than the others. Long values
    /// are cut.
    pub fn described(&self, entries: impl IntoIterator<Item = (String, String)>) {
        let cut = entries.into_iter().map(|(key, mut value)| {
            value.truncate(value.floor_char_boundary(MAX_SHOWN));
            (key, value)
        });
        self.entries().extend(cut);
    }

    /// The gateway itself refused it, or failed on it, for a reason that has a word or not.
    pub fn failed(&self, code: Code, reason: Option<&'static str>) {
        let _ = self.failure.set((code, reason));
    }

    /// It is answered with this status.
    pub fn answered(&self, status: StatusCode) {
        self.status.store(status.as_u16(), Ordering::Relaxed);
    }

    /// Its response begins now, for whoever wants to know how long that took.
    pub fn timed(&self) {
        let _ = self.answered.set(self.age());
    }

    /// What its head says.
    pub fn head(&self) -> Option<&RequestHead> {
        self.head.as_ref()
    }

    /// The request's id; empty before it was chosen.
    pub fn id(&self) -> &str {
        self.head().map_or("", RequestHead::id)
    }

    /// What was asked.
    pub fn operation(&self) -> Option<Operation> {
        Operation::from_byte(self.operation.load(Ordering::Relaxed))
    }

    /// Whether it has one of the places among those that are served, until its end.
    pub fn is_served(&self) -> bool {
        self.served.load(Ordering::Relaxed)
    }

    /// Whose namespace it is about, as clients spell it; `None`: nobody's, or several'.
    pub fn mount(&self) -> Option<&Identifier> {
        self.mount.get()
    }

    /// Which backend served it; `None`: the gateway alone.
    pub fn backend(&self) -> Option<&metrics::Backend> {
        self.backend.get().map(|backend| &**backend)
    }

    /// Who asked, where somebody wants to know.
    pub fn caller(&self) -> Option<&Principal> {
        self.caller.get()
    }

    /// The entries of its context to show.
    pub fn context(&self) -> Vec<(String, String)> {
        self.entries().clone()
    }

    fn entries(&self) -> MutexGuard<'_, Vec<(String, String)>> {
        self.context.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What the gateway said was wrong; `None` where nothing was, or a catalog said it.
    pub fn code(&self) -> Option<Code> {
        self.failure.get().map(|(code, _)| *code)
    }

    /// The word for why the gateway refused it, where there is one.
    pub fn reason(&self) -> Option<&'static str> {
        self.failure.get()?.1
    }

    /// The response's status; `None` if there was none.
    pub fn status(&self) -> Option<StatusCode> {
        StatusCode::from_u16(self.status.load(Ordering::Relaxed)).ok()
    }

    /// Since its headers came in.
    pub fn age(&self) -> Duration {
        self.began.elapsed()
    }

    /// How old it was when its response began, if anybody noted that.
    pub fn timed_at(&self) -> Option<Duration> {
        self.answered.get().copied()
    }

    /// How long catalogs were waited for, those that were asked side by side once, until `age`; nothing where nobody
    /// wanted to know.
    pub fn upstream(&self, age: Duration) -> Duration {
        self.waits.total(age)
    }

    /// Bytes of the request's body that were read.
    pub fn request_bytes(&self) -> u64 {
        self.request_bytes.load(Ordering::Relaxed)
    }

    /// Bytes of the response's body that were sent.
    pub fn response_bytes(&self) -> u64 {
        self.response_bytes.load(Ordering::Relaxed)
    }

    /// Whether somebody wants to know more than is counted.
    fn is_told(&self) -> bool {
        self.head().is_some_and(|head| head.told)
    }

    fn finish(&self, how: End) {
        // One response's body ends once, and nobody has the record any more when it is dropped: no two come at once.
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

impl FromIterator<Arc<dyn CompletionObserver>> for CompletionObservers {
    fn from_iter<W: IntoIterator<Item = Arc<dyn CompletionObserver>>>(watchers: W) -> Self {
        Self(watchers.into_iter().collect())
    }
}

impl Drop for CatalogWait {
    fn drop(&mut self) {
        self.0.waits.ended(self.0.age());
    }
}

impl Meter for RequestRecord {
    fn data(&self, side: Side, length: usize) {
        let counter = match side {
            Side::Request => &self.request_bytes,
            Side::Response => &self.response_bytes,
        };
        // A body has one reader, so nothing is lost between the two, and nothing need be locked.
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test says what it expects")]

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
