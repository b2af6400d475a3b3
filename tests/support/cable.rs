//! A cable between two programs that can be cut at a chosen moment, or swallow what passes.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, watch};

/// A cable to a port on loopback.
#[derive(Clone)]
pub struct Cable {
    pub port: u16,
    server: u16,
    state: Arc<State>,
}

#[derive(Default)]
struct State {
    /// The number of answers that are let through before the connection is cut instead; 0 for no cut.
    cut_after: AtomicU64,
    cuts: AtomicU64,
    is_shut: AtomicBool,
    /// True if the cable is pulled. Each connection has a receiver for as long as it lasts.
    pulled: watch::Sender<bool>,
    /// The number of connections so far, and of those that are held up.
    connections: AtomicU64,
    frozen: AtomicU64,
    /// The connections that had a request held up, by the port that the server sees.
    held: Mutex<BTreeSet<u16>>,
    /// The words that mark a connection whose client has sent them; none if empty.
    marks: OnceLock<&'static str>,
    /// True if marked connections are held up.
    holds_marked: AtomicBool,
    changed: Notify,
}

/// One connection through the cable.
struct Connection {
    number: u64,
    /// The port that the server sees.
    port: u16,
    is_marked: AtomicBool,
}

impl Cable {
    /// Runs in the present runtime.
    pub async fn to(server: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let state = Arc::new(State::default());
        let cable = Self {
            port,
            server,
            state: Arc::clone(&state),
        };
        tokio::spawn(async move {
            loop {
                let (near, _) = listener.accept().await.unwrap();
                tokio::spawn(serve(near, server, Arc::clone(&state)));
            }
        });
        cable
    }

    /// The port that it leads to.
    pub fn server(&self) -> u16 {
        self.server
    }

    /// Cuts a connection at its answer number `answers` from now on: the server has done what it was asked, and nobody
    /// is told.
    pub fn cut_after(&self, answers: u64) {
        self.state.cut_after.store(answers, Ordering::SeqCst);
    }

    /// The number of connections that were cut.
    pub fn cuts(&self) -> u64 {
        self.state.cuts.load(Ordering::SeqCst)
    }

    /// Swallows everything, as a network does that loses all packets.
    pub fn shut(&self) {
        self.state.is_shut.store(true, Ordering::SeqCst);
    }

    /// Breaks all connections, and refuses new ones. Returns when nothing passes any more.
    pub async fn pull(&self) {
        self.state.pulled.send_replace(true);
        self.state.pulled.closed().await;
    }

    /// Holds up what the present connections send; new ones work.
    pub fn freeze(&self) {
        let present = self.state.connections.load(Ordering::SeqCst);
        self.state.frozen.store(present, Ordering::SeqCst);
    }

    /// Lets through what was held up, although its sender may be gone.
    pub fn thaw(&self) {
        self.state.frozen.store(0, Ordering::SeqCst);
        self.state.changed.notify_waiters();
    }

    /// Returns the connections that had a request held up so far, by the port that the server sees.
    pub fn held(&self) -> BTreeSet<u16> {
        self.state.held.lock().unwrap().clone()
    }

    /// Marks the connections whose clients send `words`, from now on.
    pub fn mark(&self, words: &'static str) {
        self.state.marks.set(words).unwrap();
    }

    /// Holds up marked connections, and those that will be; all others work.
    pub fn hold_marked(&self) {
        self.state.holds_marked.store(true, Ordering::SeqCst);
    }

    /// Lets everything through again, what was held back included.
    pub fn open(&self) {
        self.state.is_shut.store(false, Ordering::SeqCst);
        self.state.holds_marked.store(false, Ordering::SeqCst);
        self.state.changed.notify_waiters();
    }
}

impl State {
    async fn passable(&self, connection: &Connection, is_answer: bool) {
        let is_held = || {
            let holds_marked = self.holds_marked.load(Ordering::SeqCst);
            self.is_shut.load(Ordering::SeqCst)
                || connection.number < self.frozen.load(Ordering::SeqCst)
                || (holds_marked && connection.is_marked.load(Ordering::SeqCst))
        };
        if is_held() && !is_answer {
            self.held.lock().unwrap().insert(connection.port);
        }
        while is_held() {
            let _ = tokio::time::timeout(Duration::from_millis(20), self.changed.notified()).await;
        }
    }

    /// True if a request has the words that mark its connection.
    fn marks(&self, request: &[u8]) -> bool {
        let is_in = |words: &str| {
            request
                .windows(words.len())
                .any(|it| it == words.as_bytes())
        };
        self.marks.get().is_some_and(|words| is_in(words))
    }

    /// True if this answer is the one to cut at.
    fn cuts_here(&self) -> bool {
        let left = self.cut_after.load(Ordering::SeqCst);
        let cuts = left > 0 && self.cut_after.fetch_sub(1, Ordering::SeqCst) == 1;
        if cuts {
            self.cuts.fetch_add(1, Ordering::SeqCst);
        }
        cuts
    }
}

async fn serve(near: TcpStream, server: u16, state: Arc<State>) {
    let mut pulled = state.pulled.subscribe();
    let Ok(far) = TcpStream::connect(("127.0.0.1", server)).await else {
        return;
    };
    let connection = &Connection {
        number: state.connections.fetch_add(1, Ordering::SeqCst),
        port: far.local_addr().unwrap().port(),
        is_marked: AtomicBool::new(false),
    };
    near.set_nodelay(true).unwrap();
    far.set_nodelay(true).unwrap();
    let (near_read, near_write) = near.into_split();
    let (far_read, far_write) = far.into_split();
    tokio::select! {
        biased;
        _ = pulled.wait_for(|is_pulled| *is_pulled) => {}
        () = pass(near_read, far_write, &state, connection, false) => {}
        () = pass(far_read, near_write, &state, connection, true) => {}
    }
}

async fn pass(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    state: &State,
    connection: &Connection,
    is_answer: bool,
) {
    let mut buffer = vec![0; 64 * 1024];
    loop {
        let Ok(read @ 1..) = from.read(&mut buffer).await else {
            return;
        };
        if !is_answer && state.marks(&buffer[..read]) {
            connection.is_marked.store(true, Ordering::SeqCst);
        }
        state.passable(connection, is_answer).await;
        if is_answer && state.cuts_here() {
            return;
        }
        if to.write_all(&buffer[..read]).await.is_err() {
            return;
        }
    }
}
