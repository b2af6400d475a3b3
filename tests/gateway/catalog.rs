//! A catalog on a loopback port that behaves like real ones, and misbehaves when a test orders it to.
//!
//! The catalog records every request, byte for byte, for the test to look at.

pub mod answers;
pub mod faults;
pub mod operations;
mod server;
pub mod store;
mod tests;

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use bytes::Bytes;
use http::HeaderMap;
use serde_json::Value;
use tokio::net::{TcpListener, TcpSocket};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinHandle;

use answers::Ways;
use faults::{Fault, Gate, Order, Orders};
use store::Store;

/// The support of a catalog for `batch-create`.
#[derive(Clone, Copy, Debug)]
pub enum BatchCreate {
    /// No support: the status, code and message of the answer (code 0 without a message: no body).
    Missing(u16, u64, &'static str),
    /// An atomic `batch-create`.
    Atomic,
}

/// The ways in which real catalogs say that they have no `batch-create`.
pub const MISSING: [BatchCreate; 4] = [
    BatchCreate::Missing(
        500,
        18,
        "Not supported: batch_create_table_versions not implemented, namespace.rs:374:13",
    ),
    BatchCreate::Missing(404, 0, ""),
    BatchCreate::Missing(406, 0, "batch_create_table_versions is not supported"),
    BatchCreate::Missing(501, 0, ""),
];

/// A request as it arrived.
#[derive(Clone, Debug)]
pub struct Seen {
    serial: usize,
    pub operation: &'static str,
    /// The identifier's names.
    pub id: Vec<String>,
    pub method: String,
    /// The path and query as they were on the wire.
    pub target: String,
    pub headers: HeaderMap,
    pub body: Bytes,
}

impl Seen {
    /// Returns the header's value if it was sent exactly once.
    pub fn header(&self, name: &str) -> Option<&str> {
        let mut values = self.headers.get_all(name).iter();
        let value = values.next()?.to_str().ok();
        value.filter(|_| values.next().is_none())
    }

    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or(Value::Null)
    }
}

/// A running catalog; it stops when dropped.
pub struct Catalog {
    pub address: SocketAddr,
    shared: Arc<Shared>,
    running: Mutex<Option<Running>>,
    /// The port of a catalog that is stopped: no other program gets it, and connections are refused.
    reserved: Mutex<Option<TcpSocket>>,
}

/// The accept loop of a running catalog; it ends when the sender is dropped.
type Running = (oneshot::Sender<()>, JoinHandle<()>);

pub(crate) struct Shared {
    base: String,
    ways: Mutex<Ways>,
    store: Mutex<Store>,
    orders: Mutex<Orders>,
    seen: watch::Sender<Vec<Seen>>,
    serials: AtomicUsize,
    /// The fixed answers, by operation.
    canned: Mutex<BTreeMap<&'static str, answers::Answer>>,
    extra_headers: Mutex<HeaderMap>,
    /// The request headers whose values select one of `parts`.
    selects: Mutex<Vec<&'static str>>,
    parts: Mutex<BTreeMap<String, Arc<Mutex<Store>>>>,
    /// The receiver of the rows of inserts, a frame at a time; if `None`, the rows are only counted.
    rows_in: Mutex<Option<mpsc::Sender<Bytes>>>,
    /// The source of the rows of the next query.
    rows_out: Mutex<Option<mpsc::Receiver<Bytes>>>,
    /// The sources of the next lists, with the operation that each is for.
    lists_out: Mutex<VecDeque<(&'static str, mpsc::Receiver<Bytes>)>>,
}

impl Catalog {
    /// Starts a catalog without tables and without `batch-create`.
    pub async fn start() -> Self {
        Self::below("").await
    }

    /// Starts such a catalog with its routes below `base`, e.g. `/lance`.
    pub async fn below(base: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let shared = Arc::new(Shared {
            base: base.to_owned(),
            ways: Mutex::new(Ways {
                batch_create: MISSING[0],
                versions_on_a_page: None,
            }),
            store: Mutex::default(),
            orders: Mutex::default(),
            seen: watch::Sender::new(Vec::new()),
            serials: AtomicUsize::new(0),
            canned: Mutex::default(),
            extra_headers: Mutex::default(),
            selects: Mutex::default(),
            parts: Mutex::default(),
            rows_in: Mutex::default(),
            rows_out: Mutex::default(),
            lists_out: Mutex::default(),
        });
        let running = server::start(listener, shared.clone());
        Self {
            address,
            shared,
            running: Mutex::new(Some(running)),
            reserved: Mutex::default(),
        }
    }

    /// The base address to write into a configuration.
    pub fn uri(&self) -> String {
        format!("http://{}{}", self.address, self.shared.base)
    }

    pub fn store(&self) -> MutexGuard<'_, Store> {
        self.shared.store.lock().expect("no test panics holding it")
    }

    pub fn set_batch_create(&self, way: BatchCreate) {
        self.shared.ways.lock().expect("not poisoned").batch_create = way;
    }

    pub fn set_versions_on_a_page(&self, versions: usize) {
        let mut ways = self.shared.ways.lock().expect("not poisoned");
        ways.versions_on_a_page = Some(versions);
    }

    /// Gives every further call of `operation` this answer.
    pub fn can(&self, operation: &'static str, status: u16, kind: &'static str, body: &[u8]) {
        let answer = (status, Some(kind), Bytes::copy_from_slice(body));
        let mut canned = self.shared.canned.lock().expect("not poisoned");
        canned.insert(operation, answer);
    }

    /// Keeps data apart by the value of this request header. Requests without it are about [`store`](Self::store).
    pub fn select_by(&self, header: &'static str) {
        self.shared
            .selects
            .lock()
            .expect("not poisoned")
            .push(header);
    }

    /// The data that the value of a request header selects.
    pub fn part(&self, value: &str) -> Arc<Mutex<Store>> {
        self.shared.part(value)
    }

    /// Adds a header to every further answer.
    pub fn add_header(&self, name: &'static str, value: &'static str) {
        let value = http::HeaderValue::from_static(value);
        let mut headers = self.shared.extra_headers.lock().expect("not poisoned");
        headers.append(name, value);
    }

    /// Orders `fault` for the next call of `operation`.
    pub fn fail(&self, operation: &'static str, fault: Fault) {
        self.order(operation, None, 1, 1, fault);
    }

    /// Orders `fault` for every further call of `operation`.
    pub fn fail_always(&self, operation: &'static str, fault: Fault) {
        self.order(operation, None, 1, usize::MAX, fault);
    }

    /// Orders `fault` for the `nth` call from now (the next is 1); if `table` is not empty, only its
    /// calls count.
    pub fn fail_nth(&self, operation: &'static str, table: &[&str], nth: usize, fault: Fault) {
        let table = table.iter().map(ToString::to_string).collect::<Vec<_>>();
        let table = Some(table).filter(|names| !names.is_empty());
        self.order(operation, table, nth, 1, fault);
    }

    /// Puts a gate in front of the next call of `operation`.
    pub fn hold(&self, operation: &'static str) -> Gate {
        let gate = Gate::new();
        self.fail(operation, Fault::HoldBefore(gate.clone()));
        gate
    }

    /// Puts a gate between the effect of the next call of `operation` and its answer.
    pub fn hold_answer(&self, operation: &'static str) -> Gate {
        let gate = Gate::new();
        self.fail(operation, Fault::HoldAfter(gate.clone()));
        gate
    }

    /// Cancels every fault and every gate that no call has reached yet.
    pub fn behave(&self) {
        self.shared.orders.lock().expect("not poisoned").0.clear();
    }

    /// Returns the rows of inserts as they arrive; the catalog reads no faster than the test does.
    pub fn rows_in(&self) -> mpsc::Receiver<Bytes> {
        let (sender, receiver) = mpsc::channel(1);
        *self.shared.rows_in.lock().expect("not poisoned") = Some(sender);
        receiver
    }

    /// Returns the sender of the rows of the next query's answer; the answer ends when it is dropped.
    pub fn rows_out(&self) -> mpsc::Sender<Bytes> {
        let (sender, receiver) = mpsc::channel(1);
        *self.shared.rows_out.lock().expect("not poisoned") = Some(receiver);
        sender
    }

    /// Returns the sender of the text of a list of versions; see [`Catalog::list_out`].
    pub fn versions_out(&self) -> mpsc::Sender<Bytes> {
        self.list_out("list_table_versions")
    }

    /// Returns the sender of the text that a listing operation answers: the next time, if this is called once. The answer
    /// ends when it is dropped.
    pub fn list_out(&self, operation: &'static str) -> mpsc::Sender<Bytes> {
        let (sender, receiver) = mpsc::channel(1);
        let mut lists = self.shared.lists_out.lock().expect("not poisoned");
        lists.push_back((operation, receiver));
        sender
    }

    /// Every request that was received, in the order of arrival.
    pub fn seen(&self) -> Vec<Seen> {
        self.shared.seen.borrow().clone()
    }

    /// The requests of one operation, in the order of arrival.
    pub fn seen_of(&self, operation: &str) -> Vec<Seen> {
        let seen = self.shared.seen.borrow();
        let of = seen.iter().filter(|seen| seen.operation == operation);
        of.cloned().collect()
    }

    /// Returns the only request that is not a health check; panics if there is not exactly one.
    pub fn only(&self) -> Seen {
        let seen = self.seen().into_iter().filter(|s| s.target != "/");
        let mut seen: Vec<Seen> = seen.collect();
        assert_eq!(seen.len(), 1, "{seen:#?}");
        seen.remove(0)
    }

    pub fn forget(&self) {
        self.shared.seen.send_modify(Vec::clear);
    }

    /// Waits until `calls` calls of `operation` have arrived.
    pub async fn called(&self, operation: &str, calls: usize) {
        let mut seen = self.shared.seen.subscribe();
        let enough =
            |seen: &Vec<Seen>| seen.iter().filter(|s| s.operation == operation).count() >= calls;
        let waited = tokio::time::timeout(faults::PATIENCE, seen.wait_for(enough)).await;
        assert!(waited.is_ok(), "{operation} was not called {calls} times");
    }

    /// Stops the catalog: new connections are refused, and existing ones are cut, whatever they are
    /// doing.
    pub async fn stop(&self) {
        let running = self.running.lock().expect("not poisoned").take();
        if let Some((stop, server)) = running {
            drop(stop);
            server.await.expect("the server does not panic");
            let socket = TcpSocket::new_v4().expect("a socket");
            socket.set_reuseaddr(true).expect("an option");
            // A child process that is just being started has a copy of the listener until it executes its
            // program.
            while socket.bind(self.address).is_err() {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            *self.reserved.lock().expect("not poisoned") = Some(socket);
        }
    }

    /// Serves again, on the same port and with the same state.
    pub fn resume(&self) {
        let reserved = self.reserved.lock().expect("not poisoned").take();
        if let Some(socket) = reserved {
            let listener = socket.listen(1024).expect("its own port");
            let running = server::start(listener, self.shared.clone());
            *self.running.lock().expect("not poisoned") = Some(running);
        }
    }

    fn order(
        &self,
        operation: &'static str,
        table: Option<Vec<String>>,
        first: usize,
        calls: usize,
        fault: Fault,
    ) {
        let mut orders = self.shared.orders.lock().expect("not poisoned");
        orders.0.push(Order {
            operation,
            table,
            first,
            calls,
            fault,
            seen: 0,
        });
    }
}
