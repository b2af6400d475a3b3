//! Accepts connections, enforces their number and timeouts, and shuts them down.
//!
//! One thread accepts, and hands each connection to the worker that has the fewest. At `limits.connections` nothing is
//! accepted until one ends: new connections wait in the system's bounded backlog. Where a listener makes room instead, a
//! new connection ends the oldest one.

mod accept_errors;
mod room;
mod workers;

use std::collections::HashMap;
use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::os::fd::AsFd as _;
use std::sync::Arc;
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use http::{Request, Response};
use prometheus::IntGauge;
use rustls::ServerConfig;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Handle;
use tokio::task::{Id, JoinSet};
use tokio::time::{Interval, MissedTickBehavior, interval, timeout};
use tower::Service;

use crate::backend::Peer;
use crate::body::Body;
use crate::error::cause::Causes;
use crate::metrics::{TlsFailure, TlsFailures};
use crate::server::connection::{ConnectionState, Directive, IdleTracker, Protocols, Timeouts};
use crate::server::refused_peers::RefusedPeers;
use crate::server::tls;
use accept_errors::AcceptErrors;
use workers::{Stream, Workers};

/// The time without a request after which a connection releases its buffers.
const BUFFER_RETENTION: Duration = Duration::from_secs(2);
/// The time without a request after which a connection is closed. It is longer than clients commonly keep theirs, so
/// that the client closes first, and no request meets a connection that is just being closed.
const KEEP_ALIVE_TIMEOUT: Duration = Duration::from_secs(120);

/// The time that connections without a request stay open after the stop, for a request that is on its way. Its response
/// tells the client that it was the last.
const DRAIN_GRACE: Duration = Duration::from_secs(1);

/// A bound socket. Connections queue from here on, and are accepted once it serves.
pub struct Listener {
    socket: TcpListener,
    address: SocketAddr,
    workers: Vec<Handle>,
    /// True if another process holds the socket, too, and passes it on to the next gateway.
    is_held: bool,
}

/// The settings of a listener. Open connections keep the protocols that they began with; new connections and all
/// timeouts follow the current settings.
#[derive(Clone)]
pub struct Serving {
    /// The most connections that are open at a time.
    pub connections: usize,
    /// True if a new connection beyond that ends the oldest one, of those first that have no request in service.
    pub makes_room: bool,
    /// The time that a client has to send headers.
    pub header_timeout: Duration,
    /// The time that nothing may move while a request is being served.
    pub stall_timeout: Duration,
    /// The time that running requests have after the stop.
    pub drain_timeout: Duration,
    /// The TLS settings; `None` for connections without TLS.
    pub tls: Option<Arc<ServerConfig>>,
    /// The HTTP settings.
    pub protocols: Protocols,
    /// The gauge of open connections; `None` if they are not counted.
    pub gauge: Option<IntGauge>,
    /// The counters of failed TLS handshakes; `None` if they are not counted.
    pub tls_failures: Option<TlsFailures>,
    /// The report of failed TLS handshakes of other gateways; `None` if others connect here.
    pub refused_peers: Option<Arc<RefusedPeers>>,
}

struct Connections<S> {
    serving: Arc<ArcSwap<Serving>>,
    stack: S,
    workers: Workers,
    tasks: JoinSet<()>,
    watched: HashMap<Id, OpenConnection>,
}

struct OpenConnection {
    opened: Instant,
    state: Arc<ConnectionState>,
    watch: IdleTracker,
    worker: usize,
}

impl Listener {
    /// Binds `address`. Port 0 lets the system choose the port.
    pub async fn bind(address: SocketAddr) -> io::Result<Self> {
        Self::over(TcpListener::bind(address).await?, false)
    }

    /// Takes a bound socket that another process holds, too.
    pub fn held(socket: std::net::TcpListener) -> io::Result<Self> {
        socket.set_nonblocking(true)?;
        Self::over(TcpListener::from_std(socket)?, true)
    }

    fn over(socket: TcpListener, is_held: bool) -> io::Result<Self> {
        Ok(Self {
            address: socket.local_addr()?,
            socket,
            workers: vec![Handle::current()],
            is_held,
        })
    }

    /// Returns another listener over the same socket, for the time before this one serves.
    pub fn before(&self) -> io::Result<Self> {
        let socket = self.socket.as_fd().try_clone_to_owned()?;
        Self::over(TcpListener::from_std(socket.into())?, self.is_held)
    }

    /// Makes `workers` serve its connections. The first of them must be the current runtime.
    pub fn on(mut self, workers: &[Handle]) -> Self {
        self.workers = workers.to_vec();
        self
    }

    /// The bound address.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves until `stop` is ready. Then stops accepting, gives running requests up to `drain_timeout`, and aborts the
    /// rest. Returns the number of connections that were aborted.
    pub async fn serve<S>(
        self,
        serving: Arc<ArcSwap<Serving>>,
        stack: S,
        stop: impl Future<Output = ()>,
    ) -> usize
    where
        S: Service<Request<Body>, Response = Response<Body>, Error = Infallible>
            + Clone
            + Send
            + 'static,
        S::Future: Send + 'static,
    {
        let workers = Workers::new(&self.workers);
        let mut connections = Connections::new(serving, stack, workers);
        connections.accept(self.socket, self.is_held, stop).await;
        connections.drain().await
    }
}

impl<S> Connections<S>
where
    S: Service<Request<Body>, Response = Response<Body>, Error = Infallible>
        + Clone
        + Send
        + 'static,
    S::Future: Send + 'static,
{
    fn new(serving: Arc<ArcSwap<Serving>>, stack: S, workers: Workers) -> Self {
        Self {
            serving,
            stack,
            workers,
            tasks: JoinSet::new(),
            watched: HashMap::new(),
        }
    }

    async fn accept(&mut self, socket: TcpListener, is_held: bool, stop: impl Future<Output = ()>) {
        let mut stop = std::pin::pin!(stop);
        let mut round = self.rounds();
        let mut errors = AcceptErrors::default();
        loop {
            let room = self.has_room();
            tokio::select! {
                biased;
                () = &mut stop => {
                    // This comes before new connections are refused, so that a caller who sees a refusal can rely on
                    // it.
                    self.order(Directive::CloseAfterResponse);
                    // Connections that wait at a held socket are the next gateway's.
                    if !is_held {
                        self.take_waiting(socket);
                    }
                    return;
                }
                Some(ended) = self.tasks.join_next_with_id() => self.forget(ended),
                _ = round.tick() => self.look_after(&mut round),
                accepted = socket.accept(), if room => match accepted {
                    Ok((stream, address)) => self.open(stream, address),
                    Err(error) => errors.handle(&error).await,
                },
            }
        }
    }

    /// Accepts the connections that the system has accepted already. They may carry a request, and closing the socket
    /// would break them.
    fn take_waiting(&mut self, socket: TcpListener) {
        let Ok(socket) = socket.into_std() else {
            return;
        };
        while self.tasks.len() < self.serving.load().connections {
            let Ok((stream, address)) = socket.accept() else {
                return;
            };
            let stream = stream.set_nonblocking(true).map(|()| stream);
            if let Ok(stream) = stream.and_then(TcpStream::from_std) {
                self.open(stream, address);
            }
        }
    }

    /// Returns the interval of checks: short enough to keep the header timeout to an eighth, and between 10 ms and 1 s.
    fn period(&self) -> Duration {
        let (least, most) = (Duration::from_millis(10), Duration::from_secs(1));
        (self.serving.load().header_timeout / 8).clamp(least, most)
    }

    fn rounds(&self) -> Interval {
        let mut rounds = interval(self.period());
        rounds.set_missed_tick_behavior(MissedTickBehavior::Delay);
        rounds
    }

    fn open(&mut self, stream: TcpStream, address: SocketAddr) {
        self.make_room();
        // Responses are small and written whole: waiting for more bytes would only delay them.
        if stream.set_nodelay(true).is_err() {
            return;
        }
        let worker = self.workers.choose();
        let Ok(stream) = Stream::to(worker, stream) else {
            return self.workers.ended(worker);
        };
        let state = ConnectionState::new();
        // Boxed, because every step of a connection would make its task larger by the size of what it passes on.
        let (serving, stack) = (self.serving.load_full(), Box::new(self.stack.clone()));
        let own = Arc::clone(&state);
        let serve = async move {
            let Ok(stream) = stream.arrived() else { return };
            match &serving.tls {
                None => {
                    let peer = Peer::new(address, false);
                    let unread = serving.protocols.serve(stream, peer, stack, own).await;
                    tell(address, unread);
                }
                Some(config) => {
                    let accepting = tls::accept(Arc::clone(config), stream);
                    let secured = secured(&serving, accepting, address, stack, own);
                    // Boxed, so that the task of a plain connection stays small.
                    Box::pin(secured).await;
                }
            }
        };
        let task = self.tasks.spawn_on(serve, self.workers.handle(worker));
        let watched = OpenConnection {
            opened: Instant::now(),
            state,
            watch: IdleTracker::new(Instant::now()),
            worker,
        };
        self.watched.insert(task.id(), watched);
        self.show();
    }

    /// Removes a connection that has ended. A panic in it affects no other, and was logged when it happened.
    fn forget(&mut self, ended: Result<(Id, ()), tokio::task::JoinError>) {
        let id = ended.map_or_else(|error| error.id(), |(id, ())| id);
        if let Some(watched) = self.watched.remove(&id) {
            self.workers.ended(watched.worker);
        }
        self.show();
    }

    fn look_after(&mut self, round: &mut Interval) {
        if round.period() != self.period() {
            *round = self.rounds();
        }
        let serving = self.serving.load();
        let patience = Timeouts {
            headers: serving.header_timeout,
            buffer_retention: BUFFER_RETENTION,
            idle: KEEP_ALIVE_TIMEOUT,
            stalled: serving.stall_timeout,
        };
        let now = Instant::now();
        for OpenConnection { state, watch, .. } in self.watched.values_mut() {
            state.order(watch.look(state, patience, now));
        }
    }

    async fn drain(mut self) -> usize {
        let limit = self.serving.load().drain_timeout;
        let linger = DRAIN_GRACE.min(limit);
        self.order(Directive::CloseAfterResponse);
        if timeout(linger, self.ending()).await.is_err() {
            self.order(Directive::Drain);
            let _ = timeout(limit - linger, self.ending()).await;
        }
        let left = self.tasks.len();
        self.tasks.shutdown().await;
        self.watched.clear();
        self.show();
        left
    }

    fn order(&self, order: Directive) {
        for watched in self.watched.values() {
            watched.state.order(order);
        }
    }

    /// Waits until the last connection has ended, and keeps checking the timeouts.
    async fn ending(&mut self) {
        let mut round = self.rounds();
        loop {
            tokio::select! {
                ended = self.tasks.join_next_with_id() => match ended {
                    Some(ended) => self.forget(ended),
                    None => return,
                },
                _ = round.tick() => self.look_after(&mut round),
            }
        }
    }

    fn show(&self) {
        if let Some(gauge) = &self.serving.load().gauge {
            gauge.set(i64::try_from(self.tasks.len()).unwrap_or(i64::MAX));
        }
    }
}

/// Does the TLS handshake, then serves HTTP. Everything up to the first request must fit into the timeout for headers.
async fn secured<T, S>(
    serving: &Serving,
    accepting: impl Future<Output = Result<(T, Option<String>), tls::HandshakeError>>,
    address: SocketAddr,
    stack: S,
    state: Arc<ConnectionState>,
) where
    T: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    S: Service<Request<Body>, Response = Response<Body>, Error = Infallible> + Send + 'static,
    S::Future: Send + 'static,
{
    let (reason, cause) = match state.until_ended(accepting).await {
        Some(Ok((stream, subject))) => {
            let peer = Peer::new(address, true);
            let peer = match subject {
                Some(subject) => peer.certified(&subject),
                None => peer,
            };
            let unread = serving.protocols.serve(stream, peer, stack, state).await;
            return tell(address, unread);
        }
        Some(Err(refused)) => (refused.kind(), refused.to_string()),
        None => (TlsFailure::Timeout, "no handshake in time".to_owned()),
    };
    if let Some(failures) = &serving.tls_failures {
        failures.count(reason);
    }
    if let Some(refused) = serving
        .refused_peers
        .as_ref()
        .filter(|_| reason != TlsFailure::Closed)
    {
        refused.report(address, &cause);
    }
    tracing::debug!(client = %address, reason = reason.as_str(), cause, "TLS handshake failed");
}

/// Logs a request that could not be parsed and was refused; it has no other record.
fn tell(client: SocketAddr, unread: Option<hyper::Error>) {
    if let Some(cause) = unread {
        let cause = Causes(&cause);
        tracing::debug!(%client, %cause, "cannot read the client's request");
    }
}

#[cfg(test)]
mod tests;
