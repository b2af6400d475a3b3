//! Accepts connections, holds them to their number and their patience, and stops.
//!
//! One thread accepts, and hands each connection to the worker that has the fewest. Beyond `limits.connections` nothing
//! is accepted until one ends: newcomers wait in the system's bounded backlog.

mod workers;

use std::collections::HashMap;
use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
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
use tokio::time::{Interval, MissedTickBehavior, interval, sleep, timeout};
use tower::Service;

use crate::backend::Peer;
use crate::body::Body;
use crate::error::cause::Causes;
use crate::server::connection::{ConnectionState, Directive, IdleTracker, Protocols, Timeouts};
use crate::server::tls;
use workers::{Stream, Workers};

/// The wait after an accept that failed for want of something, such as file descriptors.
const ACCEPT_BACKOFF: Duration = Duration::from_millis(50);
/// Connections without a request keep no buffers for one after this.
const BUFFER_RETENTION: Duration = Duration::from_secs(2);
/// Connections without a request end after this: longer than clients commonly keep theirs, so that the client is the
/// one who closes, and no request meets a connection that is just going away.
const KEEP_ALIVE_TIMEOUT: Duration = Duration::from_secs(120);

/// How long connections without a request are still there after the stop, for one that is on its way: whoever sends one
/// is told that it was the last.
const DRAIN_GRACE: Duration = Duration::from_secs(1);

/// A bound socket. Connections queue up from here on, and are accepted once it serves.
pub struct Listener {
    socket: TcpListener,
    address: SocketAddr,
    workers: Vec<Handle>,
}

/// How a listener serves: connections that are open go on as they began, new ones and all waits follow what is set.
#[derive(Clone)]
pub struct Serving {
    /// Open connections, at most.
    pub connections: usize,
    /// How long a client may take to send headers.
    pub header_timeout: Duration,
    /// How long nothing may move while a request is being served.
    pub stall_timeout: Duration,
    /// How long what runs may go on after the stop.
    pub drain_timeout: Duration,
    /// What clients are met with before HTTP.
    pub tls: Option<Arc<ServerConfig>>,
    /// How HTTP is spoken.
    pub protocols: Protocols,
    /// Shows the open connections.
    pub gauge: Option<IntGauge>,
}

struct Connections<S> {
    serving: Arc<ArcSwap<Serving>>,
    stack: S,
    workers: Workers,
    tasks: JoinSet<()>,
    watched: HashMap<Id, OpenConnection>,
}

struct OpenConnection {
    pulse: Arc<ConnectionState>,
    watch: IdleTracker,
    worker: usize,
}

impl Listener {
    /// Binds `address`; port 0 lets the system choose.
    pub async fn bind(address: SocketAddr) -> io::Result<Self> {
        let socket = TcpListener::bind(address).await?;
        let address = socket.local_addr()?;
        Ok(Self {
            socket,
            address,
            workers: vec![Handle::current()],
        })
    }

    /// Has its connections served by `workers`, the first of which is the one that is here.
    pub fn on(mut self, workers: &[Handle]) -> Self {
        self.workers = workers.to_vec();
        self
    }

    /// The address it is bound to.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves until `stop` is ready, then stops accepting, lets what runs end within `drain_timeout`, and ends the
    /// rest. Answers how many connections had to be ended.
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
        connections.accept(self.socket, stop).await;
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

    async fn accept(&mut self, socket: TcpListener, stop: impl Future<Output = ()>) {
        let mut stop = std::pin::pin!(stop);
        let mut round = self.rounds();
        loop {
            let room = self.tasks.len() < self.serving.load().connections;
            tokio::select! {
                biased;
                () = &mut stop => {
                    // Before newcomers are refused, so that whoever sees that they are can rely on it.
                    self.order(Directive::CloseAfterResponse);
                    return self.take_waiting(socket);
                }
                Some(ended) = self.tasks.join_next_with_id() => self.forget(ended),
                _ = round.tick() => self.look_after(&mut round),
                accepted = socket.accept(), if room => match accepted {
                    Ok((stream, address)) => self.open(stream, address),
                    Err(error) => give_way(&error).await,
                },
            }
        }
    }

    /// What the system has accepted already may have sent a request; closing the socket would break it.
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

    /// Fine enough for a deadline to be kept to an eighth.
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
        // Answers are small and written whole: waiting for more would only delay them.
        if stream.set_nodelay(true).is_err() {
            return;
        }
        let worker = self.workers.choose();
        let Ok(stream) = Stream::to(worker, stream) else {
            return self.workers.ended(worker);
        };
        let pulse = ConnectionState::new();
        // Boxed, or every step of a connection would make its task larger by what it hands on.
        let (serving, stack) = (self.serving.load_full(), Box::new(self.stack.clone()));
        let own = Arc::clone(&pulse);
        let serve = async move {
            let Ok(stream) = stream.arrived() else { return };
            let protocols = &serving.protocols;
            match &serving.tls {
                None => {
                    let peer = Peer::new(address, false);
                    let unread = protocols.serve(stream, peer, stack, own).await;
                    tell(address, unread);
                }
                Some(config) => {
                    let accepting = tls::accept(Arc::clone(config), stream);
                    let secured = secured(protocols, accepting, address, stack, own);
                    // Boxed, or it would make the task of a plain connection large.
                    Box::pin(secured).await;
                }
            }
        };
        let task = self.tasks.spawn_on(serve, self.workers.handle(worker));
        let watched = OpenConnection {
            pulse,
            watch: IdleTracker::new(Instant::now()),
            worker,
        };
        self.watched.insert(task.id(), watched);
        self.show();
    }

    /// A connection has ended; a panic in one is its own affair and was logged when it happened.
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
        for OpenConnection { pulse, watch, .. } in self.watched.values_mut() {
            pulse.order(watch.look(pulse, patience, now));
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
            watched.pulse.order(order);
        }
    }

    /// Until the last connection has ended.
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

/// A handshake, then HTTP. Until the first request, all of it is held to the time that headers have.
async fn secured<T, S>(
    protocols: &Protocols,
    accepting: impl Future<Output = Result<(T, Option<String>), tls::HandshakeError>>,
    address: SocketAddr,
    stack: S,
    pulse: Arc<ConnectionState>,
) where
    T: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    S: Service<Request<Body>, Response = Response<Body>, Error = Infallible> + Send + 'static,
    S::Future: Send + 'static,
{
    let (stream, subject) = match pulse.until_ended(accepting).await {
        Some(Ok(accepted)) => accepted,
        Some(Err(refused)) => {
            return tracing::debug!(client = %address, cause = %refused, "TLS handshake failed");
        }
        None => {
            return tracing::debug!(client = %address, cause = "no handshake in time", "TLS handshake failed");
        }
    };
    let peer = Peer::new(address, true);
    let peer = match subject {
        Some(subject) => peer.certified(&subject),
        None => peer,
    };
    let unread = protocols.serve(stream, peer, stack, pulse).await;
    tell(address, unread);
}

/// What could not be read as a request, and was refused, has no other record.
fn tell(client: SocketAddr, unread: Option<hyper::Error>) {
    if let Some(cause) = unread {
        let cause = Causes(&cause);
        tracing::debug!(%client, %cause, "cannot read the client's request");
    }
}

/// A client that left before it was accepted is nothing; anything else is said, and does not become a busy loop.
async fn give_way(error: &io::Error) {
    use io::ErrorKind::{ConnectionAborted, ConnectionReset, Interrupted};
    if !matches!(
        error.kind(),
        ConnectionAborted | ConnectionReset | Interrupted
    ) {
        tracing::error!(cause = %error, "cannot accept connections");
        sleep(ACCEPT_BACKOFF).await;
    }
}

#[cfg(test)]
mod tests;
