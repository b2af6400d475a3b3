//! Keeps the idle connections to one address of a catalog, takes the most recently used first, closes old ones, and
//! opens new ones.
//!
//! A connection is kept for the worker that opened it, because the connection wakes that worker.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use http::uri::{InvalidUri, PathAndQuery, Scheme, Uri};
use http::{HeaderValue, Request};
use rustls::ClientConfig;
use tokio::time::Instant;

use super::connection::Connection;
use crate::backend::transport::connect::Dialer;
use crate::backend::transport::http2::Http2Pool;
use crate::body::Body;
use crate::config;
use crate::error::BoxError;
use crate::util::worker;

/// The connections to one base address.
pub(in crate::backend) struct Pool {
    /// The value of `host`.
    pub(in crate::backend) host: HeaderValue,
    /// The path of the base address without a closing slash; often empty.
    prefix: String,
    dialer: Arc<Dialer>,
    /// One pool for each worker; `None` if HTTP/2 is not used.
    multiplexed: Option<Box<[Http2Pool]>>,
    /// The idle connections of each worker; fewer shelves if `max_idle` is less than the number of workers.
    shelves: Box<[WorkerIdle]>,
    idle_timeout: Duration,
}

/// The idle connections of one worker.
// The alignment keeps two workers from writing to the same line of the processors' caches.
#[repr(align(128))]
struct WorkerIdle {
    /// The connections, the most recently used at the back.
    idle: Mutex<VecDeque<Idle>>,
    max: usize,
}

struct Idle {
    connection: Box<Connection>,
    since: Instant,
}

impl Pool {
    /// Builds the pool for the address `uri`. Contacts no server.
    pub(in crate::backend) fn new(
        uri: &Uri,
        tls: Option<&Arc<ClientConfig>>,
        pool: &config::Pool,
        http2: bool,
    ) -> Result<Self, BoxError> {
        let authority = uri.authority().ok_or("a base address needs a host")?;
        // User information is not part of `host` (RFC 9110, section 7.2).
        let host = authority.as_str();
        let host = host.rsplit_once('@').map_or(host, |(_, host)| host);
        let dialer = Arc::new(Dialer::new(uri, tls, pool.connect_timeout)?);
        let multiplexed = if http2 {
            let scheme = uri.scheme().cloned().unwrap_or(Scheme::HTTP);
            let (authority, timeout) = (host.parse()?, pool.idle_timeout);
            let lines = Http2Pool::new(scheme, authority, Arc::clone(&dialer), timeout);
            Some((0..worker::count()).map(|_| lines.another()).collect())
        } else {
            None
        };
        Ok(Self {
            host: HeaderValue::try_from(host)?,
            prefix: uri.path().trim_end_matches('/').to_owned(),
            dialer,
            multiplexed,
            shelves: shelves(pool.max_idle, worker::count()),
            idle_timeout: pool.idle_timeout,
        })
    }

    /// Sets the request's URI for this address. `path` keeps the original path once the URI must change; it is filled
    /// in when needed.
    pub(in crate::backend) fn address(
        &self,
        request: &mut Request<Body>,
        path: &mut Option<PathAndQuery>,
    ) -> Result<(), InvalidUri> {
        if self.prefix.is_empty() && path.is_none() && is_path(request.uri()) {
            return Ok(());
        }
        let path = path.get_or_insert_with(|| {
            let path = request.uri().path_and_query().cloned();
            path.unwrap_or(PathAndQuery::from_static("/"))
        });
        *request.uri_mut() = self.target(path)?;
        Ok(())
    }

    fn target(&self, path: &PathAndQuery) -> Result<Uri, InvalidUri> {
        if self.prefix.is_empty() {
            return Ok(Uri::from(path.clone()));
        }
        let path = PathAndQuery::try_from(format!("{}{path}", self.prefix))?;
        Ok(Uri::from(path))
    }

    /// Takes an idle connection that the catalog has not closed, as far as is known at `now`.
    pub(in crate::backend) fn take_idle(&self, now: Instant) -> Option<Box<Connection>> {
        loop {
            let Idle {
                mut connection,
                since,
            } = self.shelf().lock().pop_back()?;
            if now.saturating_duration_since(since) < self.idle_timeout && connection.is_usable() {
                return Some(connection);
            }
        }
    }

    /// Opens a new connection.
    pub(in crate::backend) async fn connect(&self) -> Result<Box<Connection>, BoxError> {
        let io = match self.multiplexed() {
            None => self.dialer.dial().await?,
            Some(lines) => lines.alone().await?,
        };
        Ok(Box::new(Connection::open(io)))
    }

    /// Closes connections that have been idle for too long, or that the catalog has closed.
    pub(in crate::backend) fn reap(&self) {
        for lines in self.multiplexed.iter().flatten() {
            lines.reap();
        }
        let now = Instant::now();
        for shelf in &self.shelves {
            shelf.lock().retain_mut(|idle| {
                now.saturating_duration_since(idle.since) < self.idle_timeout
                    && idle.connection.is_usable()
            });
        }
    }

    /// Takes back a connection whose answer ended at `since`.
    pub(in crate::backend) fn give_back(&self, connection: Box<Connection>, since: Instant) {
        let shelf = self.shelf();
        let mut idle = shelf.lock();
        let surplus = if idle.len() >= shelf.max {
            idle.pop_front()
        } else {
            None
        };
        if shelf.max > 0 {
            idle.push_back(Idle { connection, since });
        }
        drop(idle);
        drop(surplus);
    }

    /// Returns this worker's HTTP/2 connections; `None` if HTTP/2 is not used.
    pub(in crate::backend) fn multiplexed(&self) -> Option<&Http2Pool> {
        let all = self.multiplexed.as_deref()?;
        all.get(worker::index() % all.len())
    }

    /// Returns this worker's shelf.
    fn shelf(&self) -> &WorkerIdle {
        &self.shelves[worker::index() % self.shelves.len()]
    }
}

/// True if `uri` is only a path, with or without a query.
fn is_path(uri: &Uri) -> bool {
    uri.scheme().is_none() && uri.authority().is_none() && uri.path_and_query().is_some()
}

impl WorkerIdle {
    fn lock(&self) -> MutexGuard<'_, VecDeque<Idle>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Builds the workers' shelves: at least one, with room for `max_idle` connections in all.
fn shelves(max_idle: usize, workers: usize) -> Box<[WorkerIdle]> {
    let count = workers.min(max_idle).max(1);
    let shelf = |index| WorkerIdle {
        idle: Mutex::default(),
        max: max_idle / count + usize::from(index < max_idle % count),
    };
    (0..count).map(shelf).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test says what it expects")]
    use tokio::io::AsyncReadExt as _;
    use tokio::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    fn a_request_goes_from_address_to_address_as_what_it_was() {
        let config = crate::config::RestConfig::new("http://a".parse().unwrap());
        let pool = |uri: &str| Pool::new(&uri.parse().unwrap(), None, &config.pool, false).unwrap();
        let addresses = [
            ("http://a", "/v1/t?x=1"),
            ("http://b/base/", "/base/v1/t?x=1"),
            ("http://c", "/v1/t?x=1"),
            ("http://d/other", "/other/v1/t?x=1"),
        ];
        for begin in ["/v1/t?x=1", "http://elsewhere/v1/t?x=1"] {
            for skipped in 0..addresses.len() {
                let mut request = Request::new(Body::empty());
                *request.uri_mut() = begin.parse().unwrap();
                let mut path = None;
                for (address, expected) in &addresses[skipped..] {
                    pool(address).address(&mut request, &mut path).unwrap();
                    assert_eq!(request.uri(), expected);
                }
            }
        }
    }

    #[tokio::test]
    async fn what_the_catalog_closed_is_not_taken_however_much_that_is() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let uri = format!("http://{address}").parse().unwrap();
        let config = crate::config::RestConfig::new(uri);
        let pool = Pool::new(&config.uri, None, &config.pool, false).unwrap();
        let mut ends = Vec::new();
        // This is more than a task may read before it must let others run.
        for _ in 0..200 {
            let connection = pool.connect().await.unwrap();
            pool.give_back(connection, Instant::now());
            ends.push(listener.accept().await.unwrap());
        }
        let mut last = TcpStream::connect(address).await.unwrap();
        ends.push(listener.accept().await.unwrap());
        drop(ends);
        assert_eq!(last.read(&mut [0]).await.unwrap(), 0);
        assert!(pool.take_idle(Instant::now()).is_none());
    }

    #[test]
    fn the_workers_shelves_have_room_for_as_many_as_there_may_be() {
        for (max_idle, workers, expected) in [
            (256, 1, &[256][..]),
            (256, 2, &[128, 128]),
            (7, 3, &[3, 2, 2]),
            (2, 4, &[1, 1]),
            (0, 4, &[0]),
        ] {
            let shelves = shelves(max_idle, workers);
            let room: Vec<_> = shelves.iter().map(|shelf| shelf.max).collect();
            assert_eq!(room, expected);
        }
    }
}
