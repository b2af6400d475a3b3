//! The record of one request and its response.
//!
//! The outermost layer creates one record for each request; the other layers find it in
//! [`crate::request::context::RequestContext`]. A fact is written once, by the part that learns it.

mod audited;
pub mod caller;
pub mod change;
mod completion;
pub mod context;
mod head;
pub mod held;
pub mod origin;
pub mod peer;
pub mod places;
pub mod span;
mod timing;
mod waits;

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU16, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use http::{Request, StatusCode};

use crate::error::code::Code;
use crate::error::denied_by::DeniedBy;
use crate::metrics;
use crate::protocol::identifier::Identifier;
use crate::protocol::operation::Operation;
use crate::protocol::principal::Principal;
use crate::request::context::RequestContext;
use change::TableChange;
pub use completion::{CompletionObserver, CompletionObservers};
pub use head::RequestHead;
pub use timing::CatalogWait;
use waits::WaitClock;

/// The most bytes that are shown of a context entry.
const MAX_SHOWN: usize = 256;

/// The record of a request.
pub struct RequestRecord {
    began: Instant,
    /// The facts from the head; `None` only if no layer has read it.
    head: Option<RequestHead>,
    watchers: CompletionObservers,
    /// The operation as a byte; 0 until it is known.
    operation: AtomicU8,
    /// True if it has one of the places of requests that are served.
    served: AtomicBool,
    /// The slot in which its place counts toward its caller's share, plus 1; 0 if it does not count.
    share: AtomicU16,
    /// The name in the path.
    name: OnceLock<Identifier>,
    /// The tables that it changes, if more is known of them than the name in the path.
    changes: OnceLock<Arc<[TableChange]>>,
    /// The id of the batch, which is its transaction.
    transaction: OnceLock<String>,
    mount: OnceLock<Identifier>,
    backend: OnceLock<Arc<metrics::Backend>>,
    caller: OnceLock<Principal>,
    /// The name of the gateway that answered for this one.
    passed_on_to: Mutex<Option<Arc<str>>>,
    /// True if another gateway may have served it.
    was_passed_on: AtomicBool,
    context: Mutex<Vec<(String, String)>>,
    /// The refusal or failure of the gateway itself: the contract's code, and a word for the log.
    failure: OnceLock<(Code, Option<&'static str>)>,
    /// The cause of that in words, for operators.
    cause: OnceLock<Box<str>>,
    /// The rule that denied it.
    rule: OnceLock<Box<DeniedBy>>,
    /// True if a catalog's words refused it.
    refused_by_catalog: AtomicBool,
    /// The status of the catalog's answer to a change; 0 until there is one.
    settled: AtomicU16,
    /// True if it has joined a batch that an earlier request began.
    repeats: AtomicBool,
    /// True if its answer may hold the keys of a table's storage, which others do not get.
    gives_credentials: AtomicBool,
    /// True once the audit log has its line.
    audited: AtomicBool,
    /// The status; 0 until there is a response.
    status: AtomicU16,
    /// The age at which the response began.
    answered: OnceLock<Duration>,
    waits: WaitClock,
    /// The time for which a catalog had the request itself, in nanoseconds; 0 if none had.
    forwarded: AtomicU64,
    /// True if the response was whole when it began.
    is_whole: AtomicBool,
    request_bytes: AtomicU64,
    response_bytes: AtomicU64,
    over: AtomicBool,
}

impl RequestRecord {
    /// Returns the record of a request; creates it if there is none yet.
    pub fn of<B>(request: &mut Request<B>) -> &Arc<Self> {
        let learned = RequestContext::more(request.extensions_mut());
        let begin = || Self::begin(None, CompletionObservers::default());
        learned.exchange.get_or_insert_with(begin)
    }

    /// Creates a record that begins now; `watchers` are told when it is over.
    pub fn begin(head: Option<RequestHead>, watchers: CompletionObservers) -> Arc<Self> {
        Arc::new(Self {
            began: Instant::now(),
            head,
            watchers,
            operation: AtomicU8::new(0),
            served: AtomicBool::new(false),
            share: AtomicU16::new(0),
            name: OnceLock::new(),
            changes: OnceLock::new(),
            transaction: OnceLock::new(),
            mount: OnceLock::new(),
            backend: OnceLock::new(),
            caller: OnceLock::new(),
            passed_on_to: Mutex::default(),
            was_passed_on: AtomicBool::new(false),
            context: Mutex::default(),
            failure: OnceLock::new(),
            cause: OnceLock::new(),
            rule: OnceLock::new(),
            refused_by_catalog: AtomicBool::new(false),
            settled: AtomicU16::new(0),
            repeats: AtomicBool::new(false),
            gives_credentials: AtomicBool::new(false),
            audited: AtomicBool::new(false),
            status: AtomicU16::new(0),
            answered: OnceLock::new(),
            waits: WaitClock::default(),
            forwarded: AtomicU64::new(0),
            is_whole: AtomicBool::new(false),
            request_bytes: AtomicU64::new(0),
            response_bytes: AtomicU64::new(0),
            over: AtomicBool::new(false),
        })
    }

    /// Notes the operation.
    pub fn recognized(&self, operation: Operation) {
        self.operation.store(operation.byte(), Ordering::Relaxed);
    }

    /// Notes the name in the path.
    pub fn named(&self, name: &Identifier) {
        if self.is_observed() {
            let _ = self.name.set(name.clone());
        }
    }

    /// Notes the id of the batch, which is its transaction. Its answer depends on it, whether it is observed or not.
    pub fn began(&self, transaction: &(impl ToString + ?Sized)) {
        let _ = self.transaction.set(transaction.to_string());
    }

    /// Notes that its answer may hold the keys of a table's storage, which others do not get.
    pub fn gives(&self) {
        self.gives_credentials.store(true, Ordering::Relaxed);
    }

    /// True if its answer may hold the keys of a table's storage, which others do not get.
    pub fn gives_credentials(&self) -> bool {
        self.gives_credentials.load(Ordering::Relaxed)
    }

    /// Notes that it has one of the places of requests that are served.
    pub fn served(&self) {
        self.served.store(true, Ordering::Relaxed);
    }

    /// Notes the slot in which its place counts toward its caller's share.
    fn shares(&self, slot: usize) {
        let slot = u16::try_from(slot + 1).unwrap_or(0);
        self.share.store(slot, Ordering::Relaxed);
    }

    /// Returns the slot in which its place counts toward its caller's share; `None` if it does not count.
    fn share(&self) -> Option<usize> {
        usize::from(self.share.load(Ordering::Relaxed)).checked_sub(1)
    }

    /// Notes the mount that owns the name in the request.
    pub fn routed(&self, mount: &Identifier) {
        // All requests of a mount share its name: not even its reference count is touched if it is not needed.
        if self.is_observed() {
            let _ = self.mount.set(mount.clone());
        }
    }

    /// Notes the backend that has the last word on it, and counts it.
    pub fn served_by(&self, backend: &Arc<metrics::Backend>) {
        let _ = self.backend.set(Arc::clone(backend));
    }

    /// Notes the caller.
    pub fn authenticated(&self, caller: &Principal) {
        if self.is_observed() {
            let _ = self.caller.set(caller.clone());
        }
    }

    /// Adds context entries that the access log shows; those of the body come later than the others. Long values are
    /// cut.
    pub fn described(&self, entries: impl IntoIterator<Item = (String, String)>) {
        let cut = entries.into_iter().map(|(key, mut value)| {
            value.truncate(value.floor_char_boundary(MAX_SHOWN));
            (key, value)
        });
        self.entries().extend(cut);
    }

    /// Notes the gateway that is to answer for this one; `None` if this one answers after all. The last one counts.
    pub fn passes_on_to(&self, gateway: Option<&str>) {
        let to = self.passed_on_to.lock();
        *to.unwrap_or_else(PoisonError::into_inner) = gateway.map(Into::into);
        if gateway.is_some() {
            self.was_passed_on.store(true, Ordering::Relaxed);
        }
    }

    /// The name of the gateway that is to answer for this one.
    pub fn passed_on_to(&self) -> Option<Arc<str>> {
        let to = self.passed_on_to.lock();
        to.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// True if another gateway may have served it, whoever answers.
    pub fn was_passed_on(&self) -> bool {
        self.was_passed_on.load(Ordering::Relaxed)
    }

    /// Notes that the gateway itself refused it or failed on it; `reason` is a word for the log.
    pub fn failed(&self, code: Code, reason: Option<&'static str>) {
        let _ = self.failure.set((code, reason));
    }

    /// Notes the cause of the gateway's refusal or failure in words, for operators.
    pub fn explained(&self, cause: String) {
        let _ = self.cause.set(cause.into_boxed_str());
    }

    /// The cause of the gateway's refusal or failure in words; `None` if there is none.
    pub fn cause(&self) -> Option<&str> {
        self.cause.get().map(|cause| &**cause)
    }

    /// Notes the status of the response.
    pub fn answered(&self, status: StatusCode) {
        self.status.store(status.as_u16(), Ordering::Relaxed);
    }

    /// Notes that the response was whole when it began, so that its end does not depend on the catalog.
    pub fn answered_whole(&self) {
        self.is_whole.store(true, Ordering::Relaxed);
    }

    /// The facts from the head; `None` if no layer has read it.
    pub fn head(&self) -> Option<&RequestHead> {
        self.head.as_ref()
    }

    /// The request's id; empty before it was chosen.
    pub fn id(&self) -> &str {
        self.head().map_or("", RequestHead::id)
    }

    /// The operation; `None` until it is known.
    pub fn operation(&self) -> Option<Operation> {
        Operation::from_byte(self.operation.load(Ordering::Relaxed))
    }

    /// The name in the path; `None` if there is none, or nobody asks.
    pub fn name(&self) -> Option<&Identifier> {
        self.name.get()
    }

    /// The id of the batch; `None` for other requests, and until the batch begins.
    pub fn transaction(&self) -> Option<&str> {
        self.transaction.get().map(String::as_str)
    }

    /// True if it has, until its end, one of the places of requests that are served.
    pub fn is_served(&self) -> bool {
        self.served.load(Ordering::Relaxed)
    }

    /// The mount that the request is about, as clients spell its namespace; `None` if there is none or more than one,
    /// or if it is not recorded.
    pub fn mount(&self) -> Option<&Identifier> {
        self.mount.get()
    }

    /// The backend that served it; `None` if the gateway answered alone.
    pub fn backend(&self) -> Option<&metrics::Backend> {
        self.backend.get().map(|backend| &**backend)
    }

    /// The caller; `None` if it is not known or not recorded.
    pub fn caller(&self) -> Option<&Principal> {
        self.caller.get()
    }

    /// The context entries to show.
    pub fn context(&self) -> Vec<(String, String)> {
        self.entries().clone()
    }

    fn entries(&self) -> MutexGuard<'_, Vec<(String, String)>> {
        self.context.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The contract's code of the gateway's own refusal or failure; `None` if there was none, or a catalog sent the
    /// error.
    pub fn code(&self) -> Option<Code> {
        self.failure.get().map(|(code, _)| *code)
    }

    /// The word for the gateway's refusal; `None` if there is none.
    pub fn reason(&self) -> Option<&'static str> {
        self.failure.get()?.1
    }

    /// The response's status; `None` if there was none.
    pub fn status(&self) -> Option<StatusCode> {
        StatusCode::from_u16(self.status.load(Ordering::Relaxed)).ok()
    }

    /// True if an observer needs more than the counters.
    pub fn is_observed(&self) -> bool {
        self.head().is_some_and(|head| head.is_observed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether a committed batch is answered so depends on it.
    #[test]
    fn a_batch_is_known_to_have_begun_though_nobody_observes_its_request() {
        let record = RequestRecord::begin(None, CompletionObservers::default());
        record.began("x");
        assert_eq!(record.transaction(), Some("x"));
    }
}
