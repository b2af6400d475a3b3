//! HTTP/2 to an address of a catalog: many requests over few connections (RFC 9113).
//!
//! Over `https` the catalog chooses (ALPN), and may choose HTTP/1.1; over `http` it is known beforehand. Each request
//! is driven by the task that sends it; only the frames of a connection move in a task of their own.
//!
//! A request that the catalog says it did not process counts as one that was never sent (RFC 9113, section 8.7), so it
//! is sent again.

mod exchange;
mod request_body;
mod response_body;
mod session;

use std::fmt;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::{Shared, WeakShared};
use http::Request;
use http::uri::{Authority, Scheme};
use tokio::time::timeout_at;

use super::pool::Pool;
use crate::backend::rest::attempt::{AnswerSource, AttemptOutcome, AttemptTerms, in_http1};
use crate::backend::transport::connect::{Dialer, Io};
use crate::body::Body;
use crate::error::BoxError;
use exchange::{StreamError, exchange};
pub(in crate::backend) use response_body::RecvBody;
use session::{Http2Connection, StreamPermit};

/// The number of times that a request is sent if the catalog does not process it, because its connections are closing.
const UNPROCESSED: u32 = 3;

/// The HTTP/2 connections to one base address.
pub(in crate::backend) struct Http2Pool {
    scheme: Scheme,
    authority: Authority,
    dialer: Arc<Dialer>,
    idle_timeout: Duration,
    state: Mutex<State>,
    /// True if the catalog was offered HTTP/2 and chose HTTP/1.1.
    declined: AtomicBool,
}

#[derive(Default)]
struct State {
    /// The open connections. They are filled in this order, so that the last ones become idle.
    sessions: Vec<Arc<Http2Connection>>,
    dialing: Option<WeakShared<Dialing>>,
    /// A connection that turned out to be for HTTP/1.1.
    other: Option<Arc<Mutex<Option<Io>>>>,
}

/// A connection that is being opened, for all requests that wait for one.
type Dialing = Pin<Box<dyn Future<Output = Result<DialOutcome, DialError>> + Send>>;

#[derive(Clone)]
enum DialOutcome {
    Session(Arc<Http2Connection>),
    /// A connection for HTTP/1.1, for the first request that takes it.
    Other(Arc<Mutex<Option<Io>>>),
}

/// The reason why there is no connection, for all requests that waited for it.
#[derive(Clone, Debug)]
struct DialError(Arc<BoxError>);

impl Http2Pool {
    /// Returns a pool of connections that `dialer` opens. Contacts no server.
    pub(in crate::backend) fn new(
        scheme: Scheme,
        authority: Authority,
        dialer: Arc<Dialer>,
        idle_timeout: Duration,
    ) -> Self {
        Self {
            scheme,
            authority,
            dialer,
            idle_timeout,
            state: Mutex::default(),
            declined: AtomicBool::new(false),
        }
    }

    /// Returns another pool with the same settings, without connections.
    pub(in crate::backend) fn another(&self) -> Self {
        let dialer = Arc::clone(&self.dialer);
        Self::new(
            self.scheme.clone(),
            self.authority.clone(),
            dialer,
            self.idle_timeout,
        )
    }

    /// Takes a place in an HTTP/2 connection; `None` if the catalog speaks HTTP/1.1. With `fresh_connection`, not in a
    /// connection that was open before.
    async fn slot(&self, fresh_connection: bool) -> Result<Option<StreamPermit>, BoxError> {
        if fresh_connection {
            self.lock().sessions.clear();
        } else if self.has_declined() {
            return Ok(None);
        }
        loop {
            let dialing = {
                let mut state = self.lock();
                if let Some(slot) = state.slot() {
                    return Ok(Some(slot));
                }
                self.dialing(&mut state)
            };
            let dialed = dialing.clone().await;
            self.lock().settle(&dialing, &dialed);
            match dialed? {
                DialOutcome::Session(_) => self.declined.store(false, Ordering::Relaxed),
                DialOutcome::Other(_) => {
                    self.declined.store(true, Ordering::Relaxed);
                    return Ok(None);
                }
            }
        }
    }

    /// True if the catalog chose HTTP/1.1 the last time.
    fn has_declined(&self) -> bool {
        self.declined.load(Ordering::Relaxed)
    }

    /// Opens a connection for HTTP/1.1. Fails also if the catalog now chooses HTTP/2: the next request is then sent in
    /// HTTP/2.
    pub(in crate::backend) async fn alone(&self) -> Result<Io, BoxError> {
        if let Some(io) = self.lock().other.take().and_then(|io| taken(&io)) {
            return Ok(io);
        }
        match open(Arc::clone(&self.dialer)).await? {
            DialOutcome::Session(session) => {
                self.lock().sessions.push(session);
                self.declined.store(false, Ordering::Relaxed);
                Err("it speaks HTTP/2 now".into())
            }
            DialOutcome::Other(io) => taken(&io).ok_or_else(|| "no connection".into()),
        }
    }

    /// Closes connections that have been idle for too long, or that take no more requests.
    pub(in crate::backend) fn reap(&self) {
        let timeout = self.idle_timeout;
        let retains_request =
            |session: &Arc<Http2Connection>| session.is_open() && !session.is_idle_for(timeout);
        self.lock().sessions.retain(retains_request);
    }

    fn dialing(&self, state: &mut State) -> Shared<Dialing> {
        let under_way = state.dialing.as_ref().and_then(WeakShared::upgrade);
        under_way.unwrap_or_else(|| {
            let dialing: Dialing = Box::pin(open(Arc::clone(&self.dialer)));
            let dialing = dialing.shared();
            state.dialing = dialing.downgrade();
            dialing
        })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn slot(&mut self) -> Option<StreamPermit> {
        let slot = self.sessions.iter().find_map(|session| session.slot());
        if slot.is_none() {
            self.sessions.retain(|session| session.is_open());
        }
        slot
    }

    /// Keeps the connection that was opened. A request that needs another one opens it.
    fn settle(&mut self, dialing: &Shared<Dialing>, dialed: &Result<DialOutcome, DialError>) {
        let kept = self.dialing.as_ref().and_then(WeakShared::upgrade);
        if !kept.is_some_and(|kept| kept.ptr_eq(dialing)) {
            return;
        }
        self.dialing = None;
        match dialed {
            Ok(DialOutcome::Session(session)) => self.sessions.push(Arc::clone(session)),
            Ok(DialOutcome::Other(io)) => self.other = Some(Arc::clone(io)),
            Err(_) => {}
        }
    }
}

async fn open(dialer: Arc<Dialer>) -> Result<DialOutcome, DialError> {
    let undialed = |cause: BoxError| DialError(Arc::new(cause));
    let (io, http2) = dialer.dial_either().await.map_err(undialed)?;
    if !http2 {
        return Ok(DialOutcome::Other(Arc::new(Mutex::new(Some(io)))));
    }
    let session = Http2Connection::open(io).await;
    let session = session.map_err(|error| undialed(error.into()))?;
    Ok(DialOutcome::Session(Arc::new(session)))
}

fn taken(io: &Mutex<Option<Io>>) -> Option<Io> {
    io.lock().unwrap_or_else(PoisonError::into_inner).take()
}

/// Sends `request`, in HTTP/1.1 if the catalog chooses so, and waits for the answer's headers. The request's content
/// must not be used afterwards, unless it is unsent.
pub(in crate::backend) async fn attempt(
    pool: &Pool,
    sessions: &Http2Pool,
    request: &mut Request<Body>,
    terms: AttemptTerms<'_>,
) -> AttemptOutcome {
    let AttemptTerms {
        deadline,
        fresh_connection,
        ..
    } = terms;
    let alone = AttemptTerms {
        retains_request: false,
        ..terms
    };
    let mut last = None;
    for _ in 0..UNPROCESSED {
        let slot = match timeout_at(deadline, sessions.slot(fresh_connection)).await {
            Ok(Ok(Some(slot))) => slot,
            Ok(Ok(None)) => match in_http1(pool, request, alone).await {
                AttemptOutcome::Unsent(cause) if !sessions.has_declined() => {
                    last = Some(cause);
                    continue;
                }
                outcome => return outcome,
            },
            Ok(Err(cause)) => return AttemptOutcome::Unsent(cause),
            Err(_) => return AttemptOutcome::TimedOut { sent: false },
        };
        let pooled = slot.used;
        match timeout_at(deadline, exchange(sessions, slot, request)).await {
            Ok(Ok(response)) => {
                let response = response.map(|body| AnswerSource::Stream(Box::new(body)));
                return AttemptOutcome::Answered(response);
            }
            Ok(Err(StreamError::Unsent(cause))) => last = Some(cause),
            Ok(Err(StreamError::Refused(cause))) => return AttemptOutcome::Refused(cause),
            Ok(Err(StreamError::Lost(cause))) => return AttemptOutcome::Lost { cause, pooled },
            Err(_) => return AttemptOutcome::TimedOut { sent: true },
        }
    }
    AttemptOutcome::Unsent(last.unwrap_or_else(|| "no connection".into()))
}

impl fmt::Display for DialError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl std::error::Error for DialError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.source()
    }
}
