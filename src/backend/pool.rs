//! How an address of a catalog is reached: the idle connections to it, the most recently used first, and new ones.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use http::header::HOST;
use http::uri::{InvalidUri, PathAndQuery, Uri};
use http::{HeaderValue, Request};
use rustls::ClientConfig;

use super::connection::Connection;
use super::dial::Dialer;
use crate::body::Body;
use crate::config;
use crate::error::BoxError;

/// The connections to one base address.
pub(super) struct Pool {
    /// The value of `host`.
    pub(super) host: HeaderValue,
    /// The base address's path without a closing slash; often empty.
    prefix: String,
    dialer: Dialer,
    /// The most recently used at the back.
    idle: Mutex<VecDeque<Idle>>,
    max_idle: usize,
    idle_timeout: Duration,
}

struct Idle {
    connection: Box<Connection>,
    since: Instant,
}

impl Pool {
    /// The address `uri`; nothing is contacted.
    pub(super) fn new(
        uri: &Uri,
        tls: Option<&Arc<ClientConfig>>,
        pool: &config::Pool,
    ) -> Result<Self, BoxError> {
        let authority = uri.authority().ok_or("a base address needs a host")?;
        // User information is no part of `host` (RFC 9110, section 7.2).
        let host = authority.as_str();
        let host = host.rsplit_once('@').map_or(host, |(_, host)| host);
        Ok(Self {
            host: HeaderValue::try_from(host)?,
            prefix: uri.path().trim_end_matches('/').to_owned(),
            dialer: Dialer::new(uri, tls, pool.connect_timeout)?,
            idle: Mutex::default(),
            max_idle: pool.max_idle,
            idle_timeout: pool.idle_timeout,
        })
    }

    /// Makes `request` one for `path` below this address.
    pub(super) fn address(
        &self,
        request: &mut Request<Body>,
        path: &PathAndQuery,
    ) -> Result<(), InvalidUri> {
        *request.uri_mut() = self.target(path)?;
        request.headers_mut().insert(HOST, self.host.clone());
        Ok(())
    }

    fn target(&self, path: &PathAndQuery) -> Result<Uri, InvalidUri> {
        if self.prefix.is_empty() {
            return Ok(Uri::from(path.clone()));
        }
        let path = PathAndQuery::try_from(format!("{}{path}", self.prefix))?;
        Ok(Uri::from(path))
    }

    /// An idle connection that the catalog has not closed, as far as is known.
    pub(super) fn take_idle(&self) -> Option<Box<Connection>> {
        loop {
            let Idle {
                mut connection,
                since,
            } = self.lock().pop_back()?;
            if since.elapsed() < self.idle_timeout && connection.is_usable() {
                return Some(connection);
            }
        }
    }

    /// A new connection.
    pub(super) async fn connect(&self) -> Result<Box<Connection>, BoxError> {
        let io = self.dialer.dial().await?;
        Ok(Box::new(Connection::open(io).await?))
    }

    /// Closes what has been idle for too long or was closed by the catalog.
    pub(super) fn reap(&self) {
        self.lock().retain_mut(|idle| {
            idle.since.elapsed() < self.idle_timeout && idle.connection.is_usable()
        });
    }

    /// Takes back a connection whose answer is over.
    pub(super) fn give_back(&self, connection: Box<Connection>) {
        let since = Instant::now();
        let mut idle = self.lock();
        let surplus = if idle.len() >= self.max_idle {
            idle.pop_front()
        } else {
            None
        };
        if self.max_idle > 0 {
            idle.push_back(Idle { connection, since });
        }
        drop(idle);
        drop(surplus);
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, VecDeque<Idle>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
