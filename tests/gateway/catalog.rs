//! A catalog on a loopback port that behaves as real ones do, and misbehaves when it is told to.
//!
//! It remembers every request it was sent, byte for byte, for the test to look at.

pub mod answers;
pub mod faults;
pub mod operations;
mod server;
pub mod store;
mod tests;

use std::collections::BTreeMap;
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

/// What `batch-create` answers.
#[derive(Clone, Copy, Debug)]
pub enum BatchCreate {
    /// It does not exist: status, code and message of the answer (code 0 without a message: no body).
    Missing(u16, u64, &'static str),
    /// All or nothing.
    Atomic,
}

/// The forms in which real catalogs say that they have no `batch-create`.
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

/// One request as it arrived.
#[derive(Clone, Debug)]
pub struct Seen {
    serial: usize,
    pub operation: &'static str,
    /// The identifier's names.
    pub id: Vec<String>,
    pub method: String,
    /// Path and query, as they were on the wire.
    pub target: String,
    pub headers: HeaderMap,
    pub body: Bytes,
}

impl Seen {
    /// The header's value, if it came exactly once.
    pub fn header(&self, name: &str) -> Option<&str> {
        let mut values = self.headers.get_all(name).iter();
        let value = values.next()?.to_str().ok();
        value.filter(|_| values.next().is_none())
    }

    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or(Value::Null)
    }
}

/// A running catalog; stops when dropped.
pub struct Catalog {
    pub address: SocketAddr,
    shared: Arc<Shared>,
    running: Mutex<Option<Running>>,
    /// A catalog that is stopped keeps its port, so that nobody else gets it and connections are refused.
    reserved: Mutex<Option<TcpSocket>>,
}

/// The accept loop ends when its sender is dropped.
type Running = (oneshot::Sender<()>, JoinHandle<()>);

pub(crate) struct Shared {
    base: String,
    ways: Mutex<Ways>,
    store: Mutex<Store>,
    orders: Mutex<Orders>,
    seen: watch::Sender<Vec<Seen>>,
    serials: AtomicUsize,
    /// Answers that are always given, by operation.
    canned: Mutex<BTreeMap<&'static str, answers::Answer>>,
    extra_headers: Mutex<HeaderMap>,
    /// Where the rows of inserts go, a frame at a time; nobody waiting: they are only counted.
    rows_in: Mutex<Option<mpsc::Sender<Bytes>>>,
    /// Where the rows of the next query come from.
    rows_out: Mutex<Option<mpsc::Receiver<Bytes>>>,
}

impl Catalog {
    /// A catalog without tables and without `batch-create`.
    pub async fn start() -> Self {
        Self::below("").await
    }

    /// The same with its routes below `base`, e.g. `/lance`.
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
            rows_in: Mutex::default(),
            rows_out: Mutex::default(),
        });
        let running = server::start(listener, shared.clone());
        Self {
            address,
            shared,
            running: Mutex::new(Some(running)),
            reserved: Mutex::default(),
        }
    }

    /// The base address for a configuration.
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

    /// From now on every call of `operation` is answered so.
    pub fn can(&self, operation: &'static str, status: u16, kind: &'static str, body: &[u8]) {
        let answer = (status, Some(kind), Bytes::copy_from_slice(body));
        let mut canned = self.shared.canned.lock().expect("not poisoned");
        canned.insert(operation, answer);
    }

    /// A header of every answer from now on.
    pub fn add_header(&self, name: &'static str, value: &'static str) {
        let value = http::HeaderValue::from_static(value);
        let mut headers = self.shared.extra_headers.lock().expect("not poisoned");
        headers.append(name, value);
    }

    /// What happens to the next call of `operation`.
    pub fn fail(&self, operation: &'static str, fault: Fault) {
        self.order(operation, None, 1, 1, fault);
    }

    /// What happens to every call of `operation` from now on.
    pub fn fail_always(&self, operation: &'static str, fault: Fault) {
        self.order(operation, None, 1, usize::MAX, fault);
    }

    /// What happens to the `nth` call from now (from 1), for one table only when one is named.
    pub fn fail_nth(&self, operation: &'static str, table: &[&str], nth: usize, fault: Fault) {
        let table = table.iter().map(ToString::to_string).collect::<Vec<_>>();
        let table = Some(table).filter(|names| !names.is_empty());
        self.order(operation, table, nth, 1, fault);
    }

    /// A gate in front of the next call of `operation`.
    pub fn hold(&self, operation: &'static str) -> Gate {
        let gate = Gate::new();
        self.fail(operation, Fault::HoldBefore(gate.clone()));
        gate
    }

    /// A gate between what the next call of `operation` does and its answer.
    pub fn hold_answer(&self, operation: &'static str) -> Gate {
        let gate = Gate::new();
        self.fail(operation, Fault::HoldAfter(gate.clone()));
        gate
    }

    /// Forgets every fault and every gate that nobody has come to yet.
    pub fn behave(&self) {
        self.shared.orders.lock().expect("not poisoned").0.clear();
    }

    /// The rows of inserts, as they arrive; the catalog reads no faster than the test does.
    pub fn rows_in(&self) -> mpsc::Receiver<Bytes> {
        let (sender, receiver) = mpsc::channel(1);
        *self.shared.rows_in.lock().expect("not poisoned") = Some(sender);
        receiver
    }

    /// The rows of the next query's answer; it ends when the sender is dropped.
    pub fn rows_out(&self) -> mpsc::Sender<Bytes> {
        let (sender, receiver) = mpsc::channel(1);
        *self.shared.rows_out.lock().expect("not poisoned") = Some(receiver);
        sender
    }

    /// Everything it was sent, in the order of arrival.
    pub fn seen(&self) -> Vec<Seen> {
        self.shared.seen.borrow().clone()
    }

    /// The requests of one operation.
    pub fn seen_of(&self, operation: &str) -> Vec<Seen> {
        let seen = self.shared.seen.borrow();
        let of = seen.iter().filter(|seen| seen.operation == operation);
        of.cloned().collect()
    }

    /// The only request but for questions about health.
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

    /// From now on connections are refused; those that exist are cut, whatever they are doing.
    pub async fn stop(&self) {
        let running = self.running.lock().expect("not poisoned").take();
        if let Some((stop, server)) = running {
            drop(stop);
            server.await.expect("the server does not panic");
            let socket = TcpSocket::new_v4().expect("a socket");
            socket.set_reuseaddr(true).expect("an option");
            // A program that is just being started has a copy of the listener until it runs.
            while socket.bind(self.address).is_err() {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            *self.reserved.lock().expect("not poisoned") = Some(socket);
        }
    }

    /// Serves again, on the same port and with what it knew.
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
